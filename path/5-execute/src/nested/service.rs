//! Services whose commands ask other services, and what a command gets to hear.

use super::call::Call;
use super::chain::Refusal;
use super::rules::NestedRules;
use crate::context::Context;
use crate::objects::ObjectService;
use crate::service::{KeyUse, ReplySink};
use bytes::Bytes;
use quorate_state::store::Store;
use quorate_wire::ReplyStatus;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A deterministic service in the object store whose commands may ask other services.
///
/// A command is written as one function, though other commands run while it waits. Its future is polled by the executor alone: there is no
/// runtime, nothing wakes it, and it may await nothing but [`Call::lock`] and [`Call::answer`]. What it read and was answered is kept in its
/// journal. After a restart the same command runs again, and gets the same from its journal, while its writes are left out. So the rules of
/// [`crate::Service`] hold, and two more: whatever a command does follows from its bytes, its [`Context`], and what its [`Call`] gives; and
/// `self` is for configuration only.
///
/// The part of a command between two halts is a *leg*. Nobody sees half of a leg. Between two legs others may change the state, so a command
/// that needs something unchanged takes a lock.
pub trait JournaledService: Send + Sync + 'static {
    /// Runs one ordered command, and returns its reply. Write it as `async fn`.
    fn execute(&self, call: &mut Call, command: &[u8], ctx: &Context)
    -> impl Future<Output = Vec<u8>> + Send;

    /// Answers a read, weak or strong, from the state between two legs.
    fn query(&self, store: &Store, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>);

    /// The reply to a command that was ended, and whose last leg does not count. It must follow from `why` alone.
    fn failed(&self, why: Failure) -> Vec<u8> {
        why.to_string().into_bytes()
    }

    /// Whether the command only frees space, as [`crate::Service::frees`] says.
    fn frees(&self, command: &[u8]) -> bool {
        let _ = command;
        false
    }

    /// Names the keys that a command or query uses, as [`crate::Service::keys`] does.
    fn keys(&self, bytes: &[u8], is_query: bool, used: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        let _ = (bytes, is_query, used);
        false
    }
}

/// Why a command was ended. Its writes since its last halt do not count, its locks are free, and what it asked before stays asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// It awaited something that is not its call's, which nobody would wake.
    Foreign,
    /// It did so many operations in one leg.
    Operations(u64),
    /// It asked so often.
    Asks(u32),
    /// What it asked, a key, a value or the name of a lock is longer than this.
    TooLong(u64),
    /// Its journal would have more than this many bytes.
    Journal(u64),
    /// The journals of all commands under way would have more than this many bytes.
    Journals(u64),
    /// It panicked.
    Panicked,
    /// It did something else than before, when it ran again from its journal.
    NotDeterministic,
    /// A chain of services led here that this service does not take.
    Refused(Refusal),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("ended: it awaits something that is neither a lock nor an answer"),
            Self::Operations(max) => write!(f, "ended: more than {max} operations between two halts"),
            Self::Asks(max) => write!(f, "ended: it asks other services more than {max} times"),
            Self::TooLong(max) => {
                write!(f, "ended: a key, a value, a lock's name or a question of more than {max} bytes")
            }
            Self::Journal(max) => write!(f, "ended: its journal would have more than {max} bytes"),
            Self::Journals(max) => write!(f, "ended: all journals together would have more than {max} bytes"),
            Self::Panicked => f.write_str("ended: it panicked"),
            Self::NotDeterministic => f.write_str("ended: the service is not deterministic"),
            Self::Refused(why) => write!(f, "not executed: {why}"),
        }
    }
}

impl std::error::Error for Failure {}

/// What a nested request led to, for one command of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The backend executed it, and replied this.
    Reply(Bytes),
    /// No answer came in time, or none that can be read. Nobody knows whether the backend executed it, or will.
    Unknown,
    /// It did not leave, or the backend did not take it.
    Refused(Refusal),
    /// The backend said this instead of a reply.
    Status(ReplyStatus),
}

/// What was asked, to be answered with [`Call::answer`], once. Only the command that asked can use it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(super) u32);

/// A lock can not be had: its holder waits, directly or not, for a lock that this command holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlock;

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the lock's holder waits for a lock of this command")
    }
}

impl std::error::Error for Deadlock {}

/// A command that runs.
pub(super) type Running = Pin<Box<dyn Future<Output = Vec<u8>> + Send>>;

/// [`JournaledService`] behind a pointer.
pub trait AnyJournaled: Send + Sync {
    /// Begins a command, which has this call.
    #[doc(hidden)]
    fn begin(self: Arc<Self>, call: Call, command: Bytes, ctx: Context) -> Running;
    /// As [`JournaledService::failed`].
    #[doc(hidden)]
    fn failed(&self, why: Failure) -> Vec<u8>;
}

impl<S: JournaledService> AnyJournaled for S {
    fn begin(self: Arc<Self>, mut call: Call, command: Bytes, ctx: Context) -> Running {
        Box::pin(async move { self.execute(&mut call, &command, &ctx).await })
    }
    fn failed(&self, why: Failure) -> Vec<u8> {
        JournaledService::failed(self, why)
    }
}

/// The adapter from [`JournaledService`] to [`ObjectService`]: `InStore::new(Journaled::new(service, rules))` is a service. The executor runs its
/// commands itself.
pub struct Journaled<S> {
    service: Arc<S>,
    rules: NestedRules,
}

impl<S> Journaled<S> {
    /// A service whose commands may ask others, by these rules. All replicas must begin with the same rules; later checkpoints carry them.
    pub fn new(service: S, rules: NestedRules) -> Self {
        Self { service: Arc::new(service), rules }
    }
}

impl<S: JournaledService> ObjectService for Journaled<S> {
    fn execute(&mut self, _: &mut Store, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {
        unreachable!("the executor runs the commands of a journaled service")
    }
    fn query(&self, store: &Store, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        self.service.query(store, query, ctx, reply);
    }
    fn frees(&self, command: &[u8]) -> bool {
        self.service.frees(command)
    }
    fn keys(&self, bytes: &[u8], is_query: bool, used: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        self.service.keys(bytes, is_query, used)
    }
    fn journaled(&self) -> Option<(Arc<dyn AnyJournaled>, NestedRules)> {
        Some((self.service.clone(), self.rules.clone()))
    }
}
