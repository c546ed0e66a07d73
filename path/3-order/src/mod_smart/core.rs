//! What a replica knows, whatever it is asked: its configuration and key, its members, its view, and what was decided.
//!
//! All parts read it. It is made of the members (`members`), the view (`office`), and the log (the ledger). They change where a vote is
//! written down, in the files that call all parts (`mod`, `slots`, `views`), and in `restore`. `statements` has what is signed and the
//! checks of others' signatures; `persist` has what is written down.
//!
//! INV-SMART-14. Tests: tests/parts.rs, tests/keys.rs.

use super::members::Participants;
use super::message::{ModSmartBody as Body, ModSmartMessage};
use super::office::{Office, Phase};
use super::tenures::{Tenure, Tenures};
use super::{ModSmartConfig, rules};
use crate::ledger::Ledger;
use crate::life::Life;
use crate::quorums::{Granted, Quorums};
use crate::{Effect, Effects, OrderMessage};
use quorate_auth::{Authenticator, Signed};
use quorate_types::{MembershipId, RecordId, ReplicaId, Slot, Time, View, planted};

/// What a replica knows; see the module.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: ModSmartConfig,
    pub(super) auth: Box<dyn Authenticator>,
    pub(super) life: Life,
    /// The members, by slot.
    pub(super) members: Participants,
    pub(super) office: Office,
    pub(super) ledger: Ledger,
    /// Small quorums that were granted, as far as they are known here.
    pub(super) granted: Granted,
    /// Those of the present view, as the host was told.
    pub(super) said: Vec<Vec<ReplicaId>>,
}

impl Core {
    pub(super) fn new(mut config: ModSmartConfig, auth: Box<dyn Authenticator>) -> Self {
        config.members.sort_unstable();
        let founded = config.members.contains(&config.me);
        let tenures = Tenures::created(&config.members, config.instance, config.faults, founded);
        Self {
            members: Participants::new(config.me, tenures, config.faults),
            ledger: Ledger::new(config.reload.then_some(config.cache_bytes)),
            config,
            auth,
            life: Life::default(),
            office: Office::default(),
            granted: Granted::default(),
            said: Vec::new(),
        }
    }

    /// The tenures changed: the signatures of all their members can be checked, each with the key of its membership. [mod_smart L172-L173]
    pub(super) fn know_members(&mut self) {
        let Self { auth, members, .. } = self;
        for tenure in members.tenures().all() {
            for member in tenure.members.now().members() {
                if let Some(key) = &member.key {
                    auth.know(member.replica, tenure.number(), key);
                }
            }
        }
    }

    pub(super) fn now(&self) -> Time {
        self.life.now
    }
    pub(super) fn leader_of(&self, view: View) -> ReplicaId {
        rules::leader_of(self.members.voters(), self.config.instance.number(), view)
    }
    pub(super) fn leader(&self) -> ReplicaId {
        self.leader_of(self.office.view())
    }
    /// Whether this replica is the leader, barred or not.
    pub(super) fn is_leader(&self) -> bool {
        self.leader() == self.config.me
    }
    /// Whether this replica leads this view, begun or not, and is not barred.
    pub(super) fn is_mine(&self) -> bool {
        self.is_leader() && !self.office.is_barred() && self.can_sign()
    }
    /// Whether it is known what binds the view.
    pub(super) fn has_begun(&self) -> bool {
        self.office.has_begun()
    }
    /// Whether this replica leads, and the view has begun.
    pub(super) fn leads(&self) -> bool {
        self.is_mine() && self.has_begun() && !self.life.halted && self.life.started
    }
    pub(super) fn decided(&self) -> Slot {
        self.ledger.last()
    }
    pub(super) fn may_lie(&self) -> bool {
        self.config.faults.may_lie()
    }
    pub(super) fn membership_number(&self) -> MembershipId {
        self.members.tenures().now().number()
    }
    pub(super) fn is_member(&self, id: ReplicaId) -> bool {
        self.members.is_voter(id)
    }
    /// Whether this replica holds the key that is its own in the present membership. Without it, it is silent: it votes for nothing, asks for
    /// no view and leads none, and only follows what others decide. [mod_smart L174]
    pub(super) fn can_sign(&self) -> bool {
        self.auth.can_sign(self.membership_number())
    }
    /// Whether this replica votes on the open slot.
    pub(super) fn votes(&self) -> bool {
        self.is_member(self.config.me) && self.can_sign()
    }
    /// The quorums of the present view. [mod_smart L210]
    pub(super) fn quorums(&self) -> Quorums<'_> {
        let quorums = Quorums::new(self.members.trust(), self.granted.of(self.office.view()));
        quorums.weighing(&self.config.heavy, self.members.voters())
    }
    /// The quorums of a view in this tenure. [mod_smart L211]
    pub(super) fn quorums_in(&self, tenure: &Tenure, view: View) -> Quorums<'_> {
        let quorums = Quorums::new(tenure.trust(self.config.faults), self.granted.of(view));
        if self.config.heavy.is_empty() {
            return quorums;
        }
        let tenure = if planted("weights-of-other-members") { self.members.tenures().now() } else { tenure };
        quorums.weighing(&self.config.heavy, &tenure.voters())
    }
    /// The least number of members of which one tells the truth.
    pub(super) fn truth(&self) -> usize {
        self.members.trust().truth() as usize
    }

    /// The phase with which a view begins here, if the view is not the first of its tenure. A replica that does not vote need not know what
    /// binds the view.
    pub(super) fn first_phase(&self) -> Phase {
        if self.votes() { Phase::Syncing } else { Phase::free_after(self.decided()) }
    }

    /// Enters a view and writes that down.
    pub(super) fn enter(&mut self, view: View, certificate: Signed, phase: Phase, out: &mut Effects) {
        self.office.enter(view, certificate, phase);
        self.persist_view(out);
    }

    pub(super) fn send(&self, out: &mut Effects, to: ReplicaId, body: Body, after: Option<RecordId>) {
        if to != self.config.me {
            let message =
                ModSmartMessage { membership: self.membership_number(), view: self.office.view(), body };
            // A message says in which view we are: that must be durable, too.
            let after = after
                .max(Some(self.office.record()))
                .and_then(|record| self.ledger.records().pending(record));
            out.push(Effect::Send { to, message: OrderMessage::of(message), after });
        }
    }
    pub(super) fn send_all(&self, out: &mut Effects, body: &Body, after: Option<RecordId>) {
        for to in self.members.voters() {
            self.send(out, *to, body.clone(), after);
        }
    }
    /// Sends to all voters and hearers.
    pub(super) fn tell_all(&self, out: &mut Effects, body: &Body) {
        self.send_all(out, body, None);
        for to in self.members.hearers() {
            self.send(out, *to, body.clone(), None);
        }
    }
}
