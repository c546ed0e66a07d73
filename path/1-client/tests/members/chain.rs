//! A client that knows a membership with its keys follows the chain of membership links, and believes nobody's word.

use super::many::hand::{Hand, SESSION};
use super::many::{config, frame};
use super::{connected, known};
use bytes::Bytes;
use quorate_auth::{Ed25519, MembershipLink, Secret, chain, digest_of_request};
use quorate_client::Config;
use quorate_types::{ClusterId, InstanceId, MembershipId, ReplicaId, Slot, Span};
use quorate_wire::{Chain, Holds, Member, Membership, Memberships, SystemCommand, members_frame};

const CLUSTER: ClusterId = ClusterId::new(9);

/// A membership whose members have keys; a liar makes up others.
fn membership(number: u64, ids: &[u16], lie: u8) -> Membership {
    let key = |id: u16| Some(*Ed25519::public([id as u8 ^ lie; 32]).bytes());
    let member = |id: &u16| Member { key: key(*id), ..super::member(*id) };
    Membership::new(MembershipId::new(number), ids.iter().map(member).collect()).expect("a membership")
}

/// In membership n vote replicas n to n+3.
fn of(number: u16, lie: u8) -> Membership {
    membership(u64::from(number), &[number, number + 1, number + 2, number + 3], lie)
}

/// The link between these two, signed by three of the first.
fn link(before: &Membership, now: &Membership, lie: u8) -> Bytes {
    let change = Memberships::change(before.clone(), now.clone()).expect("the next one");
    let (view, slot) = (chain::views(before.number()).0, Slot::new(9));
    let holds = Holds { change, since: Slot::ZERO, begins: view, leader: ReplicaId::new(2) };
    let said = (view, slot, digest_of_request(SystemCommand::Holds(holds.clone()).alone().bytes()));
    let instance = InstanceId::new(1);
    let statement = chain::accept_statement(CLUSTER, before.number(), instance, said);
    let sign = |id: ReplicaId| {
        let key = Secret::new([id.number() as u8 ^ lie; 32]);
        (id, key.sign(&statement))
    };
    let accepts = before.voters().take(3).map(sign).collect();
    MembershipLink { cluster: CLUSTER, instance, view, slot, holds, accepts }.encode()
}

fn links(from: u16, to: u16) -> Vec<Bytes> {
    (from..to).map(|number| link(&of(number, 0), &of(number + 1, 0), 0)).collect()
}

/// A client that knows the first membership.
fn knows() -> Config {
    Config { cluster: Some(CLUSTER), membership: Some(of(1, 0)), ..config(3) }
}

fn tells(hand: &mut Hand, replica: usize, membership: &Membership) {
    hand.frame_from(replica, frame(&members_frame(&Memberships::one(membership.clone()))));
}

fn shows(hand: &mut Hand, replica: usize, now: u64, links: Vec<Bytes>) {
    hand.frame_from(replica, frame(&Chain { now: MembershipId::new(now), links }.frame()));
}

fn wanted(hand: &mut Hand) -> Vec<(usize, u64)> {
    std::mem::take(&mut hand.wanted)
}

#[test]
fn one_member_that_shows_the_chain_is_enough() {
    let mut hand = Hand::with(4, knows());
    let handle = hand.opened(1000, SESSION);
    hand.start(8);
    hand.call(1, handle, b"x");
    tells(&mut hand, 3, &of(5, 0));
    assert_eq!((wanted(&mut hand), known(&hand)), (vec![(3, 1)], vec![1, 2, 3, 4]), "a word is a hint");
    // As much as fits into an answer; then the rest.
    shows(&mut hand, 3, 5, links(1, 3));
    assert_eq!((wanted(&mut hand), known(&hand)), (vec![(3, 3)], vec![3, 4, 5, 6]));
    shows(&mut hand, 3, 5, links(3, 5));
    hand.advance(Span::from_millis(1));
    assert_eq!((known(&hand), connected(&hand)), (vec![5, 6, 7, 8], vec![4, 5, 6, 7]));
    assert_eq!(hand.addresses[&ReplicaId::new(8)], "r8:1");
    assert_eq!(hand.problems.iter().filter(|(_, text)| text.contains("link")).count(), 0);
    hand.done(4, 1, b"yes");
    hand.done(6, 1, b"yes");
    hand.replied(1, b"yes");
    assert_eq!(wanted(&mut hand), []);
}

/// f+1 members that say the same thing without a proof change nothing, however often.
#[test]
fn nobodys_word_counts() {
    let mut hand = Hand::with(4, knows());
    hand.start(9);
    for replica in 0..4 {
        tells(&mut hand, replica, &of(5, 0x40));
    }
    shows(&mut hand, 2, 5, links(1, 5));
    assert_eq!(known(&hand), [1, 2, 3, 4], "it was not asked");
    assert_eq!(wanted(&mut hand), [(0, 1)]);
    shows(&mut hand, 0, 5, Vec::new());
    let said = hand.problems.last().cloned().expect("the client says so");
    assert_eq!(said, (ReplicaId::new(1), "says that the membership is 5, and shows no link from 1".into()));
    assert_eq!(wanted(&mut hand), [(1, 1)], "the next one");
    hand.advance(Span::from_secs(3));
    assert_eq!(hand.problems.last().expect("a problem").1, "shows no membership link in time");
    assert_eq!(wanted(&mut hand), [(2, 1)]);
    shows(&mut hand, 1, 5, links(1, 5));
    assert_eq!(known(&hand), [1, 2, 3, 4], "too late: another is asked");
    shows(&mut hand, 2, 2, links(1, 2));
    assert_eq!(
        (known(&hand), wanted(&mut hand)),
        (vec![2, 3, 4, 5], vec![(1, 2)]),
        "who has less may have that"
    );
}

#[test]
pub(super) fn forged_links_and_holes_lead_nowhere() {
    let mut hand = Hand::with(4, knows());
    hand.start(8);
    (0..4).for_each(|replica| tells(&mut hand, replica, &of(3, 0)));
    // Made-up founders with the ids of the known ones; a hole; a link of others; bytes that are none.
    let made_up = link(&of(1, 0x40), &membership(2, &[5, 6, 7, 8], 0), 0x40);
    let others = link(&membership(1, &[5, 6, 7, 8], 0), &of(2, 0), 0);
    for (replica, (shown, why)) in [
        (vec![made_up], "it names other voters, or other keys, for the membership that is known"),
        (links(2, 3), "it continues membership 2, and membership 1 is known: links are missing between"),
        (vec![others], "it names other voters"),
        (vec![Bytes::from_static(b"QMEMLINKxxxxxxxxxxxx")], "it is damaged"),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(wanted(&mut hand), [(replica, 1)]);
        shows(&mut hand, replica, 3, shown);
        let (who, text) = hand.problems.last().expect("the client says so");
        assert_eq!(usize::from(who.number()), replica + 1);
        assert!(
            text.starts_with("shows a membership link that proves nothing: ") && text.contains(why),
            "{text}"
        );
        assert_eq!(known(&hand), [1, 2, 3, 4]);
    }
    // All were asked in vain: after a while again, and one of them has it now. What a liar adds after a right link does not spoil that.
    assert_eq!(wanted(&mut hand), []);
    hand.advance(Span::from_secs(3));
    assert_eq!(wanted(&mut hand), [(0, 1)]);
    let mut shown = links(1, 2);
    shown.push(link(&of(2, 0x40), &of(3, 0x40), 0x40));
    shows(&mut hand, 0, 3, shown);
    assert_eq!((known(&hand), wanted(&mut hand)), (vec![2, 3, 4, 5], vec![(1, 2)]));
    assert_eq!(hand.client.stats().frames_bad, 0);
}

/// A member that is lost while it is asked is not waited for.
#[test]
fn another_is_asked_when_one_is_lost() {
    let mut hand = Hand::with(4, knows());
    (0..2).for_each(|replica| tells(&mut hand, replica, &of(2, 0)));
    assert_eq!(wanted(&mut hand), [(0, 1)]);
    hand.lose(0);
    hand.advance(Span::from_secs(3));
    assert!(wanted(&mut hand).contains(&(1, 1)));
}
