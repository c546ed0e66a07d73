//! The members of the cluster: what the front tells clients of them, and how clients change them.
//!
//! Each front says what its replica sees, once it is something new, and where it serves clients. The state keeps what is newest. A change
//! takes the operator's way, as `quorate member` does; it is done in steps, one for each server that is named. Tests: `members/tests.rs`, and
//! with a real cluster front/cli/tests/all/zookeeper/plain.rs.

use crate::secrets;
use crate::settings::ZooKeeperSettings;
use quorate_kit::{Command, Look, Operator, OperatorError, OwnCluster, Seen, SeenMember};
use quorate_types::{ClusterId, Incarnation, ReplicaId};
use quorate_wire::MemberRequest;
use quorate_zookeeper::command::Command as Ordered;
use quorate_zookeeper::error::ZkError;
use quorate_zookeeper::jute::Reader;
use quorate_zookeeper::members::{Member, Members as Said, is_address};
use quorate_zookeeper::server::{Change, Named};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;

#[cfg(test)]
mod tests;

/// How often it is looked whether there is something new, and whether a change is done.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long a server that joins may take to catch up until it is let vote.
const JOINING: Duration = Duration::from_secs(24 * 3600);
/// How long a change may take to be seen here.
const SHOWN: Duration = Duration::from_secs(10);
/// How long clients wait until it was said once what the members are. Before, a state that was restored shows those of another cluster.
const SAID: Duration = Duration::from_secs(5);

/// What the front knows of the members. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Members {
    pub(crate) cluster: ClusterId,
    pub(crate) replica: ReplicaId,
    pub(crate) settings: ZooKeeperSettings,
    pub(crate) look: Look,
    pub(crate) operator: Operator,
    pub(crate) words: OwnCluster,
    /// Whether it was said once what the members are.
    pub(crate) said: watch::Sender<bool>,
    /// Members that are to vote once they have caught up.
    pub(crate) wanted: Wanted,
}

/// Members that are to vote once they have caught up, as clients said last. All clones are one.
#[derive(Clone, Default)]
pub(crate) struct Wanted(Arc<Mutex<BTreeSet<u16>>>);

impl Wanted {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<u16>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, replica: ReplicaId) -> bool {
        self.lock().contains(&replica.number())
    }

    /// A client wants this. Returns the members that nobody waited for before.
    fn take(&self, change: &Change) -> Vec<ReplicaId> {
        let mut wanted = self.lock();
        wanted.retain(|id| !change.leaving.contains(id) && !change.is_whole);
        let votes = |named: &&Named| !named.learner;
        change.joining.iter().filter(|named| named.learner).for_each(|named| {
            wanted.remove(&named.replica);
        });
        let new = change.joining.iter().filter(votes).filter(|named| wanted.insert(named.replica));
        new.map(|named| ReplicaId::new(named.replica)).collect()
    }
}

/// Why a change was not done: the client is told, or its connection ends since nobody knows.
type Undone = Option<ZkError>;

impl Members {
    /// Says what is new, for as long as the front runs.
    pub(crate) async fn always(self) {
        let mut said = None;
        loop {
            if let Some(now) = self.look.now().await.and_then(|seen| self.list(&seen, &[]))
                && said.as_ref() != Some(&now)
                && self.say(now.clone()).await.is_some()
            {
                said = Some(now);
                self.said.send_replace(true);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until clients may be let in. Whether they may: without a leader it may take too long.
    pub(crate) async fn were_said(&self) -> bool {
        let mut said = self.said.subscribe();
        let is_said = said.wait_for(|said| *said);
        // Whoever only reads is served without a leader, too.
        let is_said = tokio::time::timeout(SAID, is_said).await.is_ok_and(|is| is.is_ok());
        is_said || self.settings.read_only
    }

    /// What a replica sees, if its members are not just changing. Clients reach new servers where whoever added them says.
    fn list(&self, seen: &Seen, named: &[Named]) -> Option<Said> {
        if seen.is_changing {
            return None;
        }
        let shown = seen.members.iter().filter(|member| is_address(&member.address));
        let list = shown.map(|SeenMember { replica, address, learner, .. }| {
            let own = (*replica == self.replica.number()).then(|| self.settings.announced(address));
            let named = || named.iter().find(|named| named.replica == *replica);
            let clients = own.or_else(|| named().map(|named| named.clients.clone()));
            Member { replica: i32::from(*replica), learner: *learner, address: address.clone(), clients }
        });
        Some(Said { cluster: self.cluster.bits(), number: seen.membership as i64, list: list.collect() })
    }

    /// Has it ordered. Returns the transaction that shows it.
    async fn say(&self, members: Said) -> Option<i64> {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (time_ms, speaker) = (wall.as_millis() as i64, i32::from(self.replica.number()));
        let mut bytes = Vec::new();
        Ordered::Members { time_ms, speaker, members }.write(&mut bytes);
        let answer = self.words.order(Command::new(bytes)).await.ok()?;
        let mut from = Reader::new(&answer);
        let (zxid, error) = (from.long().ok()?, from.int().ok()?);
        if error != 0 {
            tracing::error!("clients of zookeeper are not told of the members: error {error}");
        }
        Some(zxid)
    }

    /// Carries out a change. Returns the transaction that shows it; nothing if it is not known whether it was done.
    pub(crate) async fn change(&self, change: &Change) -> Option<Result<i64, ZkError>> {
        match self.steps(change).await {
            Ok(number) => self.show(number, change).await.map(Ok),
            Err(undone) => undone.map(Err),
        }
    }

    /// Does the steps of a change. Returns the number of the members then.
    async fn steps(&self, change: &Change) -> Result<u64, Undone> {
        let mut seen = self.standing().await?;
        if change.number.is_some_and(|number| number != seen.membership as i64) {
            return Err(Some(ZkError::BadVersion));
        }
        for step in steps(change, &seen, self.replica)? {
            let done = self.operator.change(step.clone()).await;
            seen = self.settled().await?;
            // Asked twice, since an answer was lost, a step is refused the second time.
            if let Err(why) = done
                && !is_done(&step, &seen)
            {
                return Err(error_of(&why));
            }
        }
        for replica in self.wanted.take(change) {
            tokio::spawn(self.clone().promote(replica));
        }
        Ok(seen.membership)
    }

    async fn standing(&self) -> Result<Seen, Undone> {
        self.operator.standing().await.map_err(|why| error_of(&why))
    }

    /// The members once no change is under way.
    async fn settled(&self) -> Result<Seen, Undone> {
        let until = Instant::now() + SHOWN;
        loop {
            match self.standing().await {
                Ok(seen) if !seen.is_changing => return Ok(seen),
                _ if Instant::now() > until => return Err(None),
                _ => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }

    /// Has the members shown to clients, with this number or a later one. This replica may be the last one to see them, or none of them.
    async fn show(&self, number: u64, change: &Change) -> Option<i64> {
        let until = Instant::now() + SHOWN;
        loop {
            let here = self.look.now().await.filter(|seen| seen.membership >= number);
            let seen = match here {
                Some(seen) => Some(seen),
                None => self.operator.standing().await.ok().filter(|seen| seen.membership >= number),
            };
            if let Some(list) = seen.and_then(|seen| self.list(&seen, &change.joining))
                && let Some(zxid) = self.say(list).await
            {
                return Some(zxid);
            }
            if Instant::now() > until {
                return None;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Lets a server vote as soon as it has caught up, for as long as that is wanted.
    async fn promote(self, replica: ReplicaId) {
        let until = Instant::now() + JOINING;
        while Instant::now() < until && self.wanted.has(replica) {
            if let Ok(seen) = self.operator.standing().await {
                match seen.member(replica.number()) {
                    // It may be that nothing can be changed at this moment.
                    Some(member) if member.learner && member.caught_up => {
                        drop(self.operator.change(MemberRequest::Promote(replica)).await);
                    }
                    Some(member) if member.learner => {}
                    _ => break,
                }
            }
            tokio::time::sleep(LOOK).await;
        }
        self.wanted.lock().remove(&replica.number());
    }
}

/// What is to be done so that the members become those that a client wants. Nobody who votes leaves before those vote who are to.
fn steps(change: &Change, seen: &Seen, own: ReplicaId) -> Result<Vec<MemberRequest>, Undone> {
    let (mut steps, mut promoted, mut not_yet) = (Vec::new(), Vec::new(), false);
    for Named { replica: number, address, learner, .. } in &change.joining {
        let replica = ReplicaId::new(*number);
        let Some(is) = seen.member(*number) else {
            let mut bits = [0; 8];
            secrets::fill(&mut bits);
            let incarnation = Incarnation::new(u64::from_be_bytes(bits));
            steps.push(MemberRequest::Add { replica, address: address.clone(), incarnation, key: None });
            not_yet |= !*learner;
            continue;
        };
        if is.address != *address {
            steps.push(MemberRequest::Move { replica, address: address.clone() });
        }
        match (is.learner, *learner) {
            (true, false) if is.caught_up => promoted.push(replica),
            // It votes later, if nobody leaves for it.
            (true, false) => not_yet = true,
            // Who votes can only leave.
            (false, true) => return Err(Some(ZkError::BadArguments)),
            _ => {}
        }
    }
    let joins = |id: u16| change.joining.iter().any(|named| named.replica == id);
    // Whoever is named in both lists stays.
    let leaves = |id: u16| !joins(id) && (change.is_whole || change.leaving.contains(&id));
    let mut leaving: Vec<&SeenMember> = seen.members.iter().filter(|is| leaves(is.replica)).collect();
    if not_yet && leaving.iter().any(|is| !is.learner) {
        return Err(Some(ZkError::NewConfigNoQuorum));
    }
    // Whoever asks for the rest goes last.
    leaving.sort_by_key(|is| (is.replica == own.number(), is.learner));
    let mut promoted = promoted.into_iter();
    for is in leaving {
        let old = ReplicaId::new(is.replica);
        let new = if is.learner { None } else { promoted.next() };
        steps.push(new.map_or(MemberRequest::Remove(old), |new| MemberRequest::Replace { old, new }));
    }
    let first = steps.iter().position(|step| matches!(step, MemberRequest::Remove(_))).unwrap_or(steps.len());
    steps.splice(first..first, promoted.map(MemberRequest::Promote));
    Ok(steps)
}

/// Whether the members are as a step makes them.
fn is_done(step: &MemberRequest, seen: &Seen) -> bool {
    let votes = |replica: &ReplicaId| seen.member(replica.number()).is_some_and(|is| !is.learner);
    let is_there = |replica: &ReplicaId| seen.member(replica.number()).is_some();
    match step {
        MemberRequest::Add { replica, address, .. } | MemberRequest::Move { replica, address } => {
            seen.member(replica.number()).is_some_and(|is| is.address == *address)
        }
        MemberRequest::Promote(replica) => votes(replica),
        MemberRequest::Remove(replica) => !is_there(replica),
        MemberRequest::Replace { old, new } => !is_there(old) && votes(new),
        // No client of zookeeper asks for that.
        MemberRequest::Rekey { .. } => false,
    }
}

/// What a client is told; nothing if the change may be done yet.
fn error_of(why: &OperatorError) -> Undone {
    tracing::warn!("a client of zookeeper wants the members changed, but: {why}");
    let OperatorError::Refused(text) = why else { return None };
    let is = |part: &&str| text.contains(part);
    if ["is under way", "is about to begin"].iter().any(is) {
        Some(ZkError::ReconfigInProgress)
    } else if ["no majority", "nobody who votes", "was never connected", "not caught up"].iter().any(is) {
        Some(ZkError::NewConfigNoQuorum)
    } else if ["try again", "ask it"].iter().any(is) {
        None
    } else {
        Some(ZkError::BadArguments)
    }
}
