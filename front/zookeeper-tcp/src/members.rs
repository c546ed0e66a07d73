//! The members of the cluster: what the front tells clients of them, and how clients change them.
//!
//! Each front says what its replica sees, once it is something new, and where it serves clients. The state keeps what is newest. A change
//! takes the operator's way, as `quorate member` does; it is done in steps, one for each server that is named. Tests with a real cluster:
//! front/cli/tests/all/zookeeper/plain.rs.

use crate::secrets;
use crate::settings::ZooKeeperSettings;
use quorate_kit::{Command, Look, Operator, OperatorError, OwnCluster, Seen, SeenMember};
use quorate_types::{ClusterId, Incarnation, ReplicaId};
use quorate_wire::MemberRequest;
use quorate_zookeeper::command::Command as Ordered;
use quorate_zookeeper::error::ZkError;
use quorate_zookeeper::jute::Reader;
use quorate_zookeeper::members::{Member, Members as Said};
use quorate_zookeeper::server::{Change, Named};
use std::time::{Duration, Instant, SystemTime};

/// How often it is looked whether there is something new.
const LOOK: Duration = Duration::from_secs(1);
/// How long a server that joins may take to catch up until it is let vote.
const JOINING: Duration = Duration::from_secs(24 * 3600);

/// What the front knows of the members. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Members {
    pub(crate) cluster: ClusterId,
    pub(crate) replica: ReplicaId,
    pub(crate) settings: ZooKeeperSettings,
    pub(crate) look: Look,
    pub(crate) operator: Operator,
    pub(crate) words: OwnCluster,
}

impl Members {
    /// Says what is new, for as long as the front runs.
    pub(crate) async fn always(self) {
        let mut said = None;
        loop {
            if let Some(now) = self.seen(&[]).await
                && said.as_ref() != Some(&now)
                && self.say(now.clone()).await.is_some()
            {
                said = Some(now);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What the replica sees, if its members are not just changing. Clients reach new servers where whoever added them says.
    async fn seen(&self, named: &[Named]) -> Option<Said> {
        let seen = self.look.now().await.filter(|seen| !seen.is_changing)?;
        let list = seen.members.into_iter().map(|SeenMember { replica, address, learner, .. }| {
            let own = (replica == self.replica.number()).then(|| self.settings.announced(&address));
            let named = || named.iter().find(|named| named.replica == replica);
            let clients = own.or_else(|| named().map(|named| named.clients.clone()));
            Member { replica: i32::from(replica), learner, address, clients }
        });
        Some(Said { cluster: self.cluster.bits(), number: seen.membership as i64, list: list.collect() })
    }

    /// Has it ordered. Returns the transaction that shows it.
    async fn say(&self, members: Said) -> Option<i64> {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut bytes = Vec::new();
        Ordered::Members { time_ms: wall.as_millis() as i64, members }.write(&mut bytes);
        let answer = self.words.order(Command::new(bytes)).await.ok()?;
        Reader::new(&answer).long().ok()
    }

    /// Carries out a change. Returns the transaction that shows it; nothing if it is not known whether it was done.
    pub(crate) async fn change(&self, change: &Change) -> Option<Result<i64, ZkError>> {
        match self.steps(change).await {
            Ok(()) => {}
            Err(Ok(refused)) => return Some(Err(refused)),
            Err(Err(why)) => return error_of(&why).map(Err),
        }
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            if let Some(now) = self.seen(&change.joining).await
                && let Some(zxid) = self.say(now).await
            {
                return Some(Ok(zxid));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        None
    }

    async fn steps(&self, change: &Change) -> Result<(), Result<ZkError, OperatorError>> {
        let seen = self.operator.standing().await.map_err(Err)?;
        if change.number.is_some_and(|number| number != seen.membership as i64) {
            return Err(Ok(ZkError::BadVersion));
        }
        for step in steps(change, &seen).map_err(Ok)? {
            let later = match &step {
                MemberRequest::Add { replica, .. } => Some(*replica),
                _ => None,
            };
            self.operator.change(step).await.map_err(Err)?;
            let votes = |replica: &ReplicaId| {
                change.joining.iter().any(|named| named.replica == replica.number() && !named.learner)
            };
            if let Some(replica) = later.filter(votes) {
                tokio::spawn(self.clone().promote(replica));
            }
        }
        Ok(())
    }

    /// Lets a new server vote as soon as it has caught up.
    async fn promote(self, replica: ReplicaId) {
        let until = Instant::now() + JOINING;
        while Instant::now() < until {
            tokio::time::sleep(LOOK).await;
            let Ok(seen) = self.operator.standing().await else { continue };
            match seen.member(replica.number()) {
                // It may be that nothing can be changed at this moment.
                Some(member) if member.learner && member.caught_up => {
                    drop(self.operator.change(MemberRequest::Promote(replica)).await);
                }
                Some(member) if member.learner => {}
                _ => return,
            }
        }
    }
}

/// What is to be done so that the members become those that a client wants.
fn steps(change: &Change, seen: &Seen) -> Result<Vec<MemberRequest>, ZkError> {
    let mut steps = Vec::new();
    for Named { replica: number, address, learner, .. } in &change.joining {
        let replica = ReplicaId::new(*number);
        let Some(is) = seen.member(*number) else {
            let mut bits = [0; 8];
            secrets::fill(&mut bits);
            let incarnation = Incarnation::new(u64::from_be_bytes(bits));
            steps.push(MemberRequest::Add { replica, address: address.clone(), incarnation });
            continue;
        };
        if is.address != *address {
            steps.push(MemberRequest::Move { replica, address: address.clone() });
        }
        match (is.learner, *learner) {
            (true, false) => steps.push(MemberRequest::Promote(replica)),
            // Who votes can only leave.
            (false, true) => return Err(ZkError::BadArguments),
            _ => {}
        }
    }
    let joins = |id: u16| change.joining.iter().any(|named| named.replica == id);
    let leaves = |id: u16| if change.is_whole { !joins(id) } else { change.leaving.contains(&id) };
    let leaving = seen.members.iter().map(|member| member.replica).filter(|id| leaves(*id));
    steps.extend(leaving.map(|id| MemberRequest::Remove(ReplicaId::new(id))));
    Ok(steps)
}

/// What a client is told; nothing if the change may be done yet.
fn error_of(why: &OperatorError) -> Option<ZkError> {
    tracing::warn!("a client of zookeeper wants the members changed, but: {why}");
    let OperatorError::Refused(text) = why else { return None };
    let is = |part: &&str| text.contains(part);
    Some(if is(&"is under way") {
        ZkError::ReconfigInProgress
    } else if ["no majority", "nobody who votes", "was never connected", "not caught up"].iter().any(is) {
        ZkError::NewConfigNoQuorum
    } else {
        ZkError::BadArguments
    })
}
