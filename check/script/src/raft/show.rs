//! Events, messages and replicas as text.

use crate::mod_smart;

use super::record::{OnDisk, Vote, anchor_position, read_record};
use crate::world::{Event, World};
use bytes::Bytes;
use quorate_order::OrderMessage;
use quorate_order::Stored;
use quorate_order::raft::message::{AppendOutcome, Entry, EntryBody, Index, Position, RaftMessage};
use quorate_order::visigoth::{Claim, Grant, OracleRequest, Register, Wish};
use quorate_types::{Items, MembershipId, ReplicaId};
use quorate_wire::{Batch, MemberRole, Membership, Memberships, SystemCommand};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The most entries that a list shows.
const ENTRIES_SHOWN: usize = 6;

/// One line per event; neighbouring events that differ only in a replica share one.
pub(super) fn events(events: &[Event], smart: bool) -> String {
    // What changes between neighbours, what comes before it on the line, and what after it.
    let mut lines: Vec<(String, Vec<ReplicaId>, String)> = Vec::new();
    for event in events {
        let (before, who, after) = match event {
            Event::Persisted(by, id, record) if smart => {
                (String::new(), *by, format!("writes {id}: {}", mod_smart::stored(record)))
            }
            event => line(event),
        };
        match lines.last_mut() {
            Some((b, all, a)) if *b == before && *a == after && !all.contains(&who) => all.push(who),
            _ => lines.push((before, vec![who], after)),
        }
    }
    let mut out = String::new();
    for (before, all, after) in lines {
        let all: Vec<String> = all.iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "{before}{}  {after}", all.join(","));
    }
    out
}

fn any(m: &OrderMessage) -> String {
    let raft = m.get().map(message);
    raft.or_else(|| m.get().map(mod_smart::message)).unwrap_or_else(|| format!("{m:?}"))
}

fn line(event: &Event) -> (String, ReplicaId, String) {
    let alone = |who: &ReplicaId, what: String| (String::new(), *who, what);
    match event {
        Event::Sent(from, to, m) => (format!("{from} > "), *to, any(m)),
        Event::Lost(from, to, m) => (format!("{from} x "), *to, any(m)),
        Event::Held(from, to, m, after) => {
            (format!("{from} | "), *to, format!("{} (waits for {after})", any(m)))
        }
        Event::Persisted(by, id, record) => alone(by, format!("writes {id}: {}", stored(record))),
        Event::Durable(by, id) => alone(by, format!("durable up to {id}")),
        Event::Decided(by, slot, batch) => alone(by, format!("decided {slot} {}", self::batch(batch))),
        Event::Leader(by, view, leader) => alone(
            by,
            match leader {
                Some(leader) if leader == by => format!("leads {}", mod_smart::view(*view)),
                Some(leader) => format!("follows {leader} in {}", mod_smart::view(*view)),
                None => format!("knows no leader in {}", mod_smart::view(*view)),
            },
        ),
        Event::ReadConfirmed(by, read, slot) => alone(by, format!("read {read} may run after {slot}")),
        Event::ReadFailed(by, read) => alone(by, format!("read {read} failed")),
        Event::Loading(by, load, records) => {
            let (first, last) = (records.first().copied().unwrap_or_default(), records.last());
            let last = last.copied().unwrap_or_default();
            alone(by, format!("loads {} records, {first} to {last} (question {load})", records.len()))
        }
        Event::Members(by, memberships, committed) => {
            let open = if *committed { "" } else { ", not committed" };
            alone(by, format!("members are {}{open}", self::memberships(memberships)))
        }
        Event::Behind(by, slot) => alone(by, format!("needs a checkpoint of {slot} or later")),
        Event::Examining(by, slot, digest) => {
            alone(by, format!("asks whether clients sent {slot} {}", mod_smart::short(digest)))
        }
        Event::Asks(by, OracleRequest { wish, .. }) => match wish {
            Wish::Read => alone(by, "asks the oracle".into()),
            Wish::Swap(version, value) => {
                let value = register(value);
                alone(by, format!("asks the oracle, if it is still at version {version}: {value}"))
            }
            Wish::Claim(claim) => alone(by, format!("asks the oracle: {}", self::claim(claim))),
        },
        Event::Told(by, version, value) => {
            alone(by, format!("is told by the oracle: version {version}, {}", register(value)))
        }
        Event::Refused(by, why) => alone(by, format!("is granted nothing: {why}")),
        Event::Trimmed(by, id) => alone(by, format!("keeps {id} and later")),
        Event::Rejected(by, from, why) => alone(by, format!("refuses {from}: {why}")),
        Event::Halted(by, why) => alone(by, format!("halts: {why}")),
    }
}

/// What a leader shows the oracle.
fn claim(bytes: &Bytes) -> String {
    let Ok(claim) = Claim::decode(bytes.clone()) else { return "unreadable".into() };
    let list = |ids: &[ReplicaId]| match ids.iter().map(ToString::to_string).collect::<Vec<_>>() {
        none if none.is_empty() => "nobody".to_owned(),
        some => some.join(" "),
    };
    let said: Vec<_> =
        claim.said.iter().map(|said| format!("{} misses {}", said.from, list(&said.misses))).collect();
    let shown = claim.proof.as_ref().map_or(String::new(), |proof| {
        format!("; s{} was decided in {}", proof.slot.number(), mod_smart::view(proof.view))
    });
    format!("{} in {}, since {}{shown}", list(&claim.set), mod_smart::view(claim.view), said.join(", "))
}

fn grant(Grant { view, set }: &Grant) -> String {
    let set: Vec<_> = set.iter().map(ToString::to_string).collect();
    format!("{} in {}", set.join(" "), mod_smart::view(*view))
}

/// The small quorums in a register of the oracle.
fn register(value: &Bytes) -> String {
    let Ok(register) = Register::read(value.clone()) else { return "unreadable".into() };
    let grants: Vec<_> = register.grants().iter().map(grant).collect();
    let list = if grants.is_empty() { "nothing".to_owned() } else { grants.join(", ") };
    format!("{list}, from {} on", mod_smart::view(register.floor()))
}

/// A line per register of the oracle that is not empty.
pub(super) fn registers(world: &World) -> String {
    let line = |(membership, (version, value)): (&MembershipId, &(u64, Bytes))| {
        format!("membership {}: version {version}, {}\n", membership.number(), register(value))
    };
    world.registers().iter().filter(|(_, held)| held.0 > 0).map(line).collect()
}

pub(super) fn message(message: &RaftMessage) -> String {
    let mut out = String::new();
    let flag = |set: bool, word: &'static str| if set { word } else { "" };
    let _ = match message {
        RaftMessage::RequestVote { view, last, pre, transfer } => {
            let (pre, transfer) = (flag(*pre, " pre"), flag(*transfer, " transfer"));
            write!(out, "RequestVote {view} last={last}{pre}{transfer}")
        }
        RaftMessage::RequestVoteReply { view, granted, pre } => {
            let word = if *granted { "granted" } else { "refused" };
            write!(out, "RequestVoteReply {view} {word}{}", flag(*pre, " pre"))
        }
        RaftMessage::AppendEntries { view, previous, commit, round, entries } => {
            let entries =
                if entries.is_empty() { String::new() } else { format!(" {}", list(*previous, entries)) };
            write!(out, "AppendEntries {view} prev={previous} commit={commit} round={round}{entries}")
        }
        RaftMessage::AppendEntriesReply { view, round, outcome } => {
            let outcome = match outcome {
                AppendOutcome::Matched(index) => format!("matched={index}"),
                AppendOutcome::Rejected { asked, hint } => format!("rejected asked={asked} hint={hint}"),
            };
            write!(out, "AppendEntriesReply {view} round={round} {outcome}")
        }
        RaftMessage::NeedsCheckpoint { view, previous, round, slot } => {
            write!(out, "NeedsCheckpoint {view} prev={previous} round={round} slot={slot}")
        }
        RaftMessage::TimeoutNow { view } => write!(out, "TimeoutNow {view}"),
        RaftMessage::ReadIndex { view, read: _ } => write!(out, "ReadIndex {view}"),
        RaftMessage::ReadIndexReply { view, read: _, slot: Some(slot) } => {
            write!(out, "ReadIndexReply {view} slot={slot}")
        }
        RaftMessage::ReadIndexReply { view, read: _, slot: None } => {
            write!(out, "ReadIndexReply {view} not leading")
        }
    };
    out
}

fn list(previous: Position, entries: &[Entry]) -> String {
    let text = |at: usize| {
        let position = Position::new(previous.index.plus(at as u64 + 1), entries[at].view);
        format!("{position} {}", body(&entries[at].body))
    };
    let mut shown: Vec<String> = (0..entries.len().min(ENTRIES_SHOWN)).map(text).collect();
    if entries.len() > ENTRIES_SHOWN {
        shown.push(format!("... {}", text(entries.len() - 1)));
    }
    format!("[{}]", shown.join(", "))
}

fn body(body: &EntryBody) -> String {
    match body {
        EntryBody::ViewStart => "start".into(),
        EntryBody::Batch(batch) => self::batch(batch),
        EntryBody::Members(memberships) => self::memberships(memberships),
    }
}

/// The members, and whether each is a voter or a learner.
pub(crate) fn memberships(memberships: &Memberships) -> String {
    let one = |membership: &Membership| {
        let list = |role| {
            let of = membership.members().iter().filter(move |member| member.role == role);
            of.map(|member| member.replica.to_string()).collect::<Vec<_>>().join(" ")
        };
        let (voters, learners) = (list(MemberRole::Voter), list(MemberRole::Learner));
        let learners = if learners.is_empty() { learners } else { format!(", learning {learners}") };
        format!("{} ({voters}{learners})", membership.number())
    };
    memberships.all().map(one).collect::<Vec<_>>().join(" and ")
}

/// The members that count from now on.
pub(crate) fn counted(members: &[(ReplicaId, u64)]) -> String {
    let ids: Vec<String> = members.iter().map(|(id, _)| id.to_string()).collect();
    format!("{} count", ids.join(" "))
}

/// The commands of a batch.
pub(super) fn batch(batch: &Batch) -> String {
    if let Some(target) = batch.no_op_target() {
        return format!("no-op to {target}");
    }
    match SystemCommand::of(batch) {
        Some(SystemCommand::Holds(holds)) => return memberships(&holds.change),
        Some(SystemCommand::Back(members)) => return counted(&members),
        _ => {}
    }
    let mut shown = Vec::new();
    for request in batch.requests() {
        let Ok((_, commands, _)) = request else { return "(damaged)".into() };
        let Ok(commands) = Items::parse(commands) else { return "(damaged)".into() };
        shown.extend(commands.iter().map(|command| {
            match String::from_utf8_lossy(command).trim_end_matches('.') {
                text if text.len() == command.len() => format!("\"{text}\""),
                text => format!("\"{text}...\""),
            }
        }));
    }
    shown.join("+")
}

fn vote(vote: Vote) -> String {
    match vote {
        (view, Some(whom)) => format!("{view}, vote for {whom}"),
        (view, None) => format!("{view}, no vote"),
    }
}

fn stored(record: &Stored) -> String {
    match read_record(record) {
        Some(OnDisk::Entry(index, entry)) => {
            format!("entry {} {}", Position::new(index, entry.view), body(&entry.body))
        }
        Some(OnDisk::Vote(vote)) => self::vote(vote),
        Some(OnDisk::Floor(position, slot, cleared, vote)) => {
            let empty = if cleared { ", empty" } else { "" };
            format!("the log begins after {position}, {slot}{empty}; {}", self::vote(vote))
        }
        None => format!("a record of kind {} that is unreadable", record.kind),
    }
}

/// The log on a replica's disk; what is not durable stands in parentheses.
pub(super) fn log(world: &World, id: ReplicaId) -> String {
    let disk = world.disk(id);
    let mut entries: BTreeMap<Index, (Entry, bool)> = BTreeMap::new();
    let mut vote = "v0, no vote".to_string();
    let checkpoint = disk.checkpoint.and_then(|(slot, anchor)| Some((slot, anchor_position(anchor)?)));
    let checkpoint =
        checkpoint.map_or(String::new(), |(slot, position)| format!("checkpoint of {slot} at {position}, "));
    for (number, record) in (1..).zip(disk.records) {
        let safe = number <= disk.durable;
        let said = |vote| if safe { self::vote(vote) } else { format!("({})", self::vote(vote)) };
        match read_record(record) {
            Some(OnDisk::Entry(index, entry)) => {
                entries.retain(|at, _| *at < index);
                entries.insert(index, (entry, safe));
            }
            Some(OnDisk::Vote(voted)) => vote = said(voted),
            Some(OnDisk::Floor(position, _, cleared, voted)) => {
                vote = said(voted);
                entries.retain(|at, _| !cleared && *at > position.index);
            }
            None => return format!("{id}  unreadable\n"),
        }
    }
    let text = |(index, (entry, safe)): (&Index, &(Entry, bool))| {
        let text = format!("{} {}", Position::new(*index, entry.view), body(&entry.body));
        if *safe { text } else { format!("({text})") }
    };
    let entries: Vec<String> = entries.iter().map(text).collect();
    format!(
        "{id}  {checkpoint}{vote}: {}\n",
        if entries.is_empty() { "empty".into() } else { entries.join(", ") }
    )
}

/// A line per replica.
pub(super) fn status(world: &World) -> String {
    let mut out = String::new();
    for id in world.members() {
        let Some(order) = world.order(*id) else {
            let _ = writeln!(out, "{id}  down");
            continue;
        };
        let status = order.status();
        let role = match status.leader {
            _ if order.standing().leading => "leads".to_string(),
            Some(leader) if leader == *id => "leads, proposes nothing".to_string(),
            Some(leader) => format!("follows {leader}"),
            None => "knows no leader".to_string(),
        };
        let view = mod_smart::view(status.view);
        let _ = write!(out, "{id}  {view} {role}, decided {}", status.decided);
        if order.standing().in_flight > 0 {
            let _ = write!(out, ", {} in flight", order.standing().in_flight);
        }
        for grant in status.small_quorums.iter().flat_map(|small| &small.grants) {
            let _ = write!(out, ", small quorum {}", self::grant(grant));
        }
        for (member, lacks, heard) in status.members {
            let lacks = match lacks {
                0 => "has everything".to_string(),
                u64::MAX => "needs a checkpoint".to_string(),
                _ => "lacks entries".to_string(),
            };
            let _ = write!(out, ", {member} {lacks}{}", if heard { "" } else { " and is silent" });
        }
        out.push('\n');
    }
    out
}

/// A line per message that is under way, link by link.
pub(super) fn flying(world: &World) -> String {
    let mut out = String::new();
    for from in world.members() {
        for to in world.members() {
            for m in world.flying(*from, *to) {
                let _ = writeln!(out, "{from} > {to}  {}", any(m));
            }
        }
    }
    out
}
