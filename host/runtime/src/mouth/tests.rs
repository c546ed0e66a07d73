use super::*;
use quorate_wire::FrameKind;

struct Nobody;

impl Mouth for Nobody {
    fn instead(&mut self, _: Time, _: Listener, _: OutFrame) -> Vec<Saying> {
        Vec::new()
    }
    fn hears(&mut self, _: Time, _: Listener, _: &Frame) -> Vec<Saying> {
        Vec::new()
    }
}

/// What is said at once leaves at once, in order; what is said later when it is time, and before what comes after.
#[test]
fn what_is_said_later_leaves_in_order() {
    let mut speech = Speech::of(Box::new(Nobody));
    let frame = |text: &[u8]| OutFrame::new(FrameKind::Order, text, vec![]);
    let say = |after, text: &[u8]| Saying {
        conn: ConnId::new(7),
        after: Span::from_millis(after),
        frame: frame(text),
    };
    let at = |millis| Time::ZERO.plus(Span::from_millis(millis));
    speech.note(at(10), vec![say(30, b"c"), say(0, b"a"), say(0, b"b")]);
    speech.note(at(20), vec![say(20, b"d")]);
    assert_eq!(speech.deadline(), Some(at(10)));
    let mut said =
        |millis| std::iter::from_fn(|| speech.due(at(millis))).map(|(_, frame)| frame).collect::<Vec<_>>();
    assert_eq!(said(10), [frame(b"a"), frame(b"b")]);
    assert_eq!(said(39), []);
    assert_eq!(said(40), [frame(b"c"), frame(b"d")]);
    assert_eq!(speech.deadline(), None);
}
