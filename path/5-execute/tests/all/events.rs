//! Events leave with the outcomes of their batch, each once, and what is taken back is not told.

use crate::support::{batch, commands, open, seq};
use quorate_execute::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, Events, Executor, Observer, Outcomes,
    ReplySink, Service, SessionLimits, Tells, read_all,
};
use quorate_types::{AgreedTime, SessionId};

/// Keeps what it was told, and tells it.
#[derive(Default)]
struct Told {
    kept: Vec<u8>,
    news: Vec<String>,
}

impl Service for Told {
    fn execute(&mut self, command: &[u8], _: &Context, _: &mut ReplySink<'_>) {
        self.kept.extend_from_slice(command);
        self.news.push(String::from_utf8_lossy(command).into_owned());
    }
    fn query(&self, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        out.write(&self.kept)
    }
    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        self.kept = read_all(from, 1 << 20)?;
        Ok(())
    }
    fn restored(&mut self) {
        self.news.push(format!("now {}", String::from_utf8_lossy(&self.kept)));
    }
    fn tells(&mut self) -> Option<&mut dyn Tells> {
        Some(self)
    }
}

impl Tells for Told {
    fn observer(&mut self) -> Option<Box<dyn Observer>> {
        None
    }
    fn take_events(&mut self) -> Option<Events> {
        (!self.news.is_empty()).then(|| Events::new(std::mem::take(&mut self.news)))
    }
}

fn told(events: Option<Events>) -> Vec<String> {
    events.map_or_else(Vec::new, |events| events.of().expect("a list of words"))
}

#[test]
fn events_leave_with_the_outcomes_and_what_is_taken_back_is_not_told() {
    let mut executor = Executor::new(Box::new(Told::default()), SessionLimits::default(), AgreedTime::ZERO);
    let mut out = Outcomes::new();
    executor.execute(seq(1), &batch(1, 1, &[open(1, 1)]), &mut out);
    assert!(out.take_events().is_none(), "nothing changed");
    let session: SessionId = out.list()[0].session;
    executor.execute(seq(2), &batch(2, 2, &[commands(session, 1, 1, &[b"a", b"b"])]), &mut out);
    assert_eq!(told(out.take_events()), ["a", "b"]);
    assert!(out.take_events().is_none(), "once");
    let before = executor.image().expect("its state");
    executor.execute(seq(3), &batch(3, 3, &[commands(session, 2, 1, &[b"c"])]), &mut out);
    executor.roll_back(&before).expect("its own image");
    assert!(executor.take_events().is_none(), "what was taken back was never told");
    executor.restore_image(&before.system, &before.objects).expect("its own image");
    assert_eq!(told(executor.take_events()), ["now ab"]);
}
