//! What a link proves, and to whom; and that nothing else passes.

use super::{MembershipLink, Unproven, accept_statement, views};
use crate::{Ed25519, Secret, Signature, digest_of_request, fuzzing, put_signed};
use bytes::Bytes;
use quorate_types::{
    AgreedTime, ClusterId, FaultModel, Faults, InstanceId, MembershipId, ReplicaId, Slot, View,
};
use quorate_wire::{
    ADDRESS_MAX, Batch, BatchHeader, Holds, LINK_BYTES_MAX, MEMBERS_MAX, Member, Membership, Memberships,
    SystemCommand,
};
use std::fs;
use std::path::Path;

const CLUSTER: ClusterId = ClusterId::new(7);
const FAULTS: Faults = Faults::of(FaultModel::Byzantine);

fn id(number: u16) -> ReplicaId {
    ReplicaId::new(number)
}

fn secret(number: u16) -> [u8; 32] {
    std::array::from_fn(|at| (at as u8).wrapping_mul(11) ^ number as u8)
}

fn member(number: u16) -> Member {
    Member { key: Some(*Ed25519::public(secret(number)).bytes()), ..Member::voter(id(number)) }
}

fn membership(number: u64, voters: &[u16]) -> Membership {
    let members = voters.iter().map(|number| member(*number)).collect();
    Membership::new(MembershipId::new(number), members).expect("a membership")
}

/// What this batch would be a link of, if these voters of the first of its memberships accepted it.
fn signed(before: &Membership, now: &Membership, signers: &[u16]) -> MembershipLink {
    let change = Memberships::change(before.clone(), now.clone()).expect("the next one");
    let (begins, slot) = (views(before.number()).0, Slot::new(10 * before.number().number()));
    let holds = Holds { change, since: Slot::ZERO, begins, leader: id(1) };
    let view = begins.plus(2);
    let mut link =
        MembershipLink { cluster: CLUSTER, instance: InstanceId::new(1), view, slot, holds, accepts: vec![] };
    link.accepts = sign(&link, before.number(), signers);
    link
}

fn sign(link: &MembershipLink, of: MembershipId, signers: &[u16]) -> Vec<(ReplicaId, Signature)> {
    let value = digest_of_request(link.batch().bytes());
    let statement = accept_statement(link.cluster, of, link.instance, (link.view, link.slot, value));
    let sign = |number: &u16| (id(*number), Secret::new(secret(*number)).sign(&statement));
    signers.iter().map(sign).collect()
}

/// The first membership of four, the one in which 5 is in the place of 1, and the link.
fn first() -> (Membership, Membership, MembershipLink) {
    let (before, now) = (membership(1, &[1, 2, 3, 4]), membership(2, &[2, 3, 4, 5]));
    let link = signed(&before, &now, &[1, 3, 4]);
    (before, now, link)
}

fn why(link: &MembershipLink, known: &Membership) -> Unproven {
    link.verify(CLUSTER, known, FAULTS).expect_err("it proves nothing")
}

/// Who knows four founders learns in four steps the four that replaced them, whoever sends the links.
#[test]
fn a_chain_leads_from_the_founders_to_who_replaced_them_all() {
    let mut known = membership(1, &[1, 2, 3, 4]);
    for step in 0..4_u16 {
        let next: Vec<u16> = (step + 2..step + 6).collect();
        let now = membership(u64::from(step) + 2, &next);
        let link = signed(&known, &now, &[step + 1, step + 2, step + 4]);
        let bytes = link.encode();
        let read = MembershipLink::decode(&bytes).expect("what was written");
        assert_eq!((&read, read.encode()), (&link, bytes));
        assert_eq!(read.file_name(), format!("membership-{}.link", step + 2));
        known = read.verify(CLUSTER, &known, FAULTS).expect("the members before signed it");
        assert_eq!(known, now);
    }
    assert_eq!(known.voters().map(ReplicaId::number).collect::<Vec<_>>(), [5, 6, 7, 8]);
}

/// Who knows a membership by a file knows neither addresses nor lives, and learners by their mark.
#[test]
fn addresses_and_lives_need_not_be_known() {
    let (known, ..) = first();
    let full = |membership: &Membership| {
        let more = |member: &Member| Member { address: "a:1".into(), life: 9, ..member.clone() };
        let mut members: Vec<Member> = membership.members().iter().map(more).collect();
        members.push(Member { key: member(9).key, ..Member::learner(id(9)) });
        Membership::new(membership.number(), members).expect("a membership")
    };
    let now = full(&membership(2, &[2, 3, 4, 5]));
    let link = signed(&full(&known), &now, &[1, 2, 3, 4]);
    assert_eq!(link.verify(CLUSTER, &known, FAULTS), Ok(now));
}

#[test]
pub(super) fn a_link_is_judged_by_the_membership_that_is_known() {
    let (known, now, link) = first();
    assert_eq!(link.verify(CLUSTER, &known, FAULTS), Ok(now.clone()));
    // Somebody makes up four members with the ids of the known ones, and signs with their keys.
    let forger = |number: u16| Member { key: member(number + 100).key, ..Member::voter(id(number)) };
    let made_up = Membership::new(MembershipId::FIRST, (1..=4).map(forger).collect()).expect("four");
    let mut forged = signed(&made_up, &now, &[]);
    forged.accepts = (1..=4)
        .map(|number| (id(number), sign(&forged, MembershipId::FIRST, &[number + 100])[0].1))
        .collect();
    assert_eq!(forged.verify(CLUSTER, &made_up, FAULTS), Ok(now.clone()), "its own members signed it");
    assert_eq!(why(&forged, &known), Unproven::OtherMembers);
    // The same without naming keys.
    let bare = Memberships::created(&[id(1), id(2), id(3), id(4)]);
    let mut forged = signed(bare.now(), &now, &[]);
    forged.accepts = (1..=4)
        .map(|number| (id(number), sign(&forged, MembershipId::FIRST, &[number + 100])[0].1))
        .collect();
    assert_eq!(why(&forged, &known), Unproven::Forged(id(1)));
    assert_eq!(signed(bare.now(), &now, &[1, 2, 3]).verify(CLUSTER, &known, FAULTS), Ok(now.clone()));
    assert_eq!(why(&link, bare.now()), Unproven::OtherMembers, "what is known without keys judges nothing");
    assert_eq!(why(&signed(bare.now(), &now, &[1, 2, 3]), bare.now()), Unproven::NoKey(id(1)));
    // A membership of another number, and one with other voters.
    let hole = Unproven::Hole { known: MembershipId::new(2), from: MembershipId::FIRST };
    assert_eq!(why(&link, &now), hole);
    assert!(hole.to_string().contains("links are missing between"), "{hole}");
    assert_eq!(why(&link, &membership(1, &[1, 2, 3, 6])), Unproven::OtherMembers);
}

#[test]
fn a_quorum_of_different_voters_signs() {
    let (known, now, _) = first();
    let of = |signers: &[u16]| signed(&known, &now, signers);
    assert!(of(&[1, 2, 3, 4]).verify(CLUSTER, &known, FAULTS).is_ok());
    assert_eq!(why(&of(&[1, 2]), &known), Unproven::TooFew { signed: 2, needed: 3 });
    assert_eq!(why(&of(&[1, 2, 2]), &known), Unproven::TooFew { signed: 2, needed: 3 });
    assert_eq!(why(&of(&[1, 2, 5]), &known), Unproven::Stranger(id(5)), "who joins has no say in it");
    // Of seven, five; of seven that are to survive one lie, also five: two such sets share a member that tells the truth.
    let (known, now) = (membership(3, &[1, 2, 3, 4, 5, 6, 7]), membership(4, &[1, 2, 3, 4, 5, 6, 7]));
    let four = signed(&known, &now, &[1, 2, 3, 4]);
    for faults in [FAULTS, FAULTS.at_most(1)] {
        let needed = faults.among(7).agreement() as usize;
        assert_eq!(four.verify(CLUSTER, &known, faults), Err(Unproven::TooFew { signed: 4, needed }));
    }
    let learner = |membership: &Membership| {
        let mut members = membership.members().to_vec();
        members.push(Member { key: member(9).key, ..Member::learner(id(9)) });
        Membership::new(membership.number(), members).expect("a membership")
    };
    let five = signed(&learner(&known), &learner(&now), &[1, 2, 3, 4, 9]);
    assert_eq!(why(&five, &learner(&known)), Unproven::Stranger(id(9)), "a learner does not vote");
}

#[test]
fn a_signature_is_of_this_cluster_membership_instance_view_and_slot() {
    let (known, _, link) = first();
    let with = |change: fn(&mut MembershipLink)| {
        let mut other = link.clone();
        change(&mut other);
        why(&other, &known)
    };
    assert_eq!(with(|link| link.cluster = ClusterId::new(8)), Unproven::OtherCluster(ClusterId::new(8)));
    let elsewhere = MembershipLink { cluster: ClusterId::new(8), ..link.clone() };
    assert_eq!(elsewhere.verify(ClusterId::new(8), &known, FAULTS), Err(Unproven::Forged(id(1))));
    assert_eq!(with(|link| link.instance = InstanceId::new(2)), Unproven::OtherInstance(InstanceId::new(2)));
    assert_eq!(with(|link| link.view = View::new(9)), Unproven::Forged(id(1)));
    assert_eq!(with(|link| link.slot = Slot::new(9)), Unproven::Forged(id(1)));
    assert_eq!(with(|link| link.view = View::ZERO), Unproven::OtherView(View::ZERO));
    let later = views(MembershipId::new(2)).0;
    let mut of_later = MembershipLink { view: later, ..link.clone() };
    of_later.accepts = sign(&of_later, MembershipId::new(2), &[1, 2, 3]);
    assert_eq!(why(&of_later, &known), Unproven::OtherView(later));
    assert_eq!(with(|link| link.holds.since = Slot::new(3)), Unproven::Forged(id(1)));
    assert_eq!(with(|link| link.holds.leader = id(2)), Unproven::Forged(id(1)));
    assert_eq!(with(|link| link.accepts[1].1 = link.accepts[0].1), Unproven::Forged(id(3)));
}

/// A membership from which no chain could go on, or which no liar could be outvoted in, is none.
#[test]
fn the_next_membership_has_keys_and_enough_voters() {
    let (known, ..) = first();
    let of = |now: Membership| why(&signed(&known, &now, &[1, 2, 3]), &known);
    assert!(matches!(of(membership(2, &[1, 2, 3])), Unproven::Unfit(_)));
    let without = |key: Option<[u8; 32]>| {
        let mut members = membership(2, &[1, 2, 3, 4]).members().to_vec();
        members[3].key = key;
        Membership::new(MembershipId::new(2), members).expect("a membership")
    };
    // The second one is a point of small order, for which anybody can sign.
    for key in [None, Some(std::array::from_fn(|at| u8::from(at == 0)))] {
        assert_eq!(of(without(key)), Unproven::Unfit("lacks the public key of a member"));
    }
}

/// The batch holds the change and nothing else, and is what was signed.
#[test]
fn a_batch_with_more_than_a_change_is_no_link() {
    let (.., link) = first();
    let of =
        |batch: &Batch| MembershipLink::of(CLUSTER, link.instance, (link.view, link.slot), batch, &vec![]);
    assert!(of(&link.batch()).is_some());
    let (holds, empty) = (SystemCommand::Holds(link.holds.clone()), link.batch().header());
    assert!(of(&holds.batch(BatchHeader { time: AgreedTime::from_nanos(1), ..empty })).is_none());
    assert!(of(&holds.batch(BatchHeader { border: true, ..empty })).is_none());
    let shows = Holds { change: link.holds.change.ended(), ..link.holds.clone() };
    assert!(of(&SystemCommand::Holds(shows).alone()).is_none(), "that one changes nothing");
    assert!(of(&SystemCommand::Change(link.holds.change.clone()).alone()).is_none());
    let mut two = Vec::new();
    Batch::begin(&mut two);
    two.extend_from_slice(&[holds.request(), holds.request()].concat());
    assert!(of(&Batch::seal(two, BatchHeader { count: 2, ..empty })).is_none());
}

/// No byte of a link can be changed, and nothing taken from its end, with a right checksum or a wrong one.
#[test]
fn no_flip_and_no_truncation_passes() {
    let (known, _, link) = first();
    let bytes = link.encode();
    let passes = |bytes: Bytes| {
        MembershipLink::decode(&bytes).is_ok_and(|link| link.verify(CLUSTER, &known, FAULTS).is_ok())
    };
    let content = bytes.len() - 8;
    for at in 0..bytes.len() {
        for bit in [at % 8, (at + 3) % 8] {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1 << bit;
            let sealed = MembershipLink::sealed(changed[..content].to_vec());
            assert!(!passes(changed.into()), "bit {bit} of byte {at}");
            // What is not signed: the number, which must be the batch's; and how many signed.
            assert!(sealed == bytes || !passes(sealed), "bit {bit} of byte {at}, with a right checksum");
        }
        assert!(!passes(bytes.slice(..at)), "{at} bytes");
        if at < content {
            assert!(
                !passes(MembershipLink::sealed(bytes[..at].to_vec())),
                "{at} bytes, with a right checksum"
            );
        }
    }
    let mut longer = bytes[..content].to_vec();
    longer.push(0);
    assert!(!passes(MembershipLink::sealed(longer)));
}

/// The largest change there can be fits.
#[test]
fn the_largest_link_fits() {
    let large = |number: u64| {
        let member = |number| Member { address: "a".repeat(ADDRESS_MAX), ..member(number) };
        let members = (1..=MEMBERS_MAX as u16).map(member).collect();
        Membership::new(MembershipId::new(number), members).expect("a membership")
    };
    let all: Vec<u16> = (1..=MEMBERS_MAX as u16).collect();
    let link = signed(&large(1), &large(2), &all);
    let bytes = link.encode();
    assert!(bytes.len() <= LINK_BYTES_MAX, "{}", bytes.len());
    assert_eq!(MembershipLink::decode(&bytes), Ok(link));
}

/// The seeds of the fuzz target, which are also the pinned bytes of the format: docs/formats/versions.md.
#[test]
fn corpus() {
    let (known, now, link) = first();
    let twice = {
        let mut content = link.encode().to_vec();
        content.truncate(content.len() - 8);
        let accepts = {
            let mut bytes = Vec::new();
            put_signed(&mut bytes, &link.accepts);
            bytes.len()
        };
        content.truncate(content.len() - accepts);
        put_signed(&mut content, &vec![link.accepts[0], link.accepts[0], link.accepts[1]]);
        MembershipLink::sealed(content)
    };
    assert!(MembershipLink::decode(&twice).is_err(), "who signs twice is read once");
    let seeds = [
        ("first", link.encode()),
        ("second", signed(&now, &membership(3, &[3, 4, 5, 6]), &[2, 3, 4, 5]).encode()),
        ("too_few", signed(&known, &now, &[1, 2]).encode()),
        ("signed_twice", twice),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/membership_link");
    fs::create_dir_all(&folder).expect("the corpus can be created");
    for (name, bytes) in seeds {
        let path = folder.join(format!("seed_{name}"));
        if std::env::var_os("QUORATE_APPROVE").is_some() {
            fs::write(&path, &bytes).expect("a seed can be written");
        }
        let found = fs::read(&path).unwrap_or_default();
        assert!(found == bytes, "{path:?} is out of date; write it anew with QUORATE_APPROVE=1");
    }
    for file in fs::read_dir(folder).expect("the corpus is there") {
        fuzzing::membership_link(&fs::read(file.expect("an entry").path()).expect("a readable file"));
    }
}
