//! False STOP-DATA: what its sender claims to have locked, written and decided when it entered a view.

use crate::liars::{Plays, Said, Saying, Voice};
use quorate_order::ledger::Proof;
use quorate_order::mod_smart::digest_of;
use quorate_order::mod_smart::message::ModSmartBody as Body;
use quorate_types::{Digest, InstanceId, MembershipId, ReplicaId, Slot, View};

/// The false claim.
#[derive(Debug)]
pub(in crate::liars) enum Collects {
    /// That nothing was locked or written.
    Forgetful,
    /// That values were, which no member proposed.
    Inventive,
    /// That slots are decided, which are not.
    Boasting,
}

fn invent(me: &mut Voice, view: View, body: &mut Body) {
    let Body::StopData { collect, batches, .. } = body else { return };
    // A value that somebody proposed once, or one that nobody did.
    let proposed = me.smart.messages.iter().rev().find_map(|(_, message)| match &message.body {
        Body::Propose { batch, .. } => Some(batch.clone()),
        _ => None,
    });
    let mine = proposed.filter(|_| me.rng.chance(500)).unwrap_or_else(|| me.invent());
    let digest = digest_of(&mine);
    let locked = match me.rng.below(5) {
        0 => View::new(99),
        1 => View::new(1 << 61),
        2 => view,
        3 if view > View::FIRST => view.previous(),
        _ => View::FIRST,
    };
    collect.lock = Some((locked, digest)).filter(|_| me.rng.chance(800));
    collect.writes = vec![(locked, digest)];
    if me.rng.chance(300) {
        collect.writes.push((View::FIRST, digest));
    }
    *batches = vec![mine];
}

fn boast(me: &mut Voice, of: (InstanceId, MembershipId), view: View, body: &mut Body) {
    let Body::StopData { collect, last, .. } = body else { return };
    let slot = match me.rng.below(3) {
        0 => Slot::new(1 << 40),
        1 => collect.decided.plus(1 + me.rng.below(3)),
        _ => Slot::new(me.rng.below(collect.decided.number() + 1)),
    };
    collect.decided = slot;
    (collect.lock, collect.writes) = (None, vec![]);
    let digest = Digest::new([3; 32]);
    let own = me.accepts(of, view, slot, digest);
    *last = match me.rng.below(3) {
        0 => None,
        1 => {
            let accepts = (1..=me.replicas as u16).map(|id| (ReplicaId::new(id), own)).collect();
            Some(Proof { slot, view, digest, accepts })
        }
        _ => last.clone().map(|proof| Proof { slot, ..proof }),
    };
}

impl Plays for Collects {
    fn instead(&mut self, me: &mut Voice, to: usize, mut said: Said) -> Vec<Saying> {
        if let Said::ModSmart(instance, message) = &mut said
            && matches!(message.body, Body::StopData { .. })
        {
            let (of, view) = ((*instance, message.membership), message.view);
            match self {
                Self::Forgetful => {
                    if let Body::StopData { collect, .. } = &mut message.body {
                        (collect.lock, collect.writes) = (None, vec![]);
                    }
                }
                Self::Inventive => invent(me, view, &mut message.body),
                Self::Boasting => boast(me, of, view, &mut message.body),
            }
            if let Body::StopData { collect, .. } = &mut message.body {
                *collect = me.collect(of, view, collect.clone());
            }
        }
        vec![Saying::now(to, said)]
    }
}
