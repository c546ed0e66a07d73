//! Complaints become views: STOP, joining others' STOPs, and the certificate, which is a quorum of STOPs.
//!
//! A STOP counts towards joining only while it is repeated, and its sender repeats it as long as its complaint stands. So an old complaint
//! that is settled does not help to depose a later leader.
//!
//! INV-SMART-7: a view is entered with a certificate, and views only grow. Tests: tests/parts.rs, tests/stops.rs, tests/chaos.rs.

use super::core::Core;
use super::reject;
use super::tenures::views_to;
use crate::Effects;
use crate::mod_smart::message::{Complaint, ModSmartBody as Body};
use quorate_auth::{Signature, Signed};
use quorate_types::{Reject, ReplicaId, Span, Time, View, planted};
use std::collections::BTreeMap;

/// The last STOP of a member.
#[derive(Clone, Copy, Debug)]
struct Heard {
    asked: View,
    why: Complaint,
    signature: Signature,
    /// When it first asked for this view.
    since: Time,
    /// When it last did.
    at: Time,
}

/// A leader that is about to leave its office: for which view, when it asks for that view whatever is open, and until when it waits for the
/// view.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    target: View,
    due: Time,
    until: Time,
    asked: bool,
}

/// Which member asks for which view.
#[derive(Debug, Default)]
pub(super) struct Stops {
    heard: BTreeMap<ReplicaId, Heard>,
    /// The view that this replica asks for, why, and when it last said so.
    asking: Option<(View, Complaint, Time)>,
    leaving: Option<Leaving>,
}

impl Stops {
    /// Whether this member said that it gives up its office.
    pub(super) fn says_leaves(&self, leader: ReplicaId) -> bool {
        self.heard.get(&leader).is_some_and(|heard| heard.why == Complaint::Leaves)
    }
    /// Whether this many members ask for this view because the shift before it is over.
    pub(super) fn say_rotates(&self, view: View, needed: u32) -> bool {
        let says = |heard: &&Heard| heard.asked == view && heard.why == Complaint::Rotation;
        self.heard.values().filter(says).count() >= needed as usize
    }
    /// Whether this leader has finished its work and asked to be replaced.
    pub(super) fn left(&self) -> bool {
        self.leaving.is_some_and(|leaving| leaving.asked)
    }
    /// The members changed, so all STOPs are forgotten.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The view to join. It is the highest one for which enough others ask on their own account, of which one is right; or the view for which
    /// the leader leaves. `complains`: this replica has a reason of its own. Then the leader's word does not count, since a lying leader
    /// could name another view to each member. [mod_smart L33-L35]
    fn view_to_join(
        &self,
        complains: bool,
        doubts: impl Fn() -> bool,
        core: &Core,
    ) -> Option<(View, Complaint)> {
        let fresh = |heard: &Heard| {
            core.now().since(heard.at) <= counts_for(core) || planted("smart-stops-stand-for-ever")
        };
        let leader = core.leader();
        // If the leader itself names its successor, no other reason is needed. It can not name itself.
        let left = self.heard.get(&leader).filter(|heard| {
            let near = heard.asked > core.office.view()
                && heard.asked.since(core.office.view()) < core.members.voters().len() as u64;
            leader != core.config.me && heard.why == Complaint::Leaves && near && fresh(heard)
        });
        let left = left.map(|heard| (heard.asked, Complaint::Joined));
        if left.is_some() && !core.may_lie() {
            return left;
        }
        let left = left.filter(|_| !complains);
        let mut asked: Vec<View> = self
            .heard
            .iter()
            .filter(|(id, heard)| {
                let own = heard.why != Complaint::Joined || planted("smart-stops-stand-for-ever");
                **id != core.config.me && heard.asked > core.office.view() && own && fresh(heard)
            })
            .map(|(_, heard)| heard.asked)
            .collect();
        asked.sort_unstable_by(|one, next| next.cmp(one));
        let needed = core.truth();
        let needed = if planted("smart-join-one") { 1 } else { needed };
        let view = asked.get(needed - 1).copied().filter(|_| doubts());
        view.map(|view| (view, Complaint::Joined)).or(left)
    }

    /// Asks, or asks again, for a view, or stops asking. `own`: the view that this replica wants by itself, and why. `doubts`: whether it
    /// would join others. Returns the view that was asked for, which may have a certificate now. [mod_smart L32-L37]
    pub(super) fn ask(
        &mut self,
        own: Option<(View, Complaint)>,
        doubts: impl Fn() -> bool,
        core: &Core,
        out: &mut Effects,
    ) -> Option<View> {
        let joined = self.view_to_join(own.is_some(), doubts, core);
        let wanted = match (own, joined) {
            // A replica that asks for a higher view than it would on its own only joins; else a few could keep each other there, apart from
            // the rest.
            (Some((view, _)), Some(joined)) if joined.0 > view && !planted("smart-lifted-keeps-reason") => {
                Some(joined)
            }
            (Some((view, why)), Some(joined)) => Some((view.max(joined.0), why)),
            (own, joined) => own.or(joined),
        };
        let last = views_to(core.membership_number());
        let Some((view, why)) = wanted.filter(|(view, _)| *view <= last && core.votes()) else {
            self.asking = None;
            return None;
        };
        let due = match self.asking {
            Some((before, said, at)) => {
                before != view || said != why || core.now().since(at) >= core.config.repeat
            }
            None => true,
        };
        if !due {
            return None;
        }
        self.asking = Some((view, why, core.now()));
        let signature = core.auth.sign(&core.stop_statement(view));
        let since = self.since(core.config.me, view, core);
        self.heard.insert(core.config.me, Heard { asked: view, why, signature, since, at: core.now() });
        core.send_all(out, &Body::Stop { asked: view, why, decided: core.decided(), signature }, None);
        Some(view)
    }

    /// A member asks for a later view, if its signature is right. Returns whether it is. [mod_smart L38-L39]
    pub(super) fn hear(
        &mut self,
        from: ReplicaId,
        (asked, why, signature): (View, Complaint, Signature),
        core: &Core,
        out: &mut Effects,
    ) -> bool {
        let before = self.heard.get(&from).copied();
        let known = before.is_some_and(|heard| heard.asked == asked && heard.signature == signature);
        if !known && !core.auth.verify(from, &core.stop_statement(asked), &signature) {
            reject(out, from, Reject::NotAllowed("a STOP with a wrong signature"));
            return false;
        }
        // A replica that asked for a higher view before does not ask for it any more.
        let since = self.since(from, asked, core);
        self.heard.insert(from, Heard { asked, why, signature, since, at: core.now() });
        true
    }

    /// Since when this member asks for this view.
    fn since(&self, from: ReplicaId, asked: View, core: &Core) -> Time {
        let stands = |heard: &&Heard| heard.asked == asked && core.now().since(heard.at) <= counts_for(core);
        self.heard.get(&from).filter(stands).map_or(core.now(), |heard| heard.since)
    }

    /// How many STOPs make this view: the usual quorum, or the smallest where few are slow and the others were waited for. A few members that
    /// are ahead must not pull the others out of each view, before its leader knows what it decided. [mod_smart L40, L212]
    fn needed(&self, view: View, core: &Core) -> usize {
        let trust = core.members.trust();
        let stands = |heard: &&Heard| heard.asked == view && core.now().since(heard.at) <= counts_for(core);
        let standing = || self.heard.values().filter(stands);
        let first = standing().map(|heard| heard.since).min();
        let few = standing().count() >= trust.smallest() as usize;
        let waited = |wait: Span| few && first.is_some_and(|first| core.now().since(first) >= wait.times(2));
        let late = core.slow_after().is_some_and(waited);
        (if late { trust.smallest() } else { trust.agreement() }) as usize
    }

    /// The certificate of a later view, if a quorum asks for that view. [mod_smart L40]
    pub(super) fn certificate(&self, view: View, core: &Core) -> Option<Signed> {
        let of_it = self.heard.iter().filter(|(_, heard)| heard.asked == view);
        let stops: Signed = of_it.map(|(id, heard)| (*id, heard.signature)).collect();
        let few = planted("smart-view-by-few");
        let needed = if few { core.truth() } else { self.needed(view, core) };
        (view > core.office.view() && stops.len() >= needed).then_some(stops)
    }

    /// This view was entered.
    pub(super) fn enter(&mut self, view: View) {
        self.heard.retain(|_, heard| heard.asked > view);
        (self.asking, self.leaving) = (None, None);
    }

    /// Whether this leader is about to leave its office.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }
    /// The view for which it leaves.
    pub(super) fn leaves_for(&self) -> Option<View> {
        self.leaving.map(|leaving| leaving.target)
    }
    /// The leader stays after all.
    pub(super) fn stay(&mut self) {
        self.leaving = None;
    }

    /// The leader is to hand over, to `target` or to the next member. [mod_smart L71]
    pub(super) fn leave(&mut self, target: Option<ReplicaId>, patience: Span, core: &Core) {
        if !core.leads() || self.leaving.is_some() || core.members.voters().len() == 1 {
            return;
        }
        let n = core.members.voters().len() as u64;
        let view = (1..n)
            .map(|step| core.office.view().plus(step))
            .find(|view| target.is_none_or(|target| core.leader_of(*view) == target));
        let Some(target) = view else { return };
        let due = core.now().plus(patience);
        let until = due.plus(core.config.timeout_max);
        self.leaving = Some(Leaving { target, due, until, asked: false });
    }

    /// Whether the leader asks for the next view now: once its open slots are decided, or when that takes too long; the next view then
    /// decides them. [mod_smart L71]
    pub(super) fn leaves_now(&mut self, idle: impl Fn() -> bool, now: Time) -> bool {
        let Some(leaving) = &mut self.leaving else { return false };
        let late = now >= leaving.due && !planted("smart-leaves-when-idle");
        let asks = !leaving.asked && (late || idle());
        leaving.asked |= asks;
        asks
    }

    /// If no other leader takes over, the leader stays. [mod_smart L71]
    pub(super) fn stay_at_last(&mut self, now: Time) {
        self.leaving.take_if(|leaving| now >= leaving.until);
    }
}

/// How long a STOP counts towards joining. [mod_smart L36]
fn counts_for(core: &Core) -> Span {
    Span::from_nanos(core.config.repeat.nanos().saturating_mul(4))
}
