//! Samples of what an oracle keeps and is shown, for the fuzz targets.

use quorate_auth::{Signature, Signed};
use quorate_order::fuzzing::{Members, STATEMENTS};
use quorate_order::ledger::Proof;
use quorate_order::visigoth::{Claim, Grant, Missing, Register};
use quorate_types::{Digest, ReplicaId, Slot, View};

/// The numbers and the keys that the first byte of an input picks.
const NUMBERS: [(u8, &str); 5] = [(0, "211"), (1, "210"), (2, "322"), (3, "311"), (4, "200")];
const KEYS: [(u8, &str); 3] = [(0x00, "trusting"), (0x10, "keyed"), (0x20, "signed")];
const TAG: u64 = 5;

/// As many members as a small quorum has, from this place on.
fn set(members: &Members, from: usize) -> Vec<ReplicaId> {
    members.voters[from..].iter().take(members.trust.smallest() as usize).copied().collect()
}

/// Each of the set signed that it misses all others.
fn claim(members: &Members, view: u64, set: &[ReplicaId], proof: Option<Proof>) -> Claim {
    let misses = members.voters.iter().filter(|id| !set.contains(id)).copied().collect();
    Claim { proof, ..said(members, view, set, misses) }
}

/// Each of the set signed that it misses these.
fn said(members: &Members, view: u64, set: &[ReplicaId], misses: Vec<ReplicaId>) -> Claim {
    let view = View::new(view);
    let text = STATEMENTS.misses(view, TAG, &misses);
    let says = |id: &ReplicaId| {
        let signature = members.keys[usize::from(id.number()) - 1].build().sign(&text);
        Missing { from: *id, misses: misses.clone(), signature }
    };
    Claim { view, tag: TAG, set: set.to_vec(), said: set.iter().map(says).collect(), proof: None }
}

/// These signed that they accepted a value in a view.
fn proof(members: &Members, view: u64, by: &[ReplicaId]) -> Option<Proof> {
    let (slot, view, digest) = (Slot::new(3), View::new(view), Digest::new([1; 32]));
    let text = STATEMENTS.accept(view, slot, digest);
    let sign = |id: &ReplicaId| members.keys[usize::from(id.number()) - 1].build().sign(&text);
    let accepts: Signed = by.iter().map(|id| (*id, sign(id))).collect();
    Some(Proof { slot, view, digest, accepts })
}

/// Inputs of the target `oracle_claims`: name and bytes. Four of the ten claims are granted, in views 2 to 5, and view 4 is the floor then.
pub(crate) fn claims() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for ((numbers, sizes), (keys, kind)) in NUMBERS.iter().flat_map(|n| KEYS.iter().map(move |k| (n, k))) {
        let members = Members::of(numbers | keys);
        let all = &members.voters[..];
        let last = all.len() - members.trust.smallest() as usize;
        let (one, other, usual) =
            (set(members, 0), set(members, last), &all[..members.trust.agreement() as usize]);
        let next = |view, set: &[ReplicaId], proof| claim(members, view, set, proof);
        let proof = |view, by: &[ReplicaId]| proof(members, view, by);
        let mut unsigned = next(2, &one, None);
        unsigned.said[0].signature = Signature::NONE;
        let whole = [
            // They do not say that they miss the others, or do not sign it. Where nobody signs the second one is granted.
            said(members, 2, &one, Vec::new()),
            unsigned,
            next(2, &one, None),
            // It is granted already.
            next(2, &one, None),
            // These miss the others, and were not granted in the view in which they say that they decided.
            next(3, &other, None),
            next(3, &other, proof(3, &other)),
            // The usual quorum decided something in view 3.
            next(3, &other, proof(3, usual)),
            next(4, &all[last - 1..], proof(3, &other)),
            // A small one did in view 4.
            next(5, usual, proof(4, &all[last - 1..])),
            // None that was granted did in view 5.
            next(6, all, proof(5, &one)),
        ];
        let mut bytes = vec![numbers | keys];
        for claim in whole {
            let claim = claim.encode();
            bytes.extend_from_slice(&(claim.len() as u16).to_le_bytes());
            bytes.extend_from_slice(&claim);
        }
        seeds.push((format!("seed_{sizes}_{kind}"), bytes));
    }
    seeds
}

/// Inputs of the target `oracle_register`.
pub(crate) fn registers() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (numbers, sizes) in NUMBERS {
        let members = Members::of(numbers);
        let grant = |view, set| Grant { view: View::new(view), set };
        let with = |register: Register, grant, decided| {
            register
                .with(grant, View::new(decided), &members.voters, members.trust)
                .expect("the rule allows it")
        };
        let last = members.voters.len() - set(members, 0).len();
        let first = with(Register::default(), grant(2, set(members, 0)), 1);
        let all = with(first.clone(), grant(2, members.voters.clone()), 1);
        let later = with(all.clone(), grant(4, set(members, last)), 3);
        let mut seed = |name: &str, bytes: &[u8]| {
            seeds.push((format!("seed_{sizes}_{name}"), [&[numbers][..], bytes].concat()));
        };
        seed("nothing", &[]);
        seed("empty", &Register::default().encode());
        for (name, register) in [("one", &first), ("two", &all), ("later", &later)] {
            seed(name, &register.encode());
        }
        // As if nothing had been decided in between.
        let mut broken = later.encode().to_vec();
        broken[1] = 1;
        seed("broken", &broken);
    }
    seeds
}
