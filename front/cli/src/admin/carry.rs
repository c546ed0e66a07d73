//! Hands commands of administrators to all replicas, and believes what one honest replica at least says.

use super::keys::Signing;
use crate::member::{self, Asked, View};
use quorate_command::admin::{Admin, Answer};
use quorate_command::cluster::Cluster;
use quorate_command::failure::{Failure, Outcome};
use quorate_wire::{AdminCommand, FrameKind, MemberRequest, Memberships, SignedCommand};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a command may take to be ordered.
const ORDERED: Duration = Duration::from_secs(60);
/// For so long replicas may say that something is not possible yet: they learn of it one after the other.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(100);

/// Who administers a cluster, and what they commanded.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Standing {
    pub(crate) executed: u64,
    pub(crate) threshold: u8,
    pub(crate) keys: Vec<String>,
    pub(crate) results: Vec<(u64, String)>,
}

impl Standing {
    /// As enough replicas say.
    pub(crate) fn of(cluster: &Cluster) -> Outcome<Self> {
        let view = View::of(cluster)?;
        let members = Cluster { members: view.addresses(), ..cluster.clone() };
        let answers = Admin::new(&members)?.ask_all();
        let read = |answer: &Answer| {
            let status = answer.status.as_ref().ok()?;
            Self::deserialize(&status.raw["membership"]["administration"]).ok()
        };
        let all: Vec<Self> = answers.iter().filter_map(read).collect();
        // Replicas are not equally far.
        let newest = believed(&all, members.truth());
        newest.max_by_key(|standing| standing.executed).cloned().ok_or_else(|| {
            Failure::new(
                "not enough replicas say the same of administrators: are most of them running? A cluster that was made without \
                 `[administration]` has none",
            )
        })
    }
}

/// What at least so many say alike.
pub(crate) fn believed<T: PartialEq>(all: &[T], needed: usize) -> impl Iterator<Item = &T> {
    all.iter().filter(move |one| all.iter().filter(|other| other == one).count() >= needed)
}

/// What a change of the members would be, as enough replicas say, and the number of the command.
pub(crate) fn drafted(cluster: &Cluster, request: &MemberRequest) -> Outcome<(u64, Memberships)> {
    let until = Instant::now() + PATIENCE;
    let text = agreed(cluster, &Asked { frame: &|| request.frame(), reply: FrameKind::MemberReply }, until)?;
    let mut words = text.split(' ').skip(1);
    let number = words.next().and_then(|word| word.parse().ok());
    let change = words.next().and_then(|word| crate::kv::unhex(word.as_bytes()));
    let change = change.and_then(|bytes| Memberships::decode(bytes.into()).ok());
    number.zip(change).ok_or_else(|| {
        Failure::new(format!("the replicas answered `{text}`, which this program does not understand"))
    })
}

/// What a command would be, as enough replicas say.
pub(crate) fn drafted_text(cluster: &Cluster, asked: &Asked<'_>) -> Outcome<String> {
    agreed(cluster, asked, Instant::now() + PATIENCE)
}

/// Asks all replicas until enough of them give the same answer that is no error.
fn agreed(cluster: &Cluster, asked: &Asked<'_>, until: Instant) -> Outcome<String> {
    loop {
        let view = View::of(cluster)?;
        let members = Cluster { members: view.addresses(), ..cluster.clone() };
        let answers = member::ask_all(&members, asked);
        let good: Vec<&String> = answers.iter().filter_map(|(_, answer)| answer.as_ref().ok()).collect();
        if let Some(text) = believed(&good, members.truth()).next() {
            return Ok((*text).clone());
        }
        if Instant::now() >= until {
            return Err(Failure::new(reasons(&answers)));
        }
        std::thread::sleep(LOOK);
    }
}

/// Why replicas do not do it: the reason of most of them, and who says something else.
fn reasons(answers: &[(u16, Result<String, String>)]) -> String {
    let mut by_text: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
    for (replica, answer) in answers {
        let text = match answer {
            Ok(text) => text.as_str(),
            Err(why) => why.as_str(),
        };
        by_text.entry(text).or_default().push(*replica);
    }
    let mut all: Vec<(&str, Vec<u16>)> = by_text.into_iter().collect();
    all.sort_by_key(|(_, who)| std::cmp::Reverse(who.len()));
    let lines = all.iter().map(|(text, who)| {
        let who: Vec<String> = who.iter().map(|id| format!("r{id}")).collect();
        format!("{}: {text}", who.join(", "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Signs a command, hands it over and waits for its result; or writes it where it is to be signed later. Gives what to say. The reason, if
/// there is one, is for audit logs.
pub(crate) fn carry_out(
    cluster: &Cluster,
    signing: &Signing,
    (number, command): (u64, AdminCommand),
    reason: &str,
) -> Outcome<String> {
    let mut signed = SignedCommand::new(number, command);
    match signing.sign(cluster, &mut signed, reason)? {
        Some(()) => submit(cluster, &signed, reason),
        None => Ok(signing.later()),
    }
}

/// Hands a command to all replicas and waits until enough of them executed it. Gives the result.
pub(super) fn submit(cluster: &Cluster, signed: &SignedCommand, reason: &str) -> Outcome<String> {
    let until = Instant::now() + PATIENCE;
    let frame = || signed.frame_because(reason);
    agreed(cluster, &Asked { frame: &frame, reply: FrameKind::SignedReply }, until)?;
    let until = Instant::now() + ORDERED;
    loop {
        let standing = Standing::of(cluster);
        let results = standing.iter().flat_map(|standing| &standing.results);
        if let Some((_, result)) = results.into_iter().find(|(number, _)| *number == signed.number) {
            return match result.strip_prefix("refused: ") {
                None => Ok(result.clone()),
                Some(why) => Err(Failure::new(format!("the command was refused: {why}"))),
            };
        }
        // In an era without administrators nothing says any more what they commanded.
        if let AdminCommand::Era(era) = &signed.command
            && crate::faults::is_in(cluster, era.number)
        {
            return Ok(format!("era {} begins", era.number));
        }
        if Instant::now() >= until {
            return Err(Failure::new(format!(
                "command {} was handed over and is not executed yet: it needs most of the replicas. `quorate admin status` shows what \
                 became of it",
                signed.number
            )));
        }
        std::thread::sleep(LOOK);
    }
}
