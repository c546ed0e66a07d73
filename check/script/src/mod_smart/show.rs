//! Mod-SMaRt's messages and records as text.

use quorate_auth::Signed;
use quorate_order::Stored;
use quorate_order::ledger::Proof;
use quorate_order::mod_smart::message::{Collect, Complaint, ModSmartBody as Body, ModSmartMessage};
use quorate_order::mod_smart::{RECORD_DECIDED, RECORD_FLOOR, RECORD_LOCKED, RECORD_VIEW, RECORD_WROTE};
use quorate_types::{Digest, Items, ReplicaId, View};
use quorate_wire::{Batch, SystemCommand};

/// The number of views of the first membership.
const FIRST_VIEWS: u64 = 1 << 40;

/// A digest's first bytes: enough to tell a script's values apart.
pub(crate) fn short(digest: &Digest) -> String {
    digest.bytes()[..3].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A view as text. A view of a later membership than the first has that membership's number: the second view of the third membership is
/// v3.2.
pub(crate) fn view(view: View) -> String {
    match view.number() {
        first @ ..=FIRST_VIEWS => format!("v{first}"),
        later => format!("v{}.{}", ((later - 1) >> 40) + 1, (later - 1) % FIRST_VIEWS + 1),
    }
}

fn batch(batch: &Batch) -> String {
    if let Some(SystemCommand::Holds(holds)) = SystemCommand::of(batch) {
        let digest = Digest::new(*blake3::hash(batch.bytes()).as_bytes());
        let memberships = crate::raft::show::memberships(&holds.change);
        return format!("{memberships}, {} first ({})", holds.leader, short(&digest));
    }
    if let Some(SystemCommand::Back(members)) = SystemCommand::of(batch) {
        return crate::raft::show::counted(&members);
    }
    let commands = batch.requests().flatten().filter_map(|(_, body, _)| Items::parse(body).ok());
    let text: Vec<String> = commands
        .flat_map(|items| {
            items.iter().map(|item| format!("{:?}", String::from_utf8_lossy(item))).collect::<Vec<_>>()
        })
        .collect();
    let digest = Digest::new(*blake3::hash(batch.bytes()).as_bytes());
    format!("{} ({})", text.join("+"), short(&digest))
}

fn signers(list: &Signed) -> String {
    list.iter().map(|(member, _)| member.to_string()).collect::<Vec<_>>().join(" ")
}

fn at(when: View) -> String {
    view(when)[1..].to_owned()
}

fn value((view, digest): &(View, Digest)) -> String {
    format!("{}@{}", short(digest), at(*view))
}

fn collect(collect: &Collect) -> String {
    let lock = collect.lock.as_ref().map_or("no lock".into(), |lock| format!("lock {}", value(lock)));
    let writes: Vec<String> = collect.writes.iter().map(value).collect();
    let writes = if writes.is_empty() { String::new() } else { format!(", wrote {}", writes.join(" ")) };
    format!("{} decided {}, {lock}{writes}", collect.from, collect.decided)
}

fn proof(proof: Option<&Proof>) -> String {
    proof.map_or(String::new(), |proof| {
        format!(
            "; {} is {}@{} by {}",
            proof.slot,
            short(&proof.digest),
            at(proof.view),
            signers(&proof.accepts)
        )
    })
}

fn complaint(why: Complaint) -> String {
    match why {
        Complaint::Silence => "silence".into(),
        Complaint::Request(digest) => format!("request {}", short(&digest)),
        Complaint::Slot(slot) => format!("{slot}"),
        Complaint::Joined => "joined".into(),
        Complaint::Leaves => "leaves".into(),
        Complaint::Rate => "rate".into(),
        Complaint::Rotation => "rotation".into(),
    }
}

/// A message as one line. Numbers that differ from run to run are left out.
pub(crate) fn message(message: &ModSmartMessage) -> String {
    let view = view(message.view);
    match &message.body {
        Body::Propose { slot, batch } => format!("PROPOSE {view} {slot} {}", self::batch(batch)),
        Body::Write { slot, digest } => format!("WRITE {view} {slot} {}", short(digest)),
        Body::Accept { slot, digest, .. } => format!("ACCEPT {view} {slot} {}", short(digest)),
        Body::Stop { asked, why, .. } => {
            format!("STOP {view} asks for {}: {}", self::view(*asked), complaint(*why))
        }
        Body::Certificate { stops } => format!("CERTIFICATE {view} by {}", signers(stops)),
        Body::StopData { collect, last, batches } => {
            let batches: Vec<String> = batches.iter().map(batch_of).collect();
            let batches = if batches.is_empty() { String::new() } else { format!("; {}", batches.join(" ")) };
            format!("STOP-DATA {view} {}{}{batches}", self::collect(collect), proof(last.as_ref()))
        }
        Body::Sync { stops, collects, last, value } => {
            let collects: Vec<String> = collects.iter().map(self::collect).collect();
            let value = value.as_ref().map_or("free".into(), |value| format!("bound to {}", batch(value)));
            let (by, last) = (signers(stops), proof(last.as_ref()));
            format!("SYNC {view} by {by} [{}]{last}: {value}", collects.join("; "))
        }
        Body::Fetch { slot, count } => format!("FETCH {view} {slot} and {} more", count - 1),
        Body::Decision { proof: shown, batch } => {
            format!("DECISION {view} {}{}", self::batch(batch), proof(Some(shown)))
        }
        Body::Gone { slot, proof: shown } => format!("GONE {view} up to {slot}{}", proof(shown.as_ref())),
        Body::Alive { decided, .. } => format!("ALIVE {view} decided {decided}"),
        Body::AliveReply { decided, .. } => format!("ALIVE-REPLY {view} decided {decided}"),
        Body::Read { .. } => format!("READ {view}"),
        Body::ReadReply { slot: Some(slot), .. } => format!("READ-REPLY {view} {slot}"),
        Body::ReadReply { slot: None, .. } => format!("READ-REPLY {view} not leading"),
        Body::Granted { sets, .. } => {
            let set =
                |set: &Vec<ReplicaId>| set.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            format!("GRANTED {view} {}", sets.iter().map(set).collect::<Vec<_>>().join("; "))
        }
        Body::Ask { .. } => format!("ASK {view} whom do you miss"),
        Body::Probe { .. } => format!("PROBE {view}"),
        Body::Probed { .. } => format!("PROBED {view}"),
        Body::Back { .. } => format!("BACK {view}"),
        Body::Misses { ids, .. } => {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            format!("MISSES {view} {}", if ids.is_empty() { "nobody".into() } else { ids.join(" ") })
        }
    }
}

fn batch_of(value: &Batch) -> String {
    batch(value)
}

/// A record as one line.
pub(crate) fn stored(record: &Stored) -> String {
    let number = |at| super::u64_at(&record.head, at).unwrap_or(0);
    let in_view = |at| view(View::new(number(at)));
    let voted_at = |place| at(View::new(number(place)));
    let value = || super::vote(&record.head).map_or(String::new(), |vote| short(&vote.2));
    let with = if record.payload.is_empty() { "" } else { ", with the batch" };
    match record.kind {
        RECORD_VIEW => in_view(0),
        RECORD_WROTE => format!("wrote s{} {}@{}{with}", number(0), value(), voted_at(8)),
        RECORD_LOCKED => format!("locked s{} {}@{}{with}", number(0), value(), voted_at(8)),
        RECORD_DECIDED => format!("decided s{} in {}", number(0), in_view(8)),
        RECORD_FLOOR => {
            let empty = if record.head.get(16).is_some_and(|what| what & 1 == 1) { ", empty" } else { "" };
            format!("the log begins after s{}{empty}; {}", number(0), in_view(8))
        }
        kind => format!("a record of kind {kind} that is unreadable"),
    }
}
