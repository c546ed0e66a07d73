//! What an oracle keeps, and what it is shown: any bytes as a register, and as claims, one after the other.
//!
//! The rule is said here once more, in its plainest form, so that whatever is granted is judged by something else than what granted it.

use crate::ledger::Proof;
use crate::mod_smart::{Group, Referee, Statements};
use crate::visigoth::{Claim, Grant, Register};
use bytes::Bytes;
use quorate_auth::{Authenticator, Ed25519, Keyed, Keys, Signature};
use quorate_types::{ClusterId, InstanceId, MembershipId, ReplicaId, Trust, View, Visigoth};
use quorate_wire::Reader;
use std::sync::OnceLock;

/// What the members sign: those of the only instance.
pub const STATEMENTS: Statements =
    Statements { cluster: ClusterId::new(7), membership: MembershipId::FIRST, instance: InstanceId::new(1) };

/// u, s and o of the clusters that an input may be about. Each has as many members as these need.
const SIZES: [[u32; 3]; 5] = [[2, 1, 1], [2, 1, 0], [3, 2, 2], [3, 1, 1], [2, 0, 0]];
/// The highest view of the first membership.
const LAST_VIEW: u64 = 1 << 40;

/// The cluster that an input is about.
#[derive(Debug)]
pub struct Members {
    /// Who votes, by id.
    pub voters: Vec<ReplicaId>,
    /// The numbers; they need as many members as there are.
    pub sizes: Visigoth,
    /// The trust that follows from them.
    pub trust: Trust,
    /// The keys of each member.
    pub keys: Vec<Keys>,
    /// What an oracle elsewhere is told of them, where they have real keys.
    pub group: Option<Group>,
}

impl Members {
    /// The one that the first byte of an input picks: its low four bits the numbers, the others the keys. With 0 anybody can sign anything,
    /// with 1 the keys are those of simulators, with 2 they are real, and so is the group.
    ///
    /// # Panics
    /// When the numbers in this file contradict each other.
    pub fn of(byte: u8) -> &'static Self {
        static MADE: [OnceLock<Members>; 256] = [const { OnceLock::new() }; 256];
        MADE[usize::from(byte)].get_or_init(|| Self::make(byte))
    }

    fn make(byte: u8) -> Self {
        let [u, s, o] = SIZES[usize::from(byte & 15) % SIZES.len()];
        let sizes = Visigoth { u, s, o, t_ms: 1 };
        let voters: Vec<ReplicaId> = (1..=sizes.members_min() as u16).map(ReplicaId::new).collect();
        let secret = |id: ReplicaId| [id.number() as u8; 32];
        let public: Vec<_> = voters.iter().map(|id| (*id, Ed25519::public(secret(*id)))).collect();
        let own = |id: &ReplicaId| match byte >> 4 {
            0 => Keys::Trusting,
            1 => Keys::Keyed(Keyed::new(*id, 1)),
            _ => {
                Keys::Ed25519(Box::new(Ed25519::new(*id, secret(*id), public.iter().copied()).expect("keys")))
            }
        };
        let keys = voters.iter().map(own).collect();
        let group = Group { cluster: STATEMENTS.cluster, sizes, members: public.clone() };
        Self {
            trust: Trust::new(voters.len() as u32, u, s, o).expect("as many as they need"),
            group: (byte >> 4 > 1).then_some(group),
            voters,
            sizes,
            keys,
        }
    }

    /// What becomes of a register by the bytes of a claim.
    fn judge(&self, register: &Register, bytes: Bytes) -> Register {
        let Ok(claim) = Claim::decode(bytes.clone()) else { return register.clone() };
        assert_eq!(claim.encode(), bytes, "what is read as a claim is what was written as one");
        let auth = self.keys[0].build();
        let referee =
            Referee { statements: STATEMENTS, voters: &self.voters, trust: self.trust, auth: &*auth };
        let judged = referee.judge(register, claim.clone());
        if let Some(group) = &self.group {
            let elsewhere = group.judge(STATEMENTS.instance, register.encode(), bytes);
            let here = judged.as_ref().map(|next| (next != register).then(|| next.encode()));
            assert_eq!(elsewhere.ok(), here.ok(), "an oracle elsewhere judges alike");
        }
        let next = judged.unwrap_or_else(|_| register.clone());
        if next != *register {
            self.was_shown(&claim, register, &next, &*auth);
        }
        next
    }

    /// A claim changed the register: it showed enough. [visigoth L2, L35-L36]
    fn was_shown(&self, claim: &Claim, before: &Register, next: &Register, auth: &dyn Authenticator) {
        let grant = Grant { view: claim.view, set: claim.set.clone() };
        let (last, rest) = next.grants().split_last().expect("a grant was added");
        assert_eq!(*last, grant);
        let gone = before.grants().strip_suffix(rest).expect("the others stay as they are");
        assert!(
            gone.len() <= 1 && gone.iter().all(|grant| grant.view < next.floor()),
            "only what binds nobody"
        );
        for (id, said) in claim.set.iter().zip(&claim.said) {
            let text = STATEMENTS.misses(claim.view, claim.tag, &said.misses);
            assert!(said.from == *id && auth.verify(*id, &text, &said.signature), "it said so itself");
            let heard = self.voters.iter().filter(|id| !claim.set.contains(id) && !said.misses.contains(id));
            assert!(heard.count() as u32 <= self.sizes.s, "at most s may be slow towards others only");
        }
        assert!(next.floor() >= before.floor(), "the floor does not fall");
        if next.floor() > before.floor() {
            let proof = claim.proof.as_ref().expect("something that was decided");
            assert_eq!(proof.view, next.floor());
            self.was_decided(proof, before, auth);
        }
    }

    fn was_decided(&self, proof: &Proof, before: &Register, auth: &dyn Authenticator) {
        let text = STATEMENTS.accept(proof.view, proof.slot, proof.digest);
        let signed = |id: &ReplicaId| {
            let by =
                |(from, signature): &(ReplicaId, Signature)| from == id && auth.verify(*id, &text, signature);
            proof.accepts.iter().any(by)
        };
        let usual = self.voters.iter().filter(|id| signed(id)).count() as u32 >= self.trust.agreement();
        let few = before.grants_of(proof.view).any(|grant| grant.set.iter().all(signed));
        assert!(usual || few, "a quorum accepted it");
    }

    /// INV-VISIGOTH-1, and what every grant must be. [visigoth L4-L6]
    fn keep_the_rule(&self, register: &Register) {
        let grants = register.grants();
        for (at, one) in grants.iter().enumerate() {
            let members = one.set.iter().filter(|id| self.voters.contains(id)).count();
            assert!(members == one.set.len() && members as u32 >= self.voters.len() as u32 - self.sizes.u);
            assert!(one.set.is_sorted_by(|one, next| one < next), "each once");
            for before in &grants[..at] {
                assert!(before.view <= one.view, "nobody goes back");
                let shared = before.set.iter().filter(|id| one.set.contains(id)).count() as u32;
                let bound = before.view >= register.floor() || before.view == one.view;
                assert!(!bound || shared > self.sizes.o, "{before:?} and {one:?} miss each other");
            }
        }
    }
}

/// The first byte picks a cluster; the others are a register. The decoder returns for any bytes. What it reads are these bytes, and what it
/// believes keeps the rule.
///
/// # Panics
/// When that does not hold.
pub fn register(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let (members, bytes) = (Members::of(first & 15), Bytes::copy_from_slice(rest));
    let believed = Register::decode(bytes.clone(), &members.voters, members.trust);
    let Ok(register) = Register::read(bytes.clone()) else {
        assert!(believed.is_err(), "nothing believes what can not be read");
        return;
    };
    // No bytes stand for a register that nobody wrote.
    assert!(bytes.is_empty() || register.encode() == bytes, "what is read is what was written");
    assert_eq!(Register::read(register.encode()), Ok(register.clone()));
    if let Ok(believed) = believed {
        assert_eq!(believed, register);
        members.keep_the_rule(&register);
    }
}

/// The first byte picks a cluster; the others are claims, each with its length (u16) before it, which come to a register that nobody wrote.
/// Whatever they are, the register keeps the rule, members believe it, and it grants nothing that was not shown. Returns what it holds then.
///
/// # Panics
/// When that does not hold.
pub fn claims(data: &[u8]) -> Register {
    let mut register = Register::default();
    let Some((first, rest)) = data.split_first() else { return register };
    let members = Members::of(*first);
    let mut r = Reader::new(Bytes::copy_from_slice(rest), "claims");
    while let Ok(len) = r.u16() {
        // The last one may be cut off.
        let Ok(claim) = r.bytes(usize::from(len).min(r.remaining())) else { break };
        register = members.judge(&register, claim);
        members.keep_the_rule(&register);
        let believed = Register::decode(register.encode(), &members.voters, members.trust);
        assert_eq!(believed, Ok(register.clone()), "members believe it");
        let views = register.grants().iter().map(|grant| grant.view).chain([register.floor()]);
        assert!(views.max().unwrap_or(View::ZERO).number() <= LAST_VIEW, "views of this membership");
    }
    register
}
