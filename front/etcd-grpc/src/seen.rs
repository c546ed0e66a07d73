//! What a replica says of itself.

use crate::header::Header;
use serde_json::Value;
use std::sync::Arc;
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

    /// The member with this id.
    pub(crate) fn member(&self, replica: u16) -> Option<&SeenMember> {
        self.members.iter().find(|member| member.replica == replica)
    }
}

/// Asks the replica how it is, without stopping the thread that serves.
#[derive(Clone)]
pub(crate) struct Look {
    seen: Arc<dyn Fn() -> Option<Seen> + Send + Sync>,
    header: Arc<Header>,
}

impl Look {
    pub(crate) fn new(seen: Box<dyn Fn() -> Option<Seen> + Send + Sync>, header: Arc<Header>) -> Self {
        Self { seen: seen.into(), header }
    }

    pub(crate) async fn now(&self) -> Option<Seen> {
        let seen = self.seen.clone();
        let seen = tokio::task::spawn_blocking(move || seen()).await.ok().flatten()?;
        self.header.saw_view(seen.view);
        Some(seen)
    }

    pub(crate) async fn always(self) {
        loop {
            self.now().await;
            tokio::time::sleep(LOOK).await;
        }
    }
}
