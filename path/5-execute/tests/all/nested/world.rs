//! Replicas of a service that asks others, in one process: each gets the same log, and a backend that tests play answers.

use super::service::steps;
use crate::support::{Ask, Seen, batch, items, list, open};
use quorate_execute::{
    Answered, Arrival, Execution, Executor, Final, ImageParts, NestedRequest, NestedRules, Ordered, Outcomes,
    Sequential, Service, SessionLimits,
};
use quorate_types::{AgreedTime, Digest, Items, Seq, SessionId, Time};
use quorate_wire::{Batch, Reply, ReplyStatus};
use std::rc::Rc;

/// What one place of the log holds.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) batch: Batch,
    pub(crate) arrivals: Vec<Arrival>,
}

/// What a batch did.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Did {
    pub(crate) ended: Vec<Seen>,
    pub(crate) left: Vec<NestedRequest>,
}

/// One replica.
pub(crate) struct Replica {
    make: Rc<dyn Fn() -> Box<dyn Service>>,
    stage: Box<dyn Execution>,
    out: Outcomes,
    seq: u64,
}

impl Replica {
    pub(crate) fn new(rules: &NestedRules) -> Self {
        let rules = rules.clone();
        Self::made_by(Rc::new(move || steps(&rules)))
    }

    /// A replica of another service.
    pub(crate) fn of<S: Service + 'static>(make: impl Fn() -> Box<S> + 'static) -> Self {
        Self::made_by(Rc::new(move || make()))
    }

    fn made_by(make: Rc<dyn Fn() -> Box<dyn Service>>) -> Self {
        let mut executor = Executor::new(make(), SessionLimits::default(), AgreedTime::ZERO);
        // That of the fuzz target's corpus: the newest one may be another one.
        executor.set_level(2);
        Self { make, stage: Box::new(Sequential::new(executor)), out: Outcomes::new(), seq: 0 }
    }

    pub(crate) fn executor(&mut self) -> &mut Executor {
        self.stage.state_mut()
    }

    /// Delivers the next place of the log.
    pub(crate) fn deliver(&mut self, place: &Place) {
        self.seq += 1;
        self.stage.batch(Seq::new(self.seq), place.batch.clone());
        self.stage.deliver(Ordered::Nested(place.arrivals.clone()));
    }

    /// Executes the next place that was delivered.
    pub(crate) fn next(&mut self) -> Did {
        let done = self.stage.next(Time::ZERO, &mut self.out);
        assert!(matches!(done, Some(Final::Batch(_))));
        self.stage.state().invariants(true);
        let seen = |(outcome, reply): (&quorate_execute::Outcome, Reply<'_>)| Seen {
            session: reply.session,
            number: reply.number.number(),
            status: reply.status,
            body: reply.body.to_vec(),
            opening: outcome.opening,
        };
        Did { ended: self.out.replies().map(seen).collect(), left: self.out.nested().to_vec() }
    }

    pub(crate) fn run(&mut self, place: &Place) -> Did {
        self.deliver(place);
        self.next()
    }

    pub(crate) fn image(&mut self) -> ImageParts {
        self.executor().image().expect("a service in the store")
    }

    /// What stands for the whole state: its system part, and the objects.
    pub(crate) fn digest(&mut self) -> (Digest, Digest) {
        let image = self.image();
        (Digest::new(*blake3::hash(&image.system).as_bytes()), image.objects.root())
    }

    /// Takes back what was executed since this image, and delivers something else in its place.
    pub(crate) fn roll_back(&mut self, to: &ImageParts) {
        self.executor().restore_image(&to.system, &to.objects).expect("its own image");
        self.seq = self.executor().seq().number();
    }

    /// Another replica that begins with this one's checkpoint.
    pub(crate) fn restarted(&mut self) -> Self {
        let image = self.image();
        let mut other = Self::made_by(self.make.clone());
        other.stage.restore(&image.system, &image.objects).expect("a good image");
        other.seq = self.seq;
        other.executor().invariants(true);
        assert_eq!(other.digest(), self.digest(), "a state is written back as it was read");
        other
    }
}

/// A place of the log, at this time in nanoseconds.
pub(crate) fn place(time: u64, asks: &[Ask], arrivals: Vec<Arrival>) -> Place {
    Place { batch: batch(time, time, asks), arrivals }
}

/// A replica with sessions of this many clients.
pub(crate) fn with_sessions(rules: &NestedRules, count: u64) -> (Replica, Vec<SessionId>) {
    let mut replica = Replica::new(rules);
    let openings: Vec<Ask> = (1..=count).map(|client| open(client, 1)).collect();
    let did = replica.run(&place(1, &openings, vec![]));
    (replica, did.ended.iter().map(|seen| seen.session).collect())
}

/// What the backend answers: each command, with `=` before it.
pub(crate) fn answer(request: &NestedRequest) -> Arrival {
    let commands = Items::parse(&request.commands).expect("a list of commands");
    let replies: Vec<Vec<u8>> = commands.iter().map(reply_to).collect();
    let replies: Vec<&[u8]> = replies.iter().map(|reply| &reply[..]).collect();
    let body = items(&replies).into();
    let (backend, number) = (request.backend, request.number);
    Arrival::Answer(Answered { backend, number, status: ReplyStatus::Done, body })
}

/// `=` and the last letters of a command, so that replies stay short.
fn reply_to(command: &[u8]) -> Vec<u8> {
    let from = command.len().saturating_sub(8);
    [b"=", &command[from..]].concat()
}

/// The reply to the only command of a request that ended.
pub(crate) fn reply(seen: &Seen) -> String {
    assert_eq!(seen.status, ReplyStatus::Done);
    list(&seen.body)
        .iter()
        .map(|reply| String::from_utf8_lossy(reply).into_owned())
        .collect::<Vec<_>>()
        .join("|")
}
