//! Delivery does not wait for execution, and what became final comes in the order of delivery.

use crate::support::{Echo, Replica, batch, commands, open, seq};
use quorate_execute::{Execution, Executor, Final, Ordered, Outcomes, Sequential, SessionLimits};
use quorate_types::{AgreedTime, Time};

fn stage() -> Box<dyn Execution> {
    let executor = Executor::new(Box::new(Echo::default()), SessionLimits::default(), AgreedTime::ZERO);
    Box::new(Sequential::new(executor))
}

/// What became final, in words.
fn finals(stage: &mut Box<dyn Execution>) -> Vec<String> {
    let (mut words, mut outcomes) = (Vec::new(), Outcomes::new());
    while let Some(done) = stage.next(Time::ZERO, &mut outcomes) {
        words.push(match done {
            Final::Batch(seq) => format!("{seq}: {} outcomes of {}", outcomes.list().len(), outcomes.seq()),
            Final::Nothing => "nothing".into(),
            Final::Ahead(border, objects) => format!("ahead of {border}: {}", objects.is_some()),
            Final::Image(image) => format!("image of {}", image.is_ok()),
        });
    }
    words
}

#[test]
fn what_is_delivered_becomes_final_in_order() {
    let mut stage = stage();
    stage.batch(seq(1), batch(500, 1, &[open(1, 1)]));
    stage.pass(seq(4));
    stage.deliver(Ordered::Ahead(7));
    stage.deliver(Ordered::Border);
    stage.set_level(1);
    stage.batch(seq(5), batch(700, 1, &[]));
    assert_eq!((stage.agreed().seq(), stage.agreed().time()), (seq(5), AgreedTime::from_nanos(700)));
    assert_eq!(
        (stage.state().seq(), stage.state().time()),
        (seq(0), AgreedTime::ZERO),
        "nothing is executed"
    );
    assert!(stage.is_behind());
    assert_eq!(
        finals(&mut stage),
        [
            "q1: 1 outcomes of q1",
            "nothing",
            "ahead of 7: false",
            "image of true",
            "nothing",
            "q5: 0 outcomes of q5"
        ]
    );
    assert_eq!((stage.state().seq(), stage.state().time()), (seq(5), AgreedTime::from_nanos(700)));
    assert!(!stage.is_behind() && stage.deadline().is_none());
}

/// An image at a border is that of the batches before it, whatever was delivered behind it meanwhile.
#[test]
fn an_image_holds_what_is_before_its_border() {
    let (mut stage, mut other) = (stage(), Replica::new(SessionLimits::default()));
    stage.batch(seq(1), batch(500, 1, &[open(1, 1)]));
    stage.deliver(Ordered::Border);
    stage.batch(seq(2), batch(900, 2, &[open(2, 2)]));
    other.run(500, &[open(1, 1)]);
    let mut outcomes = Outcomes::new();
    assert!(matches!(stage.next(Time::ZERO, &mut outcomes), Some(Final::Batch(_))));
    let Some(Final::Image(Ok(image))) = stage.next(Time::ZERO, &mut outcomes) else { panic!("a border") };
    assert_eq!((image.system, image.objects.root()), other.digest());
}

/// What was delivered and not executed does not matter any more where another state takes its place.
#[test]
fn a_restored_state_forgets_what_was_under_way() {
    let (mut stage, mut other) = (stage(), Replica::new(SessionLimits::default()));
    other.run(500, &[open(1, 1)]);
    other.run(600, &[]);
    let image = other.image();
    stage.batch(seq(1), batch(500, 1, &[open(1, 1)]));
    stage.restore(&image.system, &image.objects).expect("an image");
    assert_eq!(finals(&mut stage), Vec::<String>::new());
    assert_eq!((stage.agreed().seq(), stage.state().seq()), (seq(2), seq(2)));
    stage.batch(seq(3), batch(700, 3, &[]));
    assert_eq!(finals(&mut stage), ["q3: 0 outcomes of q3"]);
}

/// Executed, taken back and executed again is executed once.
#[test]
fn what_is_taken_back_leaves_nothing() {
    let mut replica = Replica::new(SessionLimits::default());
    let session = replica.opened(1, 1);
    let (before, digest) = (replica.image(), replica.digest());
    let ask = || commands(session, 1, 1, &[b"a", b"b"]);
    let first = replica.run(900, &[ask()]);
    let after = replica.digest();
    assert_ne!(after, digest);
    replica.executor.roll_back(&before).expect("its own image");
    assert_eq!(replica.digest(), digest);
    assert_eq!(replica.executor.agreed().time(), AgreedTime::from_nanos(900), "delivered it is");
    assert_eq!(first.len(), 1);
}
