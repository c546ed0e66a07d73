//! Which replicas and clients lie, and how; only in clusters that should survive that.

use super::{Fault, Plan, Profile};
use crate::liars::clients::ClientTrick;
use crate::liars::{KEEPERS, TRICKS, Trick};
use crate::random::Rng;
use quorate_types::{Faults, ReplicaId};
use std::collections::BTreeSet;

/// A replica that lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Liar {
    /// The replica.
    pub who: usize,
    /// Its tricks.
    pub tricks: Vec<Trick>,
    /// In this many of 1000 cases a trick is played.
    pub often: u64,
    /// When it begins to lie.
    pub since: u64,
}

impl Plan {
    /// The faults that the cluster survives.
    pub fn survives(&self) -> Faults {
        let faults = Faults::of(self.fault_model);
        if self.weighted { faults.at_most(1).weighted() } else { faults }
    }

    /// The members whose votes count more: the first ones.
    pub fn heavy(&self) -> Vec<ReplicaId> {
        let heavy = self.survives().among(self.founders as u32).heavy();
        (1..=heavy as u16).map(ReplicaId::new).collect()
    }

    /// How many replicas may lie.
    pub fn may_lie(&self) -> usize {
        self.survives().among(self.fewest()).truth() as usize - 1
    }

    /// How few voters there may be at some time.
    fn fewest(&self) -> u32 {
        let changes = self.replicas > self.founders && self.fault_model.may_lie();
        if changes { self.founders.min(4) as u32 } else { self.replicas as u32 }
    }

    /// With so many founders something may be decided.
    pub fn enough(&self) -> usize {
        let trust = self.survives().among(self.founders as u32);
        let by_weight = if self.weighted { trust.heavy() as usize + 1 } else { self.founders };
        (self.founders / 2 + 1).min(trust.smallest() as usize).min(by_weight)
    }

    /// How many replicas may be lost, or may lie, whatever else happens. Where few members are slow no more than that: other faults
    /// make more of them slow than a cluster is made for.
    pub fn spare(&self) -> usize {
        if let Some(numbers) = self.fault_model.visigoth().filter(|_| self.fault_model.few_are_slow()) {
            return numbers.s.max(numbers.o) as usize;
        }
        self.survives().among(self.fewest()).faults() as usize
    }

    /// Whether a replica lies.
    pub fn is_liar(&self, who: usize) -> bool {
        self.liars.iter().any(|liar| liar.who == who)
    }

    /// Whether it is a liar without a disk.
    pub fn is_fast(&self, who: usize) -> bool {
        let fast = |liar: &Liar| liar.tricks.iter().any(|trick| trick.is_fast());
        self.liars.iter().any(|liar| liar.who == who && fast(liar))
    }

    /// The trick of a client, if it lies; liars come after the others.
    pub fn client_trick(&self, client: usize) -> Option<ClientTrick> {
        let honest = self.clients - self.lying_clients.len();
        self.lying_clients.get(client.checked_sub(honest)?).copied()
    }

    pub(super) fn liars_in_words(&self) -> String {
        let mut words = String::new();
        for liar in &self.liars {
            let since = liar.since as f64 / 1e9;
            words += &format!(
                ", r{} lies since {since:.1} s ({} of 1000: {:?})",
                liar.who + 1,
                liar.often,
                liar.tricks
            );
        }
        if self.costs {
            words += ", messages cost time";
        }
        if self.signs {
            words += ", clients sign";
        }
        if self.workers.is_some() {
            words += ", workers check";
        }
        if self.tags {
            words += ", clients put tags under requests";
        }
        if !self.lying_clients.is_empty() {
            words += &format!(", clients lie: {:?}", self.lying_clients);
        }
        words
    }
}

/// Draws the liars, from a generator of its own, after everything else.
pub(super) fn plan_liars(plan: &mut Plan, profile: &Profile) {
    if !plan.fault_model.may_lie() {
        return;
    }
    let mut rng = Rng::of(plan.seed, 21);
    let f = plan.may_lie();
    // Some runs leave room for disks that are lost.
    let drawn = if rng.chance(150) { rng.below(f as u64 + 1) as usize } else { f };
    let count = profile.liars.unwrap_or(drawn).min(plan.replicas);
    let mut left: Vec<usize> = (0..plan.replicas).collect();
    for _ in 0..count {
        let who = left.remove(rng.below(left.len() as u64) as usize);
        plan.liars.push(liar(who, plan.heal_at, &mut rng));
    }
    plan_keepers(plan, &mut Rng::of(plan.seed, 29));
    if plan.fault_model.few_are_slow() {
        plan_claims(plan, &mut Rng::of(plan.seed, 30));
    }
    let mut rng_of_signers = Rng::of(plan.seed, 22);
    plan.signs = rng_of_signers.chance(400);
    plan.tags = !plan.signs && Rng::of(plan.seed, 24).chance(400);
    if profile.liars != Some(0) {
        plan_clients(plan, &mut rng, &mut rng_of_signers);
        plan_crowd(plan, &mut Rng::of(plan.seed, 23));
    }
    plan_costs(plan, &mut Rng::of(plan.seed, 26));
    spare_honest(plan, plan.spare().saturating_sub(count));
    if !plan.liars.is_empty() {
        // As where disks are lost: records that are trimmed for a checkpoint of this replica alone are lost to the others.
        plan.log_bytes_max = 1 << 30;
    }
}

/// In some runs messages cost time, and the first liar makes the most of that; or borders are far apart, and it asks for them.
fn plan_costs(plan: &mut Plan, rng: &mut Rng) {
    plan.costs = rng.chance(300);
    let Some(liar) = plan.liars.first_mut().filter(|_| plan.costs) else { return };
    match rng.below(3) {
        0 => (liar.tricks, liar.often) = (vec![Trick::Costly], rng.pick(&[300, 1000])),
        1 => {
            (liar.tricks, liar.often) = (vec![Trick::Borders], 1000);
            plan.borders.interval_bytes = rng.range(8, 32) << 20;
            plan.borders.interval_bytes_max = plan.borders.interval_bytes;
        }
        _ => {}
    }
}

fn liar(who: usize, heal_at: u64, rng: &mut Rng) -> Liar {
    let (tricks, often) = if rng.chance(100) {
        // A bit of everything, but for silence.
        (TRICKS[1..].to_vec(), rng.range(10, 60))
    } else {
        let count = rng.pick(&[1, 1, 2, 3, 5]);
        ((0..count).map(|_| rng.pick(&TRICKS)).collect(), rng.pick(&[30, 200, 500, 900, 1000, 1000]))
    };
    let since = if rng.chance(700) { 0 } else { rng.below(heal_at) };
    Liar { who, tricks, often, since }
}

/// Some liars keep things back instead.
fn plan_keepers(plan: &mut Plan, rng: &mut Rng) {
    for liar in &mut plan.liars {
        if rng.chance(250) {
            liar.tricks = vec![rng.pick(&KEEPERS)];
            liar.often = rng.pick(&[1000, 1000, 700]);
        }
    }
}

/// Some liars lie to the oracle, or about whom they miss, as well.
fn plan_claims(plan: &mut Plan, rng: &mut Rng) {
    for liar in &mut plan.liars {
        let tricks = [(Trick::FalseMisses, 500), (Trick::FalseClaims, 700)];
        liar.tricks
            .extend(tricks.into_iter().filter(|(_, often)| rng.chance(*often)).map(|(trick, _)| trick));
    }
}

fn plan_clients(plan: &mut Plan, rng: &mut Rng, rng_of_signers: &mut Rng) {
    if rng.chance(600) {
        return;
    }
    for _ in 0..rng.range(1, 2) {
        let bits = rng.number();
        let trick = rng.pick(&[
            ClientTrick::Some(bits),
            ClientTrick::Differs(bits),
            ClientTrick::Others,
            ClientTrick::Again,
        ]);
        // Where clients sign, it does not matter which replicas they send to once their sessions are open.
        let trick = match trick {
            ClientTrick::Some(bits) if plan.signs && rng_of_signers.chance(500) => ClientTrick::Only(bits),
            trick => trick,
        };
        plan.lying_clients.push(trick);
        plan.clients += 1;
    }
}

/// In some runs each replica has a client that tells it what no other replica hears, or something different.
fn plan_crowd(plan: &mut Plan, rng: &mut Rng) {
    if !rng.chance(100) {
        return;
    }
    for replica in 0..plan.replicas {
        let bits = 1 << replica;
        plan.lying_clients.push(rng.pick(&[
            ClientTrick::Some(bits),
            ClientTrick::Only(bits),
            ClientTrick::Differs(bits),
            ClientTrick::Both(bits),
        ]));
        plan.clients += 1;
    }
}

/// Of the honest replicas at most this many are lost, rot or are corrupted. Liars may have such faults as well.
fn spare_honest(plan: &mut Plan, most: usize) {
    let liars: BTreeSet<usize> = plan.liars.iter().map(|liar| liar.who).collect();
    let mut faulty = BTreeSet::new();
    plan.faults.retain(|(_, fault)| {
        let who = match fault {
            Fault::Rot { who, .. }
            | Fault::Lose { who }
            | Fault::RotCheckpoint { who, .. }
            | Fault::Corrupt { who } => *who,
            Fault::Disk(fault) if fault.damages() => fault.who(),
            Fault::Lie { who, how, .. } if *how != super::Lie::Silent => *who,
            _ => return true,
        };
        if liars.contains(&who) || faulty.contains(&who) {
            return true;
        }
        faulty.len() < most && faulty.insert(who)
    });
}
