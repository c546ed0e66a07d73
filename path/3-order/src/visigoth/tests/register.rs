//! The rule by itself, and against a search: whatever is granted in whatever order, no two small quorums that bind miss each other.

use crate::visigoth::{Grant, Refusal, Register};
use bytes::Bytes;
use quorate_types::{Random, ReplicaId, Trust, View};

fn ids(numbers: &[u16]) -> Vec<ReplicaId> {
    numbers.iter().copied().map(ReplicaId::new).collect()
}

fn grant(view: u64, set: &[u16]) -> Grant {
    Grant { view: View::new(view), set: ids(set) }
}

/// u = 2, s = 1, o = 0: four members, and two of them may be a quorum.
fn four() -> (Vec<ReplicaId>, Trust) {
    (ids(&[1, 2, 3, 4]), Trust::new(4, 2, 1, 0).expect("four members are enough"))
}

fn with(register: &Register, next: Grant, decided: u64) -> Result<Register, Refusal> {
    let (voters, trust) = four();
    register.with(next, View::new(decided), &voters, trust)
}

/// A partition into two halves: view 1 grants one half, which decides; the other half enters view 2 and must get nothing.
#[test]
fn two_halves_do_not_both_go_on() {
    let register = with(&Register::default(), grant(1, &[1, 2]), 0).expect("the first one");
    let refused = with(&register, grant(2, &[3, 4]), 0);
    assert_eq!(refused, Err(Refusal::Misses(grant(1, &[1, 2]))));
    assert!(with(&register, grant(2, &[2, 3]), 0).is_ok(), "they share one");
}

#[test]
fn a_decision_in_a_later_view_ends_what_bound_before() {
    let register = with(&Register::default(), grant(1, &[1, 2]), 0).expect("the first one");
    let later = with(&register, grant(3, &[3, 4]), 2).expect("view 2 decided with all of them");
    assert_eq!(
        later.grants(),
        [grant(1, &[1, 2]), grant(3, &[3, 4])],
        "what the first one decided stays shown"
    );
    assert_eq!(with(&later, grant(2, &[3, 4]), 2), Err(Refusal::Old(View::new(3))));
    assert_eq!(with(&register, grant(1, &[3, 4]), 1), Err(Refusal::Misses(grant(1, &[1, 2]))));
    assert_eq!(
        with(&register, grant(1, &[3, 4]), 9),
        Err(Refusal::Misses(grant(1, &[1, 2]))),
        "no later view"
    );
}

#[test]
fn a_grant_names_enough_members_once() {
    for set in [&[1][..], &[1, 5], &[1, 1], &[2, 1], &[]] {
        assert_eq!(with(&Register::default(), grant(1, set), 0), Err(Refusal::NoQuorum), "{set:?}");
    }
}

/// Where one may lie, two small quorums share two members.
#[test]
fn they_share_more_members_than_may_lie() {
    let (voters, trust) = (ids(&[1, 2, 3, 4, 5]), Trust::new(5, 2, 1, 1).expect("five are enough"));
    let next = |register: &Register, set| register.with(grant(1, set), View::ZERO, &voters, trust);
    let register = next(&Register::default(), &[1, 2, 3]).expect("the first one");
    assert!(matches!(next(&register, &[3, 4, 5]), Err(Refusal::Misses(_))));
    assert!(next(&register, &[2, 3, 4]).is_ok());
}

#[test]
fn bytes_come_back_and_others_are_refused() {
    let (voters, trust) = four();
    let decode = |bytes: Bytes| Register::decode(bytes, &voters, trust);
    assert_eq!(decode(Bytes::new()), Ok(Register::default()), "nothing was granted yet");
    let register = with(&Register::default(), grant(4, &[1, 2]), 3).expect("the first one");
    let register = with(&register, grant(6, &[2, 3, 4]), 3).expect("they share one");
    let bytes = register.encode();
    assert_eq!(decode(bytes.clone()), Ok(register));
    for len in 1..bytes.len() {
        assert!(decode(bytes.slice(..len)).is_err(), "{len} bytes");
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut wrong = bytes.to_vec();
            wrong[at] ^= 1 << bit;
            if let Ok(read) = decode(wrong.clone().into()) {
                assert_eq!(read.encode(), wrong, "it is taken as it stands");
            }
        }
    }
    // Two registers with one grant each become one with both.
    let one = |next| with(&Register::default(), next, 0).expect("the first one").encode();
    let mut apart = [&one(grant(1, &[1, 2]))[..], &one(grant(2, &[3, 4]))[11..]].concat();
    apart[9..11].copy_from_slice(&2u16.to_le_bytes());
    assert!(decode(apart.into()).is_err(), "somebody broke the rule");
}

/// All sequences of wishes, at random: what is granted keeps the invariant.
#[test]
fn granted_sets_that_bind_meet() {
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let (u, s, o) = [(2, 1, 0), (2, 1, 1), (3, 1, 1), (2, 0, 0), (3, 2, 0)][(seed % 5) as usize];
        let n = u + s + o + 1;
        let trust = Trust::new(n, u, s, o).expect("as many as are needed");
        let voters: Vec<ReplicaId> = (1..=n as u16).map(ReplicaId::new).collect();
        let mut register = Register::default();
        for _ in 0..12 {
            let set = voters.iter().copied().filter(|_| random.below(2) == 0).collect();
            let (view, decided) = (View::new(1 + random.below(4)), View::new(random.below(4)));
            if let Ok(next) = register.with(Grant { view, set }, decided, &voters, trust) {
                register = next;
            }
            for (at, one) in register.grants().iter().enumerate() {
                assert!(one.set.len() as u32 >= n - u);
                let bind = |grant: &&Grant| grant.view >= register.floor();
                for other in register.grants()[..at].iter().filter(bind) {
                    let shared = one.set.iter().filter(|id| other.set.contains(id)).count();
                    assert!(shared as u32 > o && other.view <= one.view, "seed {seed}: {register:?}");
                }
            }
        }
    }
}
