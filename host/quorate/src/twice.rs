//! A service that runs everything twice, for tests: what depends on more than state and command shows at the first command that does so.
//!
//! Two instances of the service get the same calls, one after the other. Each has hash maps, addresses, threads and clocks of its own, as two
//! replicas have. After each request their replies and what they changed must be equal; otherwise the service panics with what differs, and
//! its replica names the command ([`Halt::ServicePanicked`](crate::Halt::ServicePanicked)). Tests: `tests/all/twice.rs`.

use quorate_execute::{
    BatchReplies, CheckpointError, CheckpointSink, CheckpointSource, Context, KeyUse, Letter, MembershipNow,
    OwnReplies, ReplySink, Service, SessionEnd, Store, read_all,
};
use quorate_types::{AgreedTime, Items};

/// A state outside of the store is compared after each request while it has at most so many bytes, and else at checkpoints.
const SMALL: usize = 16 << 10;
/// So many bytes of what differs are shown.
const SHOWN: usize = 200;

/// Makes services that run everything twice and compare, in debug builds; in release builds they run once. For tests:
///
/// ```
/// # use quorate::{Context, LocalCluster, Typed, TypedService, twice};
/// # #[derive(Default, serde::Serialize, serde::Deserialize)]
/// # struct Counter(i64);
/// # impl TypedService for Counter {
/// #     type Command = i64;
/// #     type Reply = i64;
/// #     type Query = ();
/// #     type Answer = i64;
/// #     fn execute(&mut self, amount: i64, _: &Context) -> i64 { self.0 += amount; self.0 }
/// #     fn query(&self, (): (), _: &Context) -> i64 { self.0 }
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let cluster = LocalCluster::temporary(3, twice(|| Typed(Counter::default())))?;
/// # Ok(())
/// # }
/// ```
///
/// Commands run one after the other then, also those of a [`ParallelService`](crate::ParallelService). A service that tracks its changes,
/// tells somebody of them, or asks other services, runs once. What `make` gives must share nothing with what it gave before.
pub fn twice<S: Service + 'static>(
    make: impl Fn() -> S + Send + 'static,
) -> impl Fn() -> Box<dyn Service> + Send + 'static {
    move || {
        let mut one: Box<dyn Service> = Box::new(make());
        let once = one.tracked().is_some() || one.tells().is_some() || one.journaled().is_some();
        if once || !cfg!(debug_assertions) {
            return one;
        }
        Box::new(Twice { one, other: Box::new(make()), moved: false })
    }
}

struct Twice {
    /// The one whose replies count.
    one: Box<dyn Service>,
    other: Box<dyn Service>,
    /// The engine may have changed the first one's store.
    moved: bool,
}

impl Twice {
    /// Lets both do something to their states, and compares what comes of it: first what they give, which says most.
    fn both<T>(
        &mut self,
        what: &str,
        mut run: impl FnMut(&mut dyn Service) -> T,
        compare: impl FnOnce(&T, &T),
    ) -> T {
        if std::mem::take(&mut self.moved) {
            self.copy_store();
        }
        let before = self.stores().map(|stores| stores.map(Store::version));
        let (one, other) = (run(&mut *self.one), run(&mut *self.other));
        compare(&one, &other);
        let difference = match (self.stores(), before) {
            (Some(stores), Some(before)) => {
                let now = stores.map(Store::version);
                let [one, other] =
                    [0, 1].map(|at| now[at].changes_since(&before[at]).map(Some).chain([None]));
                first_difference(one, other)
            }
            _ => self.images(SMALL),
        };
        if let Some(difference) = difference {
            panic!("{what} left another state when it ran again: {difference}. {CAUSES}");
        }
        one
    }

    /// The stores of both, if that is where their states are.
    fn stores(&self) -> Option<[&Store; 2]> {
        Some([self.one.store()?, self.other.store()?])
    }

    fn copy_store(&mut self) {
        if let (Some(from), Some(to)) = (self.one.store(), self.other.store_mut()) {
            *to = Store::from_version(&from.version());
        }
    }

    /// How the states outside of stores differ, if both have at most so many bytes.
    fn images(&self, max: usize) -> Option<String> {
        let (mut one, mut other) = (Image { bytes: Vec::new(), max }, Image { bytes: Vec::new(), max });
        // What can not be written is found when a checkpoint is.
        self.one.checkpoint(&mut one).ok()?;
        self.other.checkpoint(&mut other).ok()?;
        let (one, other) = (one.bytes, other.bytes);
        let at = one.iter().zip(&other).position(|(one, other)| one != other);
        let at = at.or((one.len() != other.len()).then(|| one.len().min(other.len())))?;
        let (one, other) = (Shown(&one[at..]), Shown(&other[at..]));
        Some(format!("what its `checkpoint` writes differs from byte {at} on, {one:?} and {other:?}"))
    }
}

/// The first change that only one of them made.
type Made<'a> = Option<(&'a [u8], Option<&'a [u8]>)>;

fn first_difference<'a>(
    one: impl Iterator<Item = Made<'a>>,
    other: impl Iterator<Item = Made<'a>>,
) -> Option<String> {
    let (one, other) = one.zip(other).find(|(one, other)| one != other)?;
    let shown = |made: Made<'_>| match made {
        Some((key, Some(value))) => format!("the key {:?} got the value {:?}", Shown(key), Shown(value)),
        Some((key, None)) => format!("the key {:?} lost its value", Shown(key)),
        None => "no further key was changed".to_owned(),
    };
    Some(format!("at first {}, and then {}", shown(one), shown(other)))
}

const CAUSES: &str = "So replicas would differ. Typical causes are a hash map whose order shows, a clock, a random number that does not come \
    from the `Context`, an address, a thread, and state that two instances share";

/// Bytes for people.
struct Shown<'a>(&'a [u8]);

impl std::fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let more = self.0.len().saturating_sub(SHOWN);
        write!(f, "\"{}\"", self.0[..self.0.len() - more].escape_ascii())?;
        if more > 0 { write!(f, " and {more} bytes more") } else { Ok(()) }
    }
}

/// An image of a state that is not too large.
struct Image {
    bytes: Vec<u8>,
    max: usize,
}

impl CheckpointSink for Image {
    fn write(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        if self.bytes.len() + bytes.len() > self.max {
            return Err(CheckpointError::Malformed("a state that is too large to be compared now"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

/// A reply.
struct Answer {
    bytes: Vec<u8>,
    overflown: bool,
}

impl Answer {
    fn of(max: usize, write: impl FnOnce(&mut ReplySink<'_>)) -> Self {
        let mut bytes = Vec::new();
        let mut sink = ReplySink::new(&mut bytes, max);
        write(&mut sink);
        let overflown = sink.overflown();
        Self { bytes, overflown }
    }

    fn give(&self, reply: &mut ReplySink<'_>) {
        reply.write(&self.bytes);
        if self.overflown {
            // What there is no room for lets the whole reply count as too large.
            reply.write(&vec![0; reply.room() + 1]);
        }
    }
}

/// Panics if two replies to the same differ.
fn compare(what: &str, one: &[u8], other: &[u8]) {
    assert!(
        one == other,
        "{what} was answered with {:?}, and with {:?} when it ran again in the same state. {CAUSES}",
        Shown(one),
        Shown(other)
    );
}

/// The replies as a list; none if they are over the limit.
fn listed(replies: &BatchReplies) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    replies.write_to(&mut bytes).ok().map(|()| bytes)
}

/// Compares two lists of replies; none: they are over the limit.
fn compare_all(one: Option<&[u8]>, other: Option<&[u8]>) {
    if one == other {
        return;
    }
    let lists = [one, other].map(|list| list.and_then(|bytes| Items::parse(bytes).ok()));
    let [Some(one), Some(other)] = lists else {
        panic!("the replies to a request were over the limit once, and not when it ran again. {CAUSES}");
    };
    for (at, (one, other)) in one.iter().zip(other.iter()).enumerate() {
        compare(&format!("command {at} of a request"), one, other);
    }
    panic!("a request had {} replies, and {} when it ran again. {CAUSES}", one.len(), other.len());
}

impl Service for Twice {
    fn execute(&mut self, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        let max = reply.len() + reply.room();
        let run = |service: &mut dyn Service| Answer::of(max, |out| service.execute(command, ctx, out));
        let same = |one: &Answer, other: &Answer| compare("a command", &one.bytes, &other.bytes);
        self.both("a command", run, same).give(reply);
    }

    fn execute_batch(&mut self, commands: Items<'_>, ctx: &Context, replies: &mut BatchReplies) {
        let (max, mut again) = (replies.max(), None);
        let run = |service: &mut dyn Service| match &mut again {
            None => {
                service.execute_batch(commands, ctx, replies);
                again = Some(BatchReplies::new(max));
                listed(replies)
            }
            Some(again) => {
                service.execute_batch(commands, ctx, again);
                listed(again)
            }
        };
        self.both("a request", run, |one, other| compare_all(one.as_deref(), other.as_deref()));
    }

    fn query(&self, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        let max = reply.len() + reply.room();
        let one = Answer::of(max, |out| self.one.query(query, ctx, out));
        if !self.moved {
            let other = Answer::of(max, |out| self.other.query(query, ctx, out));
            compare("a query", &one.bytes, &other.bytes);
        }
        one.give(reply);
    }

    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        if let Some(difference) = self.images(usize::MAX) {
            panic!("two states differ after equal requests: {difference}. {CAUSES}");
        }
        self.one.checkpoint(out)
    }

    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        let image = read_all(from, usize::MAX)?;
        self.one.restore(&mut &image[..])?;
        self.other.restore(&mut &image[..])
    }

    fn name(&self) -> &str {
        self.one.name()
    }

    fn version(&self) -> u32 {
        self.one.version()
    }

    fn migrate(&mut self, from: u32, ctx: &Context) -> Result<(), String> {
        self.both(
            "`migrate`",
            |service| service.migrate(from, ctx),
            |one, other| {
                assert!(one == other, "`migrate` gave {one:?}, and {other:?} when it ran again. {CAUSES}");
            },
        )
    }

    fn frees(&self, command: &[u8]) -> bool {
        self.one.frees(command)
    }

    fn objects(&self, bytes: &[u8], is_query: bool, each: &mut dyn FnMut(&[u8])) {
        self.one.objects(bytes, is_query, each);
    }

    fn next_deadline(&self) -> Option<AgreedTime> {
        let at = self.one.next_deadline();
        if !self.moved {
            let again = self.other.next_deadline();
            assert!(at == again, "the next deadline is {at:?}, and {again:?} when asked again. {CAUSES}");
        }
        at
    }

    fn deadline_reached(&mut self, ctx: &Context) {
        self.both("a deadline", |service| service.deadline_reached(ctx), |(), ()| {});
    }

    fn session_ended(&mut self, why: SessionEnd, ctx: &Context) {
        self.both("the end of a session", |service| service.session_ended(why, ctx), |(), ()| {});
    }

    fn membership_changed(&mut self, now: &MembershipNow, ctx: &Context) {
        self.both("a change of the membership", |service| service.membership_changed(now, ctx), |(), ()| {});
    }

    fn keys(&self, bytes: &[u8], is_query: bool, used: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        self.one.keys(bytes, is_query, used)
    }

    fn restored(&mut self) {
        self.copy_store();
        self.moved = false;
        self.one.restored();
        self.other.restored();
    }

    fn take_letters(&mut self) -> Vec<Letter> {
        let (one, other) = (self.one.take_letters(), self.other.take_letters());
        assert!(one == other, "the letters {one:?} were {other:?} when written again. {CAUSES}");
        one
    }

    fn own_replies(&self) -> Option<&dyn OwnReplies> {
        self.one.own_replies()
    }

    fn store(&self) -> Option<&Store> {
        self.one.store()
    }

    fn store_mut(&mut self) -> Option<&mut Store> {
        self.moved = true;
        self.one.store_mut()
    }

    fn twin(&self) -> Option<Box<dyn Service>> {
        let (one, other) = (self.one.twin()?, self.other.twin()?);
        Some(Box::new(Self { one, other, moved: true }))
    }
}
