//! What exactly is signed, and the checks of certificates of views, proofs of decisions, and collects.
//!
//! A statement begins with its kind, and names the cluster, the membership, the instance and the view. So a signature made for one purpose
//! is of no use for another: no vote on another slot in a proof, no collect of an earlier view in a SYNC. [mod_smart L4-L6]
//! The membership also tells which key of its signer counts. [mod_smart L173]
//!
//! Tests: tests/normal.rs, tests/sync.rs, tests/stops.rs.

use super::core::Core;
use super::is_view_of;
use super::tenures::Tenure;
use crate::ledger::Proof;
use crate::mod_smart::message::Collect;
use quorate_auth::{MembershipLink, Signature, Signed, Text, chain};
use quorate_types::{ClusterId, Digest, InstanceId, MembershipId, ReplicaId, Slot, View, planted};
use quorate_wire::Batch;

const STOP: &[u8; 8] = b"qms/stp1";
const COLLECT: &[u8; 8] = b"qms/col1";
const MISSES: &[u8; 8] = b"qms/mis1";

/// The digest of all bytes of a batch, which stands for the batch. [mod_smart L3]
pub fn digest_of(batch: &Batch) -> Digest {
    Digest::new(*blake3::hash(batch.bytes()).as_bytes())
}

/// The bytes that the members of one instance sign. Beside the protocol, only tests that play a lying member sign them.
#[derive(Clone, Copy, Debug)]
pub struct Statements {
    /// The cluster.
    pub cluster: ClusterId,
    /// The membership in which the signer is.
    pub membership: MembershipId,
    /// The instance.
    pub instance: InstanceId,
}

impl Statements {
    fn of(&self, what: &[u8; 8], view: View) -> Text {
        let mut bytes = Vec::with_capacity(96);
        bytes.extend_from_slice(what);
        bytes.extend_from_slice(&self.cluster.bits().to_le_bytes());
        bytes.extend_from_slice(&self.membership.number().to_le_bytes());
        bytes.extend_from_slice(&self.instance.number().to_le_bytes());
        bytes.extend_from_slice(&view.number().to_le_bytes());
        Text { membership: self.membership, bytes }
    }

    /// The signer accepts this value for this slot in this view.
    pub fn accept(&self, view: View, slot: Slot, digest: Digest) -> Text {
        let at = (view, slot, digest);
        let bytes = chain::accept_statement(self.cluster, self.membership, self.instance, at);
        Text { membership: self.membership, bytes }
    }

    /// The signer asks for this view.
    pub fn stop(&self, asked: View) -> Text {
        self.of(STOP, asked)
    }

    /// In this view the signer misses these members, asked with this tag. [visigoth L30]
    pub fn misses(&self, view: View, tag: u64, ids: &[ReplicaId]) -> Text {
        let mut text = self.of(MISSES, view);
        text.bytes.extend_from_slice(&tag.to_le_bytes());
        ids.iter().for_each(|id| text.bytes.extend_from_slice(&id.number().to_le_bytes()));
        text
    }

    /// The signer enters this view and knows this.
    pub fn collect(&self, view: View, collect: &Collect) -> Text {
        let mut text = self.of(COLLECT, view);
        text.bytes.extend_from_slice(&collect.from.number().to_le_bytes());
        text.bytes.extend_from_slice(&collect.decided.number().to_le_bytes());
        for (count, list) in [
            (collect.lock.is_some() as u8, collect.lock.as_slice()),
            (collect.writes.len() as u8, &collect.writes[..]),
        ] {
            text.bytes.push(count);
            for (view, digest) in list {
                text.bytes.extend_from_slice(&view.number().to_le_bytes());
                text.bytes.extend_from_slice(digest.bytes());
            }
        }
        text
    }
}

impl Core {
    fn statements(&self, tenure: &Tenure) -> Statements {
        Statements {
            cluster: self.config.cluster,
            membership: tenure.number(),
            instance: self.config.instance,
        }
    }

    /// The accept statement under the membership that votes on this slot.
    pub(super) fn accept_statement(&self, view: View, slot: Slot, digest: Digest) -> Text {
        self.statements(self.members.tenures().of(slot)).accept(view, slot, digest)
    }

    pub(super) fn stop_statement(&self, asked: View) -> Text {
        self.statements(self.members.tenures().now()).stop(asked)
    }

    pub(super) fn misses_statement(&self, tag: u64, ids: &[ReplicaId]) -> Text {
        self.statements(self.members.tenures().now()).misses(self.office.view(), tag, ids)
    }

    pub(super) fn collect_statement(&self, view: View, collect: &Collect) -> Text {
        self.statements(self.members.tenures().now()).collect(view, collect)
    }

    /// Whether all of these are members of the tenure and signed this, in the order of their ids.
    fn signed_by(&self, tenure: &Tenure, list: &Signed, statement: &Text) -> bool {
        let members = list.is_sorted_by(|one, next| one.0 < next.0)
            && list.iter().all(|(member, _)| tenure.is_voter(*member));
        let claims: Vec<_> = list.iter().map(|(member, signature)| (*member, statement, signature)).collect();
        members && self.auth.verify_all(&claims)
    }

    /// Whether a quorum asked for this view. The first view of a tenure needs no such certificate. [mod_smart L31, L111]
    pub(super) fn certifies(&self, view: View, stops: &Signed) -> bool {
        let now = self.members.tenures().now();
        // A joining replica does not know the first members; where no replica lies it need not.
        let unknown = !self.members.tenures().is_known() && !self.may_lie();
        // No slot is decided by that, so no two such sets need meet.
        let enough = || stops.len() >= now.trust(self.config.faults).smallest() as usize;
        let asked = || enough() && self.signed_by(now, stops, &self.stop_statement(view));
        view == now.begins || unknown || asked()
    }

    /// Whether this proves that a slot is decided. The view tells which membership voted. Where no replica lies, the word of one is enough.
    /// [mod_smart L24, L116]
    pub(super) fn proves(&self, proof: &Proof) -> bool {
        if planted("smart-proof-unchecked") {
            return true;
        }
        let tenure = self.members.tenures().of(proof.slot);
        let statement = self.accept_statement(proof.view, proof.slot, proof.digest);
        let theirs = is_view_of(proof.view, tenure.number());
        (theirs || planted("smart-proof-of-any-membership"))
            && (!self.config.faults.may_lie() || self.accepted_by_quorum(tenure, proof, &statement))
    }

    /// What proves the next membership to others, if this slot of the first instance decided it. A small quorum proves it to nobody who
    /// does not know what was granted, and keys that others do not have prove nothing. What it proves to whom is checked where clients and hosts can, too:
    /// `base/auth/src/chain.rs`, and what hosts keep of it, in `host/node/src/reconfigure/chain.rs`. [mod_smart L190-L197]
    pub(super) fn link(&self, proof: &Proof, batch: &Batch) -> Option<MembershipLink> {
        let (config, tenures) = (&self.config, self.members.tenures());
        let tenure = tenures.of(proof.slot);
        let usual = tenure.trust(config.faults).agreement() as usize;
        let carries = self.may_lie() && tenures.is_known() && proof.accepts.len() >= usual;
        let has_keys = || tenure.voters().iter().all(|id| self.auth.key(*id, tenure.number()).is_some());
        if !carries || config.instance != InstanceId::new(1) || !has_keys() {
            return None;
        }
        let at = (proof.view, proof.slot);
        MembershipLink::of(config.cluster, config.instance, at, batch, &proof.accepts)
    }

    fn accepted_by_quorum(&self, tenure: &Tenure, proof: &Proof, statement: &Text) -> bool {
        let accepts = &proof.accepts;
        let quorums = self.quorums_in(tenure, proof.view);
        let accepted = |id| accepts.iter().any(|(member, _)| *member == id);
        quorums.hold(accepts.len(), accepted) && self.signed_by(tenure, accepts, statement)
    }

    /// Whether a member said this on entering this view, and it is possible: at that time it had not voted in that view or a later one.
    /// [mod_smart L42]
    pub(super) fn collect_holds(&self, view: View, collect: &Collect) -> bool {
        self.collect_holds_if(self.collect_is_signed(view, collect), view, collect)
    }

    /// The same, where it is known whether the sender signed it.
    pub(super) fn collect_holds_if(&self, signed: bool, view: View, collect: &Collect) -> bool {
        let begins = self.members.tenures().now().begins;
        let before = |(voted, _): &(View, Digest)| *voted >= begins && *voted < view;
        let sensible = collect.lock.iter().all(before) && collect.writes.iter().all(before);
        let mut digests: Vec<_> = collect.writes.iter().map(|(_, digest)| digest).collect();
        digests.sort_unstable();
        let once = digests.is_sorted_by(|one, next| one < next);
        self.is_member(collect.from)
            && (signed || planted("smart-collect-unsigned"))
            && ((sensible && once) || planted("smart-collect-of-any-view"))
    }

    /// Whether the sender signed it for this view. A replica that restarts in a view that has begun may have voted in it already.
    pub(super) fn collect_is_signed(&self, view: View, collect: &Collect) -> bool {
        self.auth.verify(collect.from, &self.collect_statement(view, collect), &collect.signature)
    }

    pub(super) fn sign_accept(&self, view: View, slot: Slot, digest: Digest) -> Signature {
        assert!(self.can_sign(), "INV-SMART-14: without its key a replica votes for nothing");
        self.auth.sign(&self.accept_statement(view, slot, digest))
    }
}
