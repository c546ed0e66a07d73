//! What is printed of a chain, and when the command fails.

use super::{changes, document, end, parse_place, text};
use quorate::client::History;
use quorate_types::{MembershipId, ReplicaId};
use quorate_wire::{Member, MemberRole, Membership};

fn id(number: u16) -> ReplicaId {
    ReplicaId::new(number)
}

fn membership(number: u64, voters: &[u16], learners: &[u16]) -> Membership {
    let member = |role| move |number: &u16| Member { role, key: Some([1; 32]), ..Member::voter(id(*number)) };
    let voters = voters.iter().map(member(MemberRole::Voter));
    let members = voters.chain(learners.iter().map(member(MemberRole::Learner))).collect();
    Membership::new(MembershipId::new(number), members).expect("a membership")
}

fn history(named: u64) -> History {
    History {
        memberships: vec![
            membership(1, &[1, 2, 3, 4], &[]),
            membership(2, &[1, 2, 3, 4], &[5]),
            membership(3, &[2, 3, 4, 5], &[]),
        ],
        named: MembershipId::new(named),
        answered: vec![id(5)],
        problems: vec![(id(1), "no connection".into())],
    }
}

#[test]
fn each_line_says_what_changes() {
    assert_eq!(
        text(&history(3)),
        "membership 1, from client.toml: r1, r2, r3, r4\n\
         membership 2, proved by membership 1: r5 joins, to learn\n\
         membership 3, proved by membership 2: r1 leaves, r5 votes\n\n\
         In membership 3 vote r2, r3, r4, r5."
    );
    let moved = |address: &str| {
        let mut members = membership(1, &[1, 2, 3, 4], &[]).members().to_vec();
        members[2].address = address.into();
        Membership::new(MembershipId::FIRST, members).expect("a membership")
    };
    assert_eq!(changes(&moved("a:1"), &moved("b:1")), "r3 is at b:1");
    assert_eq!(changes(&moved("a:1"), &moved("a:1")), "nothing changes");
    assert_eq!(
        changes(&membership(1, &[1, 2], &[]), &membership(2, &[2, 3], &[1])),
        "r1 votes no more, r3 joins"
    );
}

#[test]
fn programs_get_the_same() {
    let document = document(&history(3));
    assert_eq!(document["memberships"][0]["proved"], false);
    assert_eq!(document["memberships"][2]["proved"], true);
    assert_eq!(document["memberships"][1]["members"][4]["role"], "learner");
    assert_eq!(document["memberships"][1]["members"][4]["key"], "01".repeat(32));
    assert_eq!((&document["named"], &document["problems"][0]["replica"]), (&3.into(), &1.into()));
}

#[test]
fn a_chain_that_ends_too_early_is_a_failure() {
    assert!(end(&history(3)).is_ok());
    let why = end(&history(5)).expect_err("there are later ones").to_string();
    assert!(why.contains("the membership is 5, and nobody shows the link from 3"), "{why}");
    let silent = History { answered: Vec::new(), ..history(3) };
    assert!(end(&silent).expect_err("who knows?").to_string().contains("--ask"));
}

#[test]
fn a_place_has_an_id_and_an_address() {
    assert_eq!(parse_place("8=h:7"), Ok((id(8), "h:7".into())));
    for wrong in ["8", "h:7", "0=h:7", "8=h", "x=h:7", ""] {
        assert!(parse_place(wrong).is_err(), "{wrong}");
    }
}
