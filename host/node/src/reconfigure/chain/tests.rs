//! Which links are kept, which are missing, and whom a replica believes that did not see the change itself.

use super::{KEPT_BYTES_MAX, Kept};
use quorate_auth::{Ed25519, MembershipLink, Secret, chain, digest_of_request};
use quorate_types::{ClusterId, FaultModel, Faults, InstanceId, MembershipId, ReplicaId, Slot, Trust};
use quorate_wire::{Chain, Holds, Member, Membership, Memberships, SystemCommand};

const CLUSTER: ClusterId = ClusterId::new(7);
const FAULTS: Faults = Faults::of(FaultModel::Byzantine);

fn id(number: u16) -> ReplicaId {
    ReplicaId::new(number)
}

fn number(number: u64) -> MembershipId {
    MembershipId::new(number)
}

/// In membership n vote replicas n to n+3; a liar has made-up keys of the same replicas.
fn membership(of: u64, lie: u8) -> Membership {
    let secret = |id: u16| [id as u8 ^ lie; 32];
    let member = |id: u16| Member {
        key: Some(*Ed25519::public(secret(id)).bytes()),
        ..Member::voter(ReplicaId::new(id))
    };
    let first = of as u16;
    Membership::new(number(of), (first..first + 4).map(member).collect()).expect("a membership")
}

/// The link to membership `to`, signed by three of the membership before.
fn link(to: u64, lie: u8) -> MembershipLink {
    let (before, now) = (membership(to - 1, lie), membership(to, lie));
    let change = Memberships::change(before.clone(), now).expect("the next one");
    let (view, slot) = (chain::views(before.number()).0, Slot::new(to));
    let holds = Holds { change, since: Slot::ZERO, begins: view, leader: id(1) };
    let batch = SystemCommand::Holds(holds.clone()).alone();
    let instance = InstanceId::new(1);
    let said = (view, slot, digest_of_request(batch.bytes()));
    let statement = chain::accept_statement(CLUSTER, before.number(), instance, said);
    let sign = |id: ReplicaId| {
        let key = Secret::new([id.number() as u8 ^ lie; 32]);
        (id, key.sign(&statement))
    };
    let accepts = before.voters().take(3).map(sign).collect();
    MembershipLink { cluster: CLUSTER, instance, view, slot, holds, accepts }
}

fn shows(links: &[MembershipLink]) -> Chain {
    Chain::of(number(9), links.iter().map(MembershipLink::encode))
}

/// What a replica of membership 9 keeps after a member shows this.
fn hears(kept: &mut Kept, from: u16, links: &[MembershipLink]) -> Vec<u64> {
    let voters: Vec<ReplicaId> = membership(9, 0).voters().collect();
    let trust: Trust = FAULTS.among(4);
    let new = kept.shown(id(from), &shows(links), number(9), (&voters, trust));
    new.iter().map(|link| link.number().number()).collect()
}

fn kept(links: &[MembershipLink]) -> Kept {
    Kept::new(CLUSTER, FAULTS, links)
}

/// Each link that a member sends continues one that is here, so the word of one is enough.
#[test]
fn what_continues_a_kept_link_proves_itself() {
    let all: Vec<MembershipLink> = (2..=9).map(|to| link(to, 0)).collect();
    let mut mine = kept(&all[..2]);
    assert_eq!(mine.missing(number(3)), None);
    assert_eq!(mine.missing(number(9)), Some(number(4)));
    assert_eq!(hears(&mut mine, 9, &all[3..]), [0; 0], "with a hole nothing continues");
    let forged = link(4, 0x40);
    assert_eq!(hears(&mut mine, 9, &[forged]), [0; 0], "others signed it");
    assert_eq!(hears(&mut mine, 10, &all[2..]), [4, 5, 6, 7, 8, 9]);
    assert_eq!(mine.missing(number(9)), None);
    assert_eq!(hears(&mut mine, 10, &all), [0; 0], "it is known");
    let answer = mine.after(number(6), number(9));
    assert_eq!(answer, shows(&all[5..]));
    assert_eq!(mine.after(number(9), number(9)).links.len(), 0);
    assert_eq!(mine.after(number(u64::MAX), number(9)).links.len(), 0);
}

/// A replica that joined knows none of the members of earlier years: f+1 members must show the same change.
#[test]
fn what_continues_nothing_is_believed_once_one_of_those_who_show_it_does_not_lie() {
    let all: Vec<MembershipLink> = (2..=4).map(|to| link(to, 0)).collect();
    let lie: Vec<MembershipLink> = (2..=4).map(|to| link(to, 0x40)).collect();
    let mut mine = kept(&[]);
    assert_eq!(hears(&mut mine, 9, &lie), [0; 0], "one member's word");
    assert_eq!(hears(&mut mine, 9, &lie), [0; 0], "said twice");
    assert_eq!(hears(&mut mine, 10, &all), [0; 0], "one against one");
    assert_eq!(hears(&mut mine, 3, &lie), [0; 0], "who left has no say in it");
    // Another proof of the same change: other members signed it.
    let mut other = all[0].clone();
    other.accepts.truncate(2);
    assert_eq!(hears(&mut mine, 11, &[other]), [0; 0], "too few signed that one");
    assert_eq!(hears(&mut mine, 12, &all), [2, 3, 4], "and then each continues one that is kept");
    assert_eq!(mine.missing(number(9)), Some(number(5)));
    let foreign = MembershipLink { cluster: ClusterId::new(8), ..link(5, 0) };
    assert_eq!(hears(&mut mine, 9, &[foreign]), [0; 0]);
}

/// What is kept is bounded; what was there for longest goes, and is not asked for again.
#[test]
fn the_oldest_go_when_memory_is_full() {
    let mut mine = kept(&[]);
    assert!(mine.add(&link(2, 0)) && !mine.add(&link(2, 0)));
    mine.bytes += KEPT_BYTES_MAX - mine.bytes - 100;
    assert!(mine.add(&link(3, 0)));
    assert_eq!(mine.links.keys().copied().collect::<Vec<_>>(), [number(3)]);
    assert_eq!((mine.missing(number(3)), mine.missing(number(4))), (None, Some(number(4))));
}

/// Where nobody signs there are no links, and other clusters' files mean nothing.
#[test]
fn only_links_of_this_cluster_are_taken_back() {
    let foreign = MembershipLink { cluster: ClusterId::new(8), ..link(2, 0) };
    assert!(kept(&[foreign]).links.is_empty());
    assert_eq!(kept(&[link(3, 0), link(2, 0)]).missing(number(4)), Some(number(4)));
    let crash = Kept::new(CLUSTER, Faults::of(FaultModel::Crash), &[link(2, 0)]);
    assert!(crash.links.is_empty());
}
