use super::Situation;
use crate::status::{EvidenceStatus, PeerStatus, SeatsStatus, SuspectStatus, TransferStatus};
use quorate_order::Status as OrderStatus;
use quorate_order::visigoth::{Grant, SmallQuorums};
use quorate_types::{InstanceId, MembershipId, ReplicaId, Slot, Span, Time, View};
use quorate_wire::Memberships;
use std::sync::Arc;

const R1: ReplicaId = ReplicaId::new(1);
const R2: ReplicaId = ReplicaId::new(2);
const R3: ReplicaId = ReplicaId::new(3);

fn order() -> OrderStatus {
    OrderStatus {
        view: View::new(1),
        leader: Some(R2),
        decided: Slot::ZERO,
        members: Vec::new(),
        caught_up: Vec::new(),
        there: Vec::new(),
        lost: Vec::new(),
        open: Vec::new(),
        small_quorums: None,
        counts: None,
        lease: None,
        answered_by_lease: 0,
        memberships: Vec::new(),
        membership: Arc::new(Memberships::created(&[R2])),
        knows_decision: false,
        committed_membership: MembershipId::FIRST,
    }
}

fn seats() -> SeatsStatus {
    SeatsStatus {
        clients: 0,
        clients_max: 10,
        largest_client: 0,
        per_client_max: 5,
        operators: 0,
        strangers: 0,
        strangers_max: 8,
        refused: 0,
        late: 0,
        crowded_out: 0,
    }
}

/// A situation without problems.
fn well<'a>(order: &'a OrderStatus, seats: &'a SeatsStatus) -> Situation<'a> {
    Situation {
        unknown: Vec::new(),
        order,
        leading: false,
        disk_full: false,
        rotten: None,
        without_room: Vec::new(),
        stalled: false,
        write_time: Span::from_millis(1),
        removed: false,
        lacks_key: None,
        transfer: None,
        seats,
        sessions: (1, 100),
        queue: (0, 100 << 20),
        kept: (0, 100 << 20),
        peers: &[],
        suspects: &[],
        evidence: &[],
        few: Vec::new(),
        uncounted: Vec::new(),
        oracle: true,
    }
}

/// The problem that this change makes. It must be the only one, begin as on the page of alarms, and name its remedy.
fn one(change: impl FnOnce(&mut Situation<'_>), listed: &str, remedy: &str) {
    let (order, seats) = (order(), seats());
    let mut situation = well(&order, &seats);
    change(&mut situation);
    judge(&situation, listed, remedy);
}

fn judge(situation: &Situation<'_>, listed: &str, remedy: &str) {
    let problems = situation.problems(|_| {});
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    // `X` and `N` stand for what differs.
    let mut at = 0;
    for part in listed.split(['X', 'N']) {
        let found = problem[at..].find(part).unwrap_or_else(|| panic!("`{part}` is missing in: {problem}"));
        at += found + part.len();
    }
    assert!(problem.contains(remedy), "`{remedy}` is missing in: {problem}");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations/alarms.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    assert!(page.contains(&format!("`{listed}`")), "docs/operations/alarms.md does not list `{listed}`");
}

#[test]
fn nothing_is_wrong() {
    assert_eq!(well(&order(), &seats()).problems(|_| {}), Vec::<String>::new());
}

#[test]
fn problems_of_leading() {
    one(|s| s.unknown = vec![R2], "rN was never there", "start it");
    let none = OrderStatus { leader: None, ..order() };
    judge(&well(&none, &seats()), "no leader is known", "until a majority of the replicas is connected");
}

fn small(sets: &[&[ReplicaId]]) -> SmallQuorums {
    let grant = |(view, set): (u64, &&[ReplicaId])| Grant { view: View::new(view), set: set.to_vec() };
    SmallQuorums { since: Time::ZERO, grants: (1..).zip(sets).map(grant).collect() }
}

#[test]
fn few_replicas_answer() {
    one(
        |s| s.few = vec![(InstanceId::new(1), small(&[])), (InstanceId::new(3), small(&[]))],
        "few replicas may have gone on by a grant of the oracle (instances X)",
        "(instances 1, 3): until all count again, those that answer now must not stop",
    );
    one(
        |s| s.few = vec![(InstanceId::new(2), small(&[&[R1, R2], &[R2, R3]]))],
        "few replicas may have gone on by a grant of the oracle (instances X)",
        "(instances 2): until all count again, r1, r2, r3 must not stop",
    );
    one(
        |s| (s.few, s.oracle) = (vec![(InstanceId::new(2), small(&[&[R1, R2]]))], false),
        "few replicas go on without the others, and without an oracle (instances X)",
        "(instances 2): start what is missing",
    );
    one(
        |s| s.uncounted = vec![InstanceId::new(2)],
        "this replica does not count where few go on (instances X)",
        "(instances 2), since it started, stood still, or took a checkpoint. Until it does it is one of those that have stopped",
    );
}

#[test]
fn problems_of_the_disk() {
    one(
        |s| s.disk_full = true,
        "the disk is full: writes are refused; free space, they resume by themselves",
        "free space",
    );
    one(|s| s.rotten = Some(3), "the log on this disk is damaged (up to segment N)", "Look after the disk");
    let lost = OrderStatus { lost: vec![(R2, 7)], ..order() };
    judge(
        &well(&lost, &seats()),
        "rN lost the end of its log (X entries that it had acknowledged)",
        "Look after its disk",
    );
    let full = |s: &mut Situation<'_>| (s.without_room, s.leading) = (vec![R2], true);
    one(full, "a majority has no room for writes", "Make room on the disks of r2");
    one(
        |s| s.stalled = true,
        "the disk of this replica has not finished a write for long",
        "`quorate doctor`",
    );
    one(
        |s| s.write_time = Span::from_millis(250),
        "the disk of this replica takes X ms for a write",
        "`quorate doctor`",
    );
}

#[test]
fn problems_of_its_key() {
    one(
        |s| s.lacks_key = Some([7; 32]),
        "this replica lacks the secret half of its signing key X",
        "`quorate member rekey`",
    );
}

#[test]
fn problems_of_members() {
    let lags = |lag, active| OrderStatus { members: vec![(R2, lag, active)], ..order() };
    let seats = seats();
    judge(
        &well(&lags(u64::MAX, true), &seats),
        "rN lacks more than the log still holds: it needs a checkpoint, which it fetches from the others once it runs",
        "",
    );
    judge(&well(&lags(65 << 20, true), &seats), "rN lacks X MiB of the log", "`quorate doctor`");
    assert!(
        well(&lags(65 << 20, false), &seats).problems(|_| {}).is_empty(),
        "that it is not there is said elsewhere"
    );
    let there =
        |connected| PeerStatus { replica: 2, address: "h:2".into(), connected, links: 1, refusal: None };
    let (there, gone) = ([there(true)], [there(false)]);
    let silent = lags(0, false);
    let silent = |peers| Situation { peers, ..well(&silent, &seats) };
    judge(
        &silent(&there),
        "rN is connected, and the leader has not heard of it lately",
        "Look at its process",
    );
    judge(&silent(&gone), "rN at X is not connected", "start it");
    one(|s| s.removed = true, "this replica was removed from the cluster", "stop it");
    let transfer = TransferStatus {
        why: "behind",
        seq: None,
        bytes_done: 5 << 20,
        bytes_total: 9 << 20,
        chunks_done: 0,
        chunks_total: 0,
        sources: Vec::new(),
        bytes_per_second: 0,
        installing: false,
    };
    let order = order();
    let away = Situation { transfer: Some(&transfer), ..well(&order, &seats) };
    judge(
        &away,
        "this replica was away for too long and fetches the state from the others (X of X MiB so far)",
        "wait",
    );
    let peer = |connected, refusal: Option<&str>| PeerStatus {
        replica: 3,
        address: "10.0.0.3:7000".into(),
        connected,
        links: usize::from(connected),
        refusal: refusal.map(str::to_owned),
    };
    let peers = [peer(false, None)];
    let gone = Situation { peers: &peers, ..well(&order, &seats) };
    judge(&gone, "rN at X is not connected", "start it, or check the network");
    let peers = [peer(false, Some("r3 refuses this replica: why"))];
    let refused = Situation { peers: &peers, ..well(&order, &seats) };
    judge(&refused, "rN refuses this replica: X", "why");
}

/// What is proved is told apart from what this replica alone saw; of a replica that is proved to lie nothing else is said.
#[test]
fn problems_with_liars() {
    let seats = seats();
    let what = "two different writes in one view".to_owned();
    let suspects = [SuspectStatus { replica: 2, times: 3, what }];
    let some_order = order();
    let lies = Situation { suspects: &suspects, ..well(&some_order, &seats) };
    judge(
        &lies,
        "rN is suspected: this replica saw it do what no honest replica does (X times, the last: X)",
        "`quorate member replace`",
    );
    let evidence = [EvidenceStatus {
        replica: 2,
        kind: "two-accepts",
        instance: 1,
        view: 2,
        slot: 17,
        file: "r2-two-accepts-i1-v2-s17.proof".into(),
        at: 0,
        times: 1,
        what: "r2 signed two different accepts for slot 17 in view 2".into(),
    }];
    let proved = Situation { evidence: &evidence, ..lies };
    judge(&proved, "rN signed X: proved", "`quorate evidence show r2-two-accepts-i1-v2-s17.proof`");
}

#[test]
fn limits_that_are_reached() {
    let order = order();
    let full = |seats: SeatsStatus, listed: &str, remedy: &str| judge(&well(&order, &seats), listed, remedy);
    full(
        SeatsStatus { clients: 10, largest_client: 5, ..seats() },
        "X clients are connected, which is the limit",
        "raise limits.connections",
    );
    full(
        SeatsStatus { clients: 9, largest_client: 5, ..seats() },
        "one client has X connections, which is its limit",
        "limits.connections_per_client",
    );
    full(
        SeatsStatus { strangers: 8, ..seats() },
        "X connections have not said who they are, which is the limit",
        "limits.handshakes",
    );
    one(|s| s.sessions = (100, 100), "X sessions are open, which is the limit", "sessions.max");
    one(
        |s| s.queue = (100 << 20, 100 << 20),
        "X MiB of requests wait to be decided, which is the limit",
        "slow disk or network",
    );
    one(
        |s| s.kept = (100 << 20, 100 << 20),
        "sessions keep X MiB of replies that their clients have not confirmed",
        "sessions.ttl_s",
    );
}
