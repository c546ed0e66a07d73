//! The end of an era, the beginning of the next one, and whom a replica believes.

use super::{EraConfig, Eras, Facts, In, Out};
use crate::system::{EraPart, System};
use bytes::Bytes;
use quorate_order::Protocol;
use quorate_state::checkpoint::Image;
use quorate_state::store::Store;
use quorate_state::transfer::FetchLimits;
use quorate_types::{ClusterId, Digest, FaultModel, Faults, MembershipId, ReplicaId, Seq, Time};
use quorate_wire::{Era, EraFaults, EraNotice, Member, Membership, StateMessage};
use std::collections::BTreeSet;

const CLUSTER: ClusterId = ClusterId::new(7);

fn id(number: u16) -> ReplicaId {
    ReplicaId::new(number)
}

fn era(number: u64, model: FaultModel) -> Era {
    let member = |id: u16| Member { key: Some([id as u8; 32]), life: 5, ..Member::voter(ReplicaId::new(id)) };
    Era {
        number,
        protocol: Protocol::MOD_SMART.row().number,
        faults: EraFaults { model, most: None },
        members: Membership::new(MembershipId::FIRST, (1..=4).map(member).collect()).unwrap(),
        administrators: None,
    }
}

/// The state at seq 1, at which this era follows.
fn image(next: Option<Era>) -> Image {
    let mut system = System::beginning(CLUSTER, Protocol::RAFT, 4, 3, Bytes::from_static(b"half"));
    system.eras = EraPart { number: 1, next };
    Image { seq: Seq::FIRST, border: 1, system: system.encode(), objects: Store::new().version() }
}

struct Bench {
    eras: Eras,
    facts: Facts,
}

impl Bench {
    fn of(model: FaultModel) -> Self {
        Self {
            eras: Eras::new(&EraConfig::only("a test"), None),
            facts: Facts {
                trust: Faults::of(model).among(4),
                members: (1..=4).map(id).collect::<BTreeSet<_>>(),
                agreed: None,
                own: None,
                objects: None,
                limits: FetchLimits::default(),
            },
        }
    }

    fn step(&mut self, input: In) -> Vec<Out> {
        let mut out = Vec::new();
        self.eras.step(Time::ZERO, &self.facts, input, &mut out);
        out
    }

    /// The era is over here, and the state there is known.
    fn end(&mut self, image: &Image, next: FaultModel) -> Vec<Out> {
        let era = era(2, next);
        let mut out = self.step(In::Ended(Box::new(era), image.seq));
        out.extend(self.step(In::State(Box::new(image.clone()))));
        out
    }
}

fn entered(outs: &[Out]) -> Option<(&EraNotice, &Image)> {
    outs.iter().find_map(|out| match out {
        Out::Enter(notice, image) => Some((notice, &**image)),
        _ => None,
    })
}

fn asked(outs: &[Out]) -> Vec<ReplicaId> {
    let sent = outs.iter().filter_map(|out| match out {
        Out::Send(to, StateMessage::FetchManifest { .. }) => Some(*to),
        _ => None,
    });
    sent.collect()
}

#[test]
fn where_replicas_crash_an_era_is_entered_once_its_last_state_is_known() {
    let (mut bench, image) = (Bench::of(FaultModel::Crash), image(Some(era(2, FaultModel::Crash))));
    assert!(entered(&bench.end(&image, FaultModel::Crash)).is_none(), "the digest is not known yet");
    bench.facts.own = Some(image.digest());
    let outs = bench.step(In::Look);
    let (notice, begun) = entered(&outs).expect("it enters");
    assert_eq!((notice.began, notice.before, begun.seq), (Seq::FIRST, image.digest(), Seq::FIRST));
    let system = System::decode(&begun.system).unwrap();
    assert_eq!((system.era(), system.ends_era()), (2, false));
    assert_eq!(system.executor, Bytes::from_static(b"half"), "sessions and replies stay");
    assert!(bench.step(In::Look).is_empty(), "once");
}

#[test]
fn where_replicas_may_lie_the_state_at_the_end_has_to_be_agreed_on() {
    where_some_may_lie(FaultModel::Byzantine, FaultModel::Crash);
    where_some_may_lie(FaultModel::Crash, FaultModel::Byzantine);
}

fn where_some_may_lie(before: FaultModel, next: FaultModel) {
    let (mut bench, image) = (Bench::of(before), image(Some(era(2, next))));
    bench.end(&image, next);
    bench.facts.own = Some(image.digest());
    assert!(entered(&bench.step(In::Look)).is_none(), "nobody else said that it has this state");
    bench.facts.agreed = Some(Digest::new([9; 32]));
    assert!(entered(&bench.step(In::Look)).is_none(), "the others have another one");
    bench.facts.agreed = bench.facts.own;
    assert!(entered(&bench.step(In::Look)).is_some());
}

fn notice(number: u64) -> Box<EraNotice> {
    let era = era(number, FaultModel::Crash);
    Box::new(EraNotice { began: Seq::new(9), before: Digest::new([4; 32]), era })
}

fn has(from: u16, digest: u8, held: bool) -> In {
    let (seq, digest) = (Seq::new(9), Digest::new([digest; 32]));
    In::Part(id(from), StateMessage::Digest { seq, digest, held })
}

#[test]
fn where_none_lies_one_member_is_believed() {
    let mut bench = Bench::of(FaultModel::Crash);
    bench.step(In::Up(id(2)));
    assert!(asked(&bench.step(In::Notice(id(2), notice(2)))).is_empty(), "it has not said what it has");
    assert_eq!(asked(&bench.step(has(2, 5, true))), [id(2)]);
}

#[test]
fn where_members_may_lie_one_alone_is_not_believed() {
    let mut bench = Bench::of(FaultModel::Byzantine);
    (2..=4).for_each(|member| drop(bench.step(In::Up(id(member)))));
    for _ in 0..3 {
        bench.step(In::Notice(id(2), notice(2)));
        assert!(asked(&bench.step(has(2, 5, true))).is_empty(), "however often it says so");
    }
    bench.step(In::Notice(id(3), notice(3)));
    assert!(asked(&bench.step(has(3, 5, true))).is_empty(), "they are in different eras");
    bench.step(In::Notice(id(9), notice(2)));
    assert!(asked(&bench.step(has(9, 5, true))).is_empty(), "nine is no member");
    bench.step(In::Notice(id(4), notice(2)));
    assert!(asked(&bench.step(has(4, 6, true))).is_empty(), "they have different states");
    let asked = asked(&bench.step(has(4, 5, false)));
    assert_eq!(asked, [id(2)], "one of two tells the truth, and one of them has a file");
}

#[test]
fn what_a_member_of_the_next_era_had_at_the_end_counts_as_its_report() {
    let mut bench = Bench::of(FaultModel::Byzantine);
    let outs = bench.step(In::Notice(id(3), notice(2)));
    let said = |out: &Out| match out {
        Out::Reported(from, seq, digest) => Some((*from, *seq, *digest)),
        _ => None,
    };
    let said: Vec<_> = outs.iter().filter_map(said).collect();
    assert_eq!(said, [(id(3), Seq::new(9), Digest::new([4; 32]))]);
    assert!(bench.step(In::Notice(id(3), notice(3))).is_empty(), "of the era after that it says nothing");
}

/// `RUSTFLAGS="--cfg planted" cargo test -p quorate-node --lib planted -- --ignored --test-threads=1`: a bug is in force in the whole process.
#[cfg(planted)]
#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn planted_eras_are_found() {
    use quorate_types::plant;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let bugs: [(&str, fn()); 2] = [
        ("era-before-agreed", where_replicas_may_lie_the_state_at_the_end_has_to_be_agreed_on),
        ("era-of-one", where_members_may_lie_one_alone_is_not_believed),
    ];
    for (bug, test) in bugs {
        plant(Some(bug));
        let found = catch_unwind(AssertUnwindSafe(test));
        plant(None);
        assert!(found.is_err(), "{bug} is not found");
        test();
    }
}
