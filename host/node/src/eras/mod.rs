//! Eras: from the command that ends one to the state with which the next one begins.
//!
//! An era is a stretch of the cluster's history that is ordered by one protocol and trusted under one fault model. An ordered command ends it
//! (`../reconfigure/`), at one seq on all replicas. A replica that executed the command delivers nothing more, captures its state there, and
//! enters the next era once the end is final and agreed on: where replicas only crash because it was decided, where they may lie because a
//! quorum has the same state there. It enters by starting anew: the host gets the state in the form of the next era ([`NextEra`]), makes it
//! durable in a place of its own, and only then gives up what was before.
//!
//! A replica that slept through the end hears of the next era from its members. It believes so many that one of them tells the truth under
//! the faults that it knows, fetches a checkpoint of the next era whose digest they agree on, and enters with that. Until it has all of it, it
//! goes on in its own era, since the others may yet need what it has.
//!
//! INV-ERA-1: nothing is delivered behind the end of an era. INV-ERA-2: a replica enters an era with a state that is agreed on, and once.
//! Rules: docs/protocols/eras.md, cited as E1, E2, ... `stepping.rs` connects this part with the others.
//! Tests: eras/tests.rs, check/sim (`--eras true`).

mod stepping;

pub(crate) use stepping::{Across, end_era, look_at_eras, met_across, on_across, step_eras, tell_era};

use crate::gate::Lives;
use crate::system::System;
use quorate_order::Protocol;
use quorate_state::agreement::{BORDERS_MAX, Offer};
use quorate_state::checkpoint::Image;
use quorate_state::store::{Store, Version};
use quorate_state::transfer::{Effect as FetchEffect, Fetch, FetchLimits, Fetched, Input as FetchInput};
use quorate_types::{Digest, ReplicaId, Seq, Time, Trust, planted};
use quorate_wire::{Administrators, Era, EraNotice, StateMessage};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// The host's judgement of an era that is about to be ordered: whether its configuration can work in it.
pub type JudgeEra = dyn Fn(&Era) -> Result<(), String> + Send + Sync;

/// What a replica knows of eras at its start.
#[derive(Clone)]
pub struct EraConfig {
    /// The number of the era that it is in.
    pub number: u64,
    /// What it says of this era to replicas of earlier ones; nothing in the first era.
    pub notice: Option<EraNotice>,
    /// The lives of members' data directories that were known when the era began.
    pub lives: BTreeMap<ReplicaId, u64>,
    /// The public keys of members, by the configuration, for an era in which replicas may lie.
    pub keys: BTreeMap<ReplicaId, [u8; 32]>,
    /// Who administers the cluster in such an era, by the configuration.
    pub administrators: Option<Administrators>,
    /// Whether the host can work in another era.
    pub judge: Arc<JudgeEra>,
}

impl EraConfig {
    /// The first era of a cluster whose hosts can not work in another one, for the reason.
    pub fn only(why: &'static str) -> Self {
        Self {
            number: 1,
            notice: None,
            lives: BTreeMap::new(),
            keys: BTreeMap::new(),
            administrators: None,
            judge: Arc::new(move |_| Err(why.into())),
        }
    }
}

impl fmt::Debug for EraConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EraConfig({}, {:?})", self.number, self.notice)
    }
}

/// The state with which a replica enters an era.
#[derive(Clone)]
pub struct NextEra {
    /// What it says of the era from then on; the era itself, and where it began.
    pub notice: EraNotice,
    /// The state: that with which the era begins, or a later one.
    pub image: Image,
    /// The known lives of members' data directories, with its own.
    pub lives: BTreeMap<ReplicaId, u64>,
}

impl fmt::Debug for NextEra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NextEra({}, at {})", self.notice.era.number, self.image.seq)
    }
}

/// An input.
pub(crate) enum In {
    /// The command that ends this era was executed at this seq.
    Ended(Box<Era>, Seq),
    /// The state at the end of the era.
    State(Box<Image>),
    /// A member of another era is connected. Messages pass both ways.
    Up(ReplicaId),
    /// It is gone.
    Down(ReplicaId),
    /// It says which era it is in.
    Notice(ReplicaId, Box<EraNotice>),
    /// It sends a part of a checkpoint.
    Part(ReplicaId, StateMessage),
    /// The time of [`Eras::deadline`] may have come, or others may know more.
    Look,
}

/// What the part knows of the rest of the replica.
pub(crate) struct Facts {
    /// How far the members of this era are trusted.
    pub(crate) trust: Trust,
    /// The members of this era.
    pub(crate) members: BTreeSet<ReplicaId>,
    /// The digest that a quorum reported where the era ended.
    pub(crate) agreed: Option<Digest>,
    /// This replica's own digest there.
    pub(crate) own: Option<Digest>,
    /// Objects that are here and probably the same.
    pub(crate) objects: Option<Version>,
    /// Limits of a transfer.
    pub(crate) limits: FetchLimits,
}

/// An effect.
pub(crate) enum Out {
    /// Send a message about a checkpoint to a member of another era.
    Send(ReplicaId, StateMessage),
    /// A member of the next era reported this digest where this one ended.
    Reported(ReplicaId, Seq, Digest),
    /// Enter the era with this state.
    Enter(EraNotice, Box<Image>),
    /// Tell operators.
    Say(String),
}

/// The end of the era, once it was executed here.
struct Ended {
    era: Era,
    seq: Seq,
    /// The state there, once it is known.
    image: Option<Image>,
}

/// What a member has at a border of its era.
#[derive(Clone, Copy)]
struct Report {
    digest: Digest,
    /// In a durable file.
    held: bool,
}

/// What a member of a later era says.
struct Heard {
    notice: EraNotice,
    reports: BTreeMap<Seq, Report>,
}

/// See the module.
pub(crate) struct Eras {
    number: u64,
    ended: Option<Ended>,
    /// What members of later eras say.
    heard: BTreeMap<ReplicaId, Heard>,
    /// The members of other eras that are connected.
    up: BTreeSet<ReplicaId>,
    fetch: Option<Fetch>,
    /// Whether the host was told to enter another era.
    left: bool,
}

impl Eras {
    /// In this era. `ended`: the state at which it ended already, as an earlier run left it.
    pub(crate) fn new(config: &EraConfig, ended: Option<(Era, Image)>) -> Self {
        let ended = ended.map(|(era, image)| Ended { era, seq: image.seq, image: Some(image) });
        let (heard, up) = (BTreeMap::new(), BTreeSet::new());
        Self { number: config.number, ended, heard, up, fetch: None, left: false }
    }

    /// Whether this era is over here: nothing more is proposed, delivered or read.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// The era that follows this one, and the seq where that was decided.
    pub(crate) fn next(&self) -> Option<(&Era, Seq)> {
        self.ended.as_ref().map(|ended| (&ended.era, ended.seq))
    }

    /// When to step it with [`In::Look`].
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.fetch.as_ref().and_then(Fetch::deadline)
    }

    /// Takes an input.
    pub(crate) fn step(&mut self, now: Time, facts: &Facts, input: In, out: &mut Vec<Out>) {
        if self.left {
            return;
        }
        match input {
            In::Ended(era, seq) => {
                out.push(Out::Say(format!(
                    "era {} ends at seq {seq:#}: {} faults, ordered by {}, come next",
                    self.number,
                    era.faults.model,
                    protocol_of(&era).map_or("an unknown protocol", Protocol::name)
                )));
                self.ended = Some(Ended { era: *era, seq, image: None });
            }
            In::State(image) => {
                if let Some(ended) = self.ended.as_mut().filter(|ended| ended.seq == image.seq) {
                    ended.image = Some(*image);
                }
            }
            In::Up(member) => {
                self.up.insert(member);
                self.fetch(now, facts, FetchInput::Connected(member), out);
            }
            In::Down(member) => {
                self.up.remove(&member);
                self.fetch(now, facts, FetchInput::Disconnected(member), out);
            }
            In::Notice(from, notice) => self.hears(now, facts, from, *notice, out),
            In::Part(from, StateMessage::Digest { seq, digest, held }) => {
                self.reports(now, facts, from, (seq, Report { digest, held }), out);
            }
            In::Part(from, message) => self.fetch(now, facts, FetchInput::Receive { from, message }, out),
            In::Look => {
                if self.deadline().is_some_and(|at| at <= now) {
                    self.fetch(now, facts, FetchInput::Deadline, out);
                }
            }
        }
        self.look(facts, out);
    }

    /// Enters the next era if the state at the end is the agreed one.
    fn look(&mut self, facts: &Facts, out: &mut Vec<Out>) {
        let Some(Ended { era, seq, image: Some(image) }) = self.ended.as_ref().filter(|_| !self.left) else {
            return;
        };
        let lies = facts.trust.truth() > 1 || era.faults.model.may_lie();
        let agreed = match lies && !planted("era-before-agreed") {
            true => facts.agreed.filter(|agreed| facts.own == Some(*agreed)), // [E7]
            false => facts.own,                                               // [E6]
        };
        let Some(before) = agreed else { return };
        match begun(image, era) {
            Ok(image) => {
                let notice = EraNotice { began: *seq, before, era: era.clone() };
                self.enter(notice, image, out);
            }
            Err(why) => out.push(Out::Say(format!("era {} can not begin: {why}", era.number))),
        }
    }

    fn enter(&mut self, notice: EraNotice, image: Image, out: &mut Vec<Out>) {
        assert!(!self.left, "INV-ERA-2: a replica enters an era once");
        (self.left, self.fetch) = (true, None);
        out.push(Out::Say(format!(
            "enters era {}, {} faults, with the state of seq {:#}",
            notice.era.number, notice.era.faults.model, image.seq
        )));
        out.push(Out::Enter(notice, Box::new(image)));
    }

    /// A member says which era it is in. [E10]
    fn hears(&mut self, now: Time, facts: &Facts, from: ReplicaId, notice: EraNotice, out: &mut Vec<Out>) {
        if notice.era.number <= self.number || !facts.members.contains(&from) {
            return;
        }
        if notice.era.number == self.number + 1 {
            out.push(Out::Reported(from, notice.began, notice.before)); // [E8]
        }
        if self.heard.get(&from).is_none_or(|heard| heard.notice != notice) {
            self.heard.insert(from, Heard { notice, reports: BTreeMap::new() });
        }
        self.look_for_offers(now, facts, out);
    }

    /// A member says what it has at a border of its era.
    fn reports(
        &mut self,
        now: Time,
        facts: &Facts,
        from: ReplicaId,
        (seq, report): (Seq, Report),
        out: &mut Vec<Out>,
    ) {
        let Some(heard) = self.heard.get_mut(&from).filter(|heard| seq >= heard.notice.began) else { return };
        heard.reports.insert(seq, report);
        while heard.reports.len() > BORDERS_MAX {
            heard.reports.pop_first();
        }
        self.look_for_offers(now, facts, out);
    }

    /// Fetches what can be fetched of the latest era that is believed. [E11]
    fn look_for_offers(&mut self, now: Time, facts: &Facts, out: &mut Vec<Out>) {
        let offers = self.offers(facts);
        if self.fetch.is_none()
            && let Some((notice, newest)) = self.believed(facts).map(|(notice, _)| notice).zip(offers.first())
        {
            out.push(Out::Say(format!(
                "other replicas are in era {}: fetching its checkpoint of seq {:#}",
                notice.era.number, newest.seq
            )));
            let local = facts.objects.clone().unwrap_or_else(|| Store::new().version());
            self.fetch = Some(Fetch::new(now, notice.began, local, facts.limits.clone()));
            for member in self.up.clone() {
                self.fetch(now, facts, FetchInput::Connected(member), out);
            }
        }
        self.fetch(now, facts, FetchInput::Offers(offers), out);
    }

    /// So many members must say the same: one of them tells the truth, under the faults of this era and under those of the one that they say
    /// they are in, where they may lie already.
    fn needed(facts: &Facts, era: &Era) -> usize {
        let theirs = era.faults.counted().among(facts.trust.members()).truth();
        if planted("era-of-one") { 1 } else { facts.trust.truth().max(theirs) as usize }
    }

    /// The latest era that is believed, and who says so. [E10]
    fn believed(&self, facts: &Facts) -> Option<(&EraNotice, Vec<ReplicaId>)> {
        let mut all: Vec<(&EraNotice, Vec<ReplicaId>)> = Vec::new();
        for (member, heard) in self.heard.iter().filter(|(member, _)| facts.members.contains(member)) {
            match all.iter_mut().find(|(known, _)| **known == heard.notice) {
                Some((_, members)) => members.push(*member),
                None => all.push((&heard.notice, vec![*member])),
            }
        }
        all.retain(|(notice, members)| members.len() >= Self::needed(facts, &notice.era));
        all.into_iter().max_by_key(|(notice, _)| notice.era.number)
    }

    /// The checkpoints of that era whose digests so many say alike, and who has them; newest first.
    fn offers(&self, facts: &Facts) -> Vec<Offer> {
        let Some((notice, members)) = self.believed(facts) else { return Vec::new() };
        let needed = Self::needed(facts, &notice.era);
        let said = || members.iter().filter_map(|member| Some((*member, &self.heard.get(member)?.reports)));
        let all: BTreeSet<(Seq, Digest)> = said()
            .flat_map(|(_, reports)| reports.iter().map(|(seq, report)| (*seq, report.digest)))
            .collect();
        let offer = |(seq, digest): (Seq, Digest)| {
            let say = said().filter(|(_, reports)| reports.get(&seq).is_some_and(|it| it.digest == digest));
            let say: Vec<(ReplicaId, bool)> =
                say.map(|(member, reports)| (member, reports[&seq].held)).collect();
            let holders: Vec<ReplicaId> =
                say.iter().filter(|(_, held)| *held).map(|(member, _)| *member).collect();
            let enough = say.len() >= needed && !holders.is_empty();
            enough.then_some(Offer { seq, digest, holders })
        };
        all.into_iter().rev().filter_map(offer).collect()
    }

    fn fetch(&mut self, now: Time, facts: &Facts, input: FetchInput, out: &mut Vec<Out>) {
        let mut effects = Vec::new();
        if let Some(fetch) = &mut self.fetch {
            fetch.step(now, input, &mut effects);
        }
        for effect in effects {
            match effect {
                FetchEffect::Send { to, message } => out.push(Out::Send(to, message)),
                FetchEffect::NotHeld { source, seq, .. } => {
                    if let Some(heard) = self.heard.get_mut(&source) {
                        heard.reports.remove(&seq);
                    }
                    let offers = self.offers(facts);
                    self.fetch(now, facts, FetchInput::Offers(offers), out);
                }
                FetchEffect::Lied { source, seq, .. } => {
                    out.push(Out::Say(format!("{source} sent wrong bytes of the checkpoint of seq {seq:#}")));
                }
                FetchEffect::Done(fetched) => return self.fetched(facts, *fetched, out),
                FetchEffect::Begun { .. }
                | FetchEffect::Grew(_)
                | FetchEffect::Stalled { .. }
                | FetchEffect::StartedOver { .. } => {}
            }
        }
    }

    /// A whole checkpoint of a later era is here. Its digest was compared. [E11]
    fn fetched(&mut self, facts: &Facts, fetched: Fetched, out: &mut Vec<Out>) {
        self.fetch = None;
        let Fetched { manifest, system, store } = fetched;
        let seq = manifest.seq();
        let Some(notice) = self.believed(facts).map(|(notice, _)| notice.clone()) else { return };
        let image = Image { seq, border: manifest.border(), system, objects: store.version() };
        match System::decode(&image.system).map(|system| system.era()) {
            Ok(era) if era == notice.era.number => self.enter(notice, image, out),
            Ok(_) => out.push(Out::Say("the checkpoint of the other era is none of that era".into())),
            Err(why) => out.push(Out::Say(format!("the checkpoint of the other era can not be used: {why}"))),
        }
    }
}

/// The protocol of an era, if this program has it.
pub(crate) fn protocol_of(era: &Era) -> Option<Protocol> {
    Protocol::ALL.into_iter().find(|protocol| protocol.row().number == era.protocol)
}

/// The state at the end of an era, as that with which the next one begins. All replicas make the same of the same state. [E9]
fn begun(image: &Image, era: &Era) -> Result<Image, String> {
    let protocol = protocol_of(era).ok_or("this program does not have its protocol")?;
    let mut system = System::decode(&image.system)?;
    system.begin_era(era, protocol);
    Ok(Image { system: system.encode(), ..image.clone() })
}

/// The lives that are known, for the next era.
fn lives_of(lives: &Lives, notice: &EraNotice) -> BTreeMap<ReplicaId, u64> {
    let named = notice.era.members.members().iter().filter(|member| member.life != 0);
    let mut all: BTreeMap<ReplicaId, u64> = named.map(|member| (member.replica, member.life)).collect();
    all.extend(lives.known());
    all
}

#[cfg(test)]
mod tests;
