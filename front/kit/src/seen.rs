//! What a replica says of itself.

use quorate_runtime::NodeStatus;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often the replica is asked for its view when nobody asks.
const LOOK: Duration = Duration::from_secs(1);

/// What a replica says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its view.
    pub view: u64,
    /// Who leads.
    pub leader: Option<u16>,
    /// The last slot decided.
    pub decided: u64,
    /// The last seq executed.
    pub executed: u64,
    /// The number of the membership.
    pub membership: u64,
    /// Whether it is being changed.
    pub is_changing: bool,
    /// The members; during a change, those after it.
    pub members: Vec<SeenMember>,
    /// Ids of former members.
    pub used: Vec<u16>,
    /// Members whose disks are full, as far as this replica knows.
    pub full: Vec<u16>,
}

/// A member, as a replica sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenMember {
    /// Its id.
    pub replica: u16,
    /// Where replicas reach it.
    pub address: String,
    /// Whether it does not vote.
    pub learner: bool,
    /// Whether it has caught up; only the leader knows.
    pub caught_up: bool,
}

impl Seen {
    /// Reads the document in which a replica answers operators.
    pub fn of_status(text: &str) -> Option<Self> {
        let status: Value = serde_json::from_str(text).ok()?;
        let id = |value: &Value| u16::try_from(value.as_u64()?).ok();
        let ids = |value: &Value| value.as_array().into_iter().flatten().filter_map(id).collect();
        let membership = &status["membership"];
        let member = |member: &Value| {
            Some(SeenMember {
                replica: id(&member["replica"])?,
                address: member["address"].as_str()?.to_owned(),
                learner: member["role"] == "learner",
                caught_up: member["caught_up"] == true,
            })
        };
        Some(Self {
            view: status["view"].as_u64()?,
            leader: id(&status["leader"]),
            decided: status["decided"].as_u64()?,
            executed: status["executed"].as_u64()?,
            membership: membership["number"].as_u64()?,
            is_changing: !membership["changing_to"].is_null(),
            members: membership["members"].as_array()?.iter().filter_map(member).collect(),
            used: ids(&membership["used"]),
            full: ids(&status["log"]["full"]),
        })
    }

    /// What the replica in this process says.
    pub fn of(status: &NodeStatus) -> Self {
        let membership = &status.membership;
        let members = membership.members.iter().map(|member| SeenMember {
            replica: member.replica,
            address: member.address.clone(),
            learner: member.role == "learner",
            caught_up: member.caught_up,
        });
        Self {
            view: status.view,
            leader: status.leader,
            decided: status.decided,
            executed: status.executed,
            membership: membership.number,
            is_changing: membership.changing_to.is_some(),
            members: members.collect(),
            used: membership.used.iter().copied().collect(),
            full: status.log.full.clone(),
        }
    }

    /// Whether clients can be served: somebody leads, as far as the replica knows.
    pub fn is_healthy(&self) -> bool {
        self.leader.is_some()
    }

    /// The member with this id.
    pub fn member(&self, replica: u16) -> Option<&SeenMember> {
        self.members.iter().find(|member| member.replica == replica)
    }
}

/// Asks the replica what it says of itself; may wait a moment. Nothing if it does not answer, as when it has stopped.
pub type See = Box<dyn Fn() -> Option<Seen> + Send + Sync>;

/// Asks the replica how it is, without stopping the thread that serves. Clones are the same one.
#[derive(Clone)]
pub struct Look {
    see: Arc<dyn Fn() -> Option<Seen> + Send + Sync>,
    /// The highest view that was seen; 1 before any was.
    view: Arc<AtomicU64>,
}

impl Look {
    /// Which looks by itself now and then. Must be called on the front's event loop.
    pub fn start(see: See) -> Self {
        let look = Self { see: see.into(), view: Arc::new(AtomicU64::new(1)) };
        tokio::spawn(look.clone().always());
        look
    }

    /// How the replica is now; nothing if it does not say.
    pub async fn now(&self) -> Option<Seen> {
        let see = self.see.clone();
        let seen = tokio::task::spawn_blocking(move || see()).await.ok().flatten()?;
        self.view.fetch_max(seen.view, Ordering::Relaxed);
        Some(seen)
    }

    /// The view that was seen last, which is at most a second old.
    pub fn view(&self) -> u64 {
        self.view.load(Ordering::Relaxed)
    }

    async fn always(self) {
        loop {
            self.now().await;
            tokio::time::sleep(LOOK).await;
        }
    }
}
