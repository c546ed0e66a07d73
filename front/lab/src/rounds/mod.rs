//! How long a group of processes waits for the first, second, ... reply: what `quorate doctor visigoth` and `quorate bench figure visigoth-2`
//! measure, to choose s and T of the Visigoth model. After "Visigoth Fault Tolerance" (EuroSys 2015), section 5.
//!
//! Once a second each process asks all others by a request of 50 KB with a tag; each answers when it has written the request to disk and synced
//! it. Counted is for each k after which time the k-th reply had come, over all rounds and processes.
//!
//! Files: `member` (a process of the group), `wire` (messages), `store` (the disk), `times` (what is counted), `advice` (what follows for s and
//! T). Text, and a page with charts, are the figure's: `bench/figure/replies.rs`. Tests: `tests.rs`, and one beside `times` and `advice`.

mod advice;
mod member;
mod store;
#[cfg(test)]
mod tests;
mod times;
mod wire;

pub use crate::bench::replies::{page, text};
pub(crate) use advice::percent;
pub use advice::{Advice, Choice, Wish};
pub use times::{MEMBERS_MAX, Measured, Times};
pub use wire::MESSAGE_MAX;

use member::{Place, listen, take_part};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::random;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::Duration;
use wire::Group;

/// The payload of a request, as in the literature.
pub const MESSAGE_BYTES: usize = 50_000;

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How many rounds each process makes.
    pub rounds: u64,
    /// From one round to the next.
    pub every: Duration,
    /// The payload of a request, at most [`MESSAGE_MAX`].
    pub message_bytes: usize,
    /// How long a reply is waited for.
    pub patience: Duration,
    /// How long to wait until all members are there.
    pub wait: Duration,
}

/// Takes part in the group at these addresses, as the member at `me`.
///
/// `secret`: what all members know and strangers do not. `directory`: on the disk to which requests are written; nothing is left there.
/// `progress` hears the number of each round.
///
/// # Errors
/// When this address can not be listened on, others can not be reached, or the disk fails.
pub fn join(
    addresses: &[String],
    me: &str,
    secret: &[u8],
    (plan, directory): (&Plan, &Path),
    progress: impl Fn(u64),
) -> Outcome<Measured> {
    let place = addresses.iter().position(|address| address == me).ok_or_else(|| {
        Failure::usage(format!("{me} is no address of the group: write it as it stands in --group"))
    })?;
    let listener = listen(me).doing(format_args!("listen on {me}"))?;
    let group = Group::new(addresses, plan.message_bytes, secret);
    take_part(&listener, Place { addresses, me: place, directory }, group, plan, progress)
}

/// A group of so many members in this process: a first look, which shows this machine's disk and scheduling, and no network.
///
/// # Errors
/// When the system refuses.
pub fn local(
    members: usize,
    plan: &Plan,
    directory: &Path,
    progress: impl Fn(u64) + Sync,
) -> Outcome<Measured> {
    let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners: Vec<TcpListener> =
        (0..members).map(bind).collect::<Result<_, _>>().doing("find free ports")?;
    let address = |listener: &TcpListener| listener.local_addr().map(|address| address.to_string());
    let addresses: Vec<String> =
        listeners.iter().map(address).collect::<Result<_, _>>().doing("find free ports")?;
    let group = Group::new(&addresses, plan.message_bytes, &random::secret()?);
    let part = |me: usize| {
        let place = Place { addresses: &addresses, me, directory };
        let tell = |round| {
            if me == 0 {
                progress(round)
            }
        };
        take_part(&listeners[me], place, group.clone(), plan, tell)
    };
    let parts: Vec<Outcome<Measured>> = std::thread::scope(|scope| {
        let part = &part;
        let threads: Vec<_> = (0..members).map(|me| scope.spawn(move || part(me))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Outcome<Measured>>| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("a member panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    let mut all: Option<Measured> = None;
    for part in parts {
        let part = Measured { local: true, ..part? };
        all = Some(match all {
            Some(all) => all.merge(&part)?,
            None => part,
        });
    }
    all.ok_or_else(|| Failure::usage("a group has two members or more"))
}
