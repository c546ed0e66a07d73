//! A service hears that sessions end and that the membership changed: each once, where it stands in the order, whatever is restored or taken
//! back.

use crate::support::{batch, close, commands, open, seq};
use quorate_execute::{
    Context, Execution, Executor, Final, ImageParts, InStore, MembershipNow, ObjectService, Ordered,
    Outcomes, ReplySink, Sequential, SessionEnd, SessionLimits, Store, Typed, TypedService,
};
use quorate_types::{AgreedTime, MembershipId, ReplicaId, SessionId, Span, Time};
use serde::{Deserialize, Serialize};

/// Has all that it hears in the store, in order.
struct Hears;

impl Hears {
    fn hear(store: &mut Store, text: String) {
        let number = store.len();
        store.put(&number.to_be_bytes(), text.as_bytes());
    }
}

impl ObjectService for Hears {
    fn execute(&mut self, store: &mut Store, command: &[u8], ctx: &Context, _: &mut ReplySink<'_>) {
        Self::hear(store, format!("{}: {}", ctx.seq(), command.escape_ascii()));
    }
    fn query(&self, store: &Store, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        for (_, text) in store.range(b"", None) {
            reply.write(text);
            reply.write(b"\n");
        }
    }
    fn next_deadline(&self, store: &Store) -> Option<AgreedTime> {
        let due = store.range(b"", None).any(|(_, text)| text.ends_with(b"[r1, r3]"));
        due.then_some(AgreedTime::from_nanos(800))
    }
    fn deadline_reached(&mut self, store: &mut Store, ctx: &Context) {
        Self::hear(store, format!("{}: a deadline", ctx.seq()));
    }
    fn session_ended(&mut self, store: &mut Store, why: SessionEnd, ctx: &Context) {
        Self::hear(store, format!("{}: {} of {} {why:?}", ctx.seq(), ctx.session(), ctx.client()));
    }
    fn membership_changed(&mut self, store: &mut Store, now: &MembershipNow, ctx: &Context) {
        Self::hear(store, format!("{}: {} {:?}", ctx.seq(), now.number, now.replicas));
    }
}

fn limits() -> SessionLimits {
    SessionLimits { ttl: Span::from_nanos(1000), ..SessionLimits::default() }
}

fn executor() -> Executor {
    Executor::new(Box::new(InStore::new(Hears)), limits(), AgreedTime::ZERO)
}

fn heard(executor: &Executor) -> Vec<String> {
    let mut out = Vec::new();
    executor.query(b"", &mut out).expect("a short answer");
    String::from_utf8_lossy(&out).lines().map(str::to_owned).collect()
}

fn session(index: u32) -> SessionId {
    SessionId { index, generation: 1 }
}

fn members(number: u64, replicas: &[u16]) -> Ordered {
    let replicas = replicas.iter().map(|id| ReplicaId::new(*id)).collect();
    Ordered::Members(MembershipNow { number: MembershipId::new(number), replicas })
}

#[test]
fn sessions_that_expire_end_before_what_is_asked_in_the_order_of_their_ids() {
    let (mut executor, mut out) = (executor(), Outcomes::new());
    executor.execute(seq(1), &batch(1, 1, &[open(7, 1), open(8, 1), open(9, 1)]), &mut out);
    // The first two are used later, so that they are due in another order than they were opened in.
    executor.execute(seq(2), &batch(50, 1, &[commands(session(1), 1, 1, &[b"b"])]), &mut out);
    executor.execute(seq(3), &batch(60, 1, &[commands(session(0), 1, 1, &[b"a"])]), &mut out);
    let image = executor.image().expect("its state");
    let last = batch(1060, 1, &[open(9, 2)]);
    executor.execute(seq(4), &last, &mut out);
    let all = [
        "q2: b",
        "q3: a",
        "q4: session 0.1 of c7 Expired",
        "q4: session 1.1 of c8 Expired",
        "q4: session 2.1 of c9 Expired",
    ];
    assert_eq!(heard(&executor), all);
    executor.execute(seq(5), &batch(1070, 1, &[]), &mut out);
    assert_eq!(heard(&executor), all, "each once");
    // Where they are due in the table is no matter: who goes on from an image hears them in the same order.
    let mut other = self::executor();
    other.restore_image(&image.system, &image.objects).expect("an image");
    other.execute(seq(4), &last, &mut out);
    assert_eq!(heard(&other), all);
    other.execute(seq(5), &batch(1070, 1, &[]), &mut out);
    assert_eq!(other.image().expect("its state").system, executor.image().expect("its state").system);
}

#[test]
fn one_that_is_closed_ends_where_that_was_asked() {
    let (mut executor, mut out) = (executor(), Outcomes::new());
    executor.execute(seq(1), &batch(1, 1, &[open(7, 1), open(8, 1)]), &mut out);
    let asks =
        [commands(session(1), 1, 1, &[b"x"]), close(session(0), 1), commands(session(1), 2, 1, &[b"y"])];
    executor.execute(seq(2), &batch(2, 1, &asks), &mut out);
    let all = ["q2: x", "q2: session 0.1 of c7 Closed", "q2: y"];
    assert_eq!(heard(&executor), all);
    executor.execute(seq(3), &batch(3, 1, &[close(session(0), 1)]), &mut out);
    executor.execute(seq(4), &batch(900, 1, &[close(session(0), 2)]), &mut out);
    assert_eq!(heard(&executor), all, "whoever asks again ends nothing");
}

/// What becomes final of what was delivered: the images of borders.
fn finish(stage: &mut Sequential) -> Vec<ImageParts> {
    let (mut out, mut images) = (Outcomes::new(), Vec::new());
    while let Some(done) = stage.next(Time::ZERO, &mut out) {
        if let Final::Image(image) = done {
            images.push(image.expect("its state"));
        }
    }
    images
}

/// The second half of what is delivered.
fn deliver_rest(stage: &mut (dyn Execution + 'static)) {
    stage.batch(seq(2), batch(600, 1, &[commands(session(0), 1, 1, &[b"x"])]));
    stage.deliver(members(3, &[1, 3]));
    stage.batch(seq(3), batch(900, 1, &[]));
}

#[test]
fn the_membership_is_heard_where_its_change_is_done() {
    let mut stage = Sequential::new(executor());
    let delivers: &mut dyn Execution = &mut stage;
    delivers.batch(seq(1), batch(500, 1, &[open(7, 1)]));
    delivers.deliver(members(2, &[1, 2, 3, 4]));
    delivers.deliver(Ordered::Border);
    deliver_rest(delivers);
    assert!(heard(stage.state()).is_empty(), "delivered, and not executed");
    let images = finish(&mut stage);
    let all = ["q1: m2 [r1, r2, r3, r4]", "q2: x", "q2: m3 [r1, r3]", "q3: a deadline"];
    assert_eq!(heard(stage.state()), all, "what it waits for may follow from the membership");
    // Who goes on from the image does not hear again what is in it.
    let mut later = executor();
    later.restore_image(&images[0].system, &images[0].objects).expect("an image");
    assert_eq!(heard(&later), all[..1]);
    let mut later = Sequential::new(later);
    deliver_rest(&mut later);
    finish(&mut later);
    assert_eq!(heard(later.state()), all);
}

#[test]
fn what_is_taken_back_is_heard_again() {
    let (mut executor, mut out) = (executor(), Outcomes::new());
    for one in [members(2, &[1, 2]), members(3, &[1, 3])] {
        let before = executor.image().expect("its state");
        executor.take(&mut [one.clone()].into(), &mut out);
        executor.roll_back(&before).expect("its own image");
        executor.take(&mut [one].into(), &mut out);
    }
    assert_eq!(heard(&executor), ["q0: m2 [r1, r2]", "q0: m3 [r1, r3]"]);
}

/// Whoever reads at the seq of a batch sees what took effect with it.
#[test]
fn a_change_is_final_with_its_batch() {
    let mut stage = Sequential::new(executor());
    let delivers: &mut dyn Execution = &mut stage;
    delivers.batch(seq(1), batch(500, 1, &[]));
    delivers.set_level(1);
    delivers.deliver(members(2, &[1, 2]));
    delivers.batch(seq(2), batch(600, 1, &[]));
    let done = stage.next(Time::ZERO, &mut Outcomes::new());
    assert!(matches!(done, Some(Final::Batch(at)) if at == seq(1)));
    assert_eq!((heard(stage.state()), stage.is_behind()), (vec!["q1: m2 [r1, r2]".to_owned()], true));
}

/// How many sessions ended, and how many members there are.
#[derive(Default, Serialize, Deserialize)]
struct Counts(u32, usize);

impl TypedService for Counts {
    type Command = ();
    type Reply = ();
    type Query = ();
    type Answer = (u32, usize);

    fn execute(&mut self, (): (), _: &Context) {}
    fn query(&self, (): (), _: &Context) -> (u32, usize) {
        (self.0, self.1)
    }
    fn session_ended(&mut self, _: SessionEnd, _: &Context) {
        self.0 += 1;
    }
    fn membership_changed(&mut self, now: &MembershipNow, _: &Context) {
        self.1 = now.replicas.len();
    }
}

#[test]
fn typed_services_hear_it_too() {
    let service = Box::new(Typed(Counts::default()));
    let (mut executor, mut out) = (Executor::new(service, limits(), AgreedTime::ZERO), Outcomes::new());
    executor.execute(seq(1), &batch(1, 1, &[open(7, 1)]), &mut out);
    executor.execute(seq(2), &batch(2, 1, &[close(session(0), 1)]), &mut out);
    executor.take(&mut [members(2, &[1, 2, 3])].into(), &mut out);
    let mut answer = Vec::new();
    executor.query(&quorate_execute::encode_command(&()).expect("nothing"), &mut answer).expect("short");
    assert_eq!(quorate_execute::decode_reply::<(u32, usize)>(&answer), Ok((1, 3)));
}
