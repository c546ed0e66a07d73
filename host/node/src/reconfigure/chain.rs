//! The membership links that this replica keeps for clients and replicas that know an old membership.
//!
//! The protocol gives a link when it decides a change here. A replica that passed over the slot, with a checkpoint, asks the other members,
//! now and then and all of them, until it lacks none. A link that continues one that is kept here proves itself. The others do so only to who
//! knows the membership before; they are kept once so many members showed the same change that one of them does not lie, and the members
//! before, as the link names them, signed it.
//!
//! Bounded: [`KEPT_BYTES_MAX`] in memory, oldest first out; of changes that are asked for, one word of each member. [mod_smart L195-L197]
//! Tests: chain/tests.rs.

use super::{Look, Out, Reconfigure, send};
use crate::effects::Effect;
use crate::gate::ChainSays;
use bytes::Bytes;
use quorate_auth::{MembershipLink, digest_of_request};
use quorate_types::{ClusterId, Digest, Faults, MembershipId, ReplicaId, Span, Time, Trust};
use quorate_wire::{Chain, Membership, OutFrame, chain_request};
use std::collections::{BTreeMap, BTreeSet};

/// So many bytes of links are kept in memory: of clusters of seven, of about ten thousand changes.
const KEPT_BYTES_MAX: usize = 16 << 20;
/// The first wait before members are asked again.
const ASK_MIN: Span = Span::from_secs(1);
/// The longest wait.
const ASK_MAX: Span = Span::from_secs(64);
/// Words are kept on so many changes at a time.
const WORDS_MAX: u64 = 512;

/// What members showed of a change: who, and the digest of the change.
type Words = BTreeMap<ReplicaId, Digest>;

/// See the module.
#[derive(Debug)]
pub(super) struct Kept {
    cluster: ClusterId,
    faults: Faults,
    /// By the number of the membership that each leads to.
    links: BTreeMap<MembershipId, Bytes>,
    bytes: usize,
    /// No link up to this membership is missing; or memory has no room for it.
    through: MembershipId,
    words: BTreeMap<MembershipId, Words>,
    /// Who was asked and has not answered.
    asked: BTreeSet<ReplicaId>,
    /// When to ask, if links are missing.
    ask_at: Time,
    wait: Span,
}

impl Kept {
    /// With the links that earlier lives kept. Those of another cluster are left out.
    pub(super) fn new(cluster: ClusterId, faults: Faults, links: &[MembershipLink]) -> Self {
        let mut kept = Self {
            cluster,
            faults,
            links: BTreeMap::new(),
            bytes: 0,
            through: MembershipId::FIRST,
            words: BTreeMap::new(),
            asked: BTreeSet::new(),
            ask_at: Time::ZERO,
            wait: ASK_MIN,
        };
        for link in links.iter().filter(|link| link.cluster == cluster && faults.may_lie()) {
            kept.add(link);
        }
        kept
    }

    /// Keeps a link. Returns whether it is new.
    fn add(&mut self, link: &MembershipLink) -> bool {
        let number = link.number();
        if self.links.contains_key(&number) {
            return false;
        }
        let bytes = link.encode();
        self.bytes += bytes.len();
        self.links.insert(number, bytes);
        self.words.remove(&number);
        while self.bytes > KEPT_BYTES_MAX
            && let Some((number, oldest)) = self.links.pop_first()
        {
            self.bytes -= oldest.len();
            self.through = self.through.max(number);
        }
        while self.links.contains_key(&self.through.next()) {
            self.through = self.through.next();
        }
        true
    }

    /// The first link that is missing on the way to this membership.
    fn missing(&self, now: MembershipId) -> Option<MembershipId> {
        Some(self.through.next()).filter(|next| *next <= now)
    }

    /// The links after a membership, for who asks.
    pub(super) fn after(&self, after: MembershipId, now: MembershipId) -> Chain {
        let mut next = after;
        let following = std::iter::from_fn(|| {
            next = MembershipId::new(next.number().checked_add(1)?);
            self.links.get(&next).cloned()
        });
        Chain::of(now, following)
    }

    /// A link that is kept.
    fn get(&self, number: MembershipId) -> Option<MembershipLink> {
        MembershipLink::decode(self.links.get(&number)?).ok()
    }

    /// Whether a link proves itself here: it continues one that is kept.
    fn continues(&self, link: &MembershipLink, before: &Membership) -> bool {
        let known = self.get(before.number());
        known.is_some_and(|known| link.verify(self.cluster, known.now(), self.faults).is_ok())
    }

    /// Whether enough of these members showed the same change as this link, with its sender; and it is signed by the members that it names.
    fn is_shown(
        &mut self,
        from: ReplicaId,
        link: &MembershipLink,
        (voters, trust): (&[ReplicaId], Trust),
    ) -> bool {
        if !voters.contains(&from) {
            return false;
        }
        let change = digest_of_request(&link.holds.change.encode());
        let words = self.words.entry(link.number()).or_default();
        words.retain(|member, _| voters.contains(member));
        words.insert(from, change);
        let same = words.values().filter(|word| **word == change).count();
        let before = link.before().filter(|_| same >= trust.truth() as usize);
        before.is_some_and(|before| link.verify(self.cluster, before, self.faults).is_ok())
    }

    /// A member shows links. Gives those that are new and kept.
    fn shown(
        &mut self,
        from: ReplicaId,
        chain: &Chain,
        now: MembershipId,
        voters: (&[ReplicaId], Trust),
    ) -> Vec<MembershipLink> {
        let mut new = Vec::new();
        let Some(first) = self.missing(now) else { return new };
        let last = now.min(MembershipId::new(first.number() + WORDS_MAX));
        for bytes in &chain.links {
            let Ok(link) = MembershipLink::decode(bytes) else { break };
            let Some(before) = link.before().filter(|_| link.cluster == self.cluster) else { break };
            let number = link.number();
            if self.links.contains_key(&number) || !(first..=last).contains(&number) {
                continue;
            }
            if self.links.contains_key(&before.number()) {
                if !self.continues(&link, before) {
                    break; // It lies, so nothing else that it shows is worth the time.
                }
            } else if !self.is_shown(from, &link, voters) {
                continue;
            }
            self.add(&link);
            new.push(link);
        }
        new
    }
}

fn keep(link: &MembershipLink) -> Out {
    Out::Do(Box::new(Effect::Link { name: link.file_name(), bytes: link.encode() }))
}

impl Reconfigure {
    /// The present membership, as it was ordered.
    fn newest(&self) -> MembershipId {
        super::number_of(self.roster.current())
    }

    /// The answer to who asks for the links after this membership. Nobody is refused: they are about what every member and client is told.
    pub(crate) fn chain_after(&self, after: MembershipId) -> OutFrame {
        self.kept.after(after, self.newest()).frame()
    }

    /// The first instance decided a change here.
    pub(crate) fn linked(&mut self, link: &MembershipLink, out: &mut Vec<Out>) {
        if self.kept.add(link) {
            out.push(keep(link));
        }
    }

    /// A member asks for links, or answers. Answers go to members over the connection that this replica made.
    pub(crate) fn on_chain(&mut self, look: &Look<'_>, from: ReplicaId, says: ChainSays, out: &mut Vec<Out>) {
        match (says, look.gate.peers().to(from)) {
            (ChainSays::Wants(after), Some(conn)) => out.push(send(conn, self.chain_after(after))),
            (ChainSays::Wants(_), None) => {}
            (ChainSays::Shows(chain), _) => self.shown(look, from, &chain, out),
        }
    }

    /// A member answers what links it has. Members that were not asked are not heard.
    fn shown(&mut self, look: &Look<'_>, from: ReplicaId, chain: &Chain, out: &mut Vec<Out>) {
        let now = self.newest();
        let Some(voters) = self.roster.current().map(|current| current.voters().collect::<Vec<_>>()) else {
            return;
        };
        if !self.kept.asked.remove(&from) {
            return;
        }
        let trust = look.config.order.faults.among(voters.len() as u32);
        let new = self.kept.shown(from, chain, now, (&voters, trust));
        if !new.is_empty() {
            // There may be more of them.
            (self.kept.ask_at, self.kept.wait) = (Time::ZERO, ASK_MIN);
        }
        out.extend(new.iter().map(keep));
    }

    /// Asks the members for links that are missing here, at the end of a turn.
    pub(super) fn ask_for_links(&mut self, now: Time, look: &Look<'_>, out: &mut Vec<Out>) {
        if self.kept.ask_at > now || !look.config.order.faults.may_lie() {
            return;
        }
        let (Some(missing), Some(current)) = (self.kept.missing(self.newest()), self.roster.current()) else {
            return;
        };
        let others = current.voters().filter(|id| *id != look.me());
        let up: Vec<_> = others.filter_map(|id| Some((id, look.gate.peers().to(id)?))).collect();
        self.kept.asked = up.iter().map(|(id, _)| *id).collect();
        self.kept.ask_at = now.plus(self.kept.wait);
        self.kept.wait = self.kept.wait.times(2).min(ASK_MAX);
        let after = missing.previous();
        out.extend(up.into_iter().map(|(_, conn)| send(conn, chain_request(after))));
    }

    /// When links that are missing are asked for again.
    pub(super) fn ask_due(&self) -> Option<Time> {
        let waits = self.kept.ask_at > Time::ZERO && self.kept.missing(self.newest()).is_some();
        waits.then_some(self.kept.ask_at)
    }
}

#[cfg(test)]
mod tests;
