//! A replica's status, as the replica reports it.

use quorate_runtime::NodeStatus;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often the replica is asked for its view without a caller.
const LOOK: Duration = Duration::from_secs(1);

/// A replica's status, as the replica reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its view.
    pub view: u64,
    /// The leader, if one is known.
    pub leader: Option<u16>,
    /// The last slot that was decided.
    pub decided: u64,
    /// The last seq that was executed.
    pub executed: u64,
    /// The number of the membership.
    pub membership: u64,
    /// Whether the membership is being changed.
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
    /// The address at which replicas reach it.
    pub address: String,
    /// Whether it does not vote.
    pub learner: bool,
    /// Whether it has caught up; only the leader knows.
    pub caught_up: bool,
}

impl Seen {
    /// Reads the document with which a replica answers operators.
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

    /// The status of the replica in this process.
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

    /// Whether clients can be served: the replica knows a leader.
    pub fn is_healthy(&self) -> bool {
        self.leader.is_some()
    }

    /// The member with this id.
    pub fn member(&self, replica: u16) -> Option<&SeenMember> {
        self.members.iter().find(|member| member.replica == replica)
    }
}

/// Asks the replica for its status, and may wait a moment. Returns nothing if the replica does not answer, as when it has stopped.
pub type See = Box<dyn Fn() -> Option<Seen> + Send + Sync>;

/// Asks the replica for its status, without holding up the thread that serves. All clones act as one.
#[derive(Clone)]
pub struct Look {
    see: Arc<dyn Fn() -> Option<Seen> + Send + Sync>,
    /// The highest view that was seen; 1 before any was.
    view: Arc<AtomicU64>,
}

impl Look {
    /// A `Look` that also asks about once a second by itself. Must be called on the front's event loop.
    pub fn start(see: See) -> Self {
        let look = Self { see: see.into(), view: Arc::new(AtomicU64::new(1)) };
        tokio::spawn(look.clone().always());
        look
    }

    /// The replica's present status; nothing if it does not answer.
    pub async fn now(&self) -> Option<Seen> {
        let see = self.see.clone();
        let seen = tokio::task::spawn_blocking(move || see()).await.ok().flatten()?;
        self.view.fetch_max(seen.view, Ordering::Relaxed);
        Some(seen)
    }

    /// The highest view that was seen. The replica is asked for it about once a second.
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
