//! What all acts of the tour use: the cluster, its faults, and what it says of itself.

use super::store::Store;
use super::tale::Tale;
use super::writer::Writer;
use crate::chaos::{self, Happened, Look};
use crate::control::{self, Action, Request};
use quorate_command::admin::{self, Admin, Status};
use quorate_command::cluster::Cluster;
use quorate_command::failure::{Failure, Outcome};
use quorate_lab::lies::How;
use quorate_types::ReplicaId;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long to wait for what must come.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);

pub(super) struct Stage<'a> {
    pub(super) tale: &'a Tale,
    /// The cluster's directory.
    pub(super) place: PathBuf,
    pub(super) cluster: Cluster,
    pub(super) admin: Admin,
    pub(super) store: Store,
    pub(super) writer: Writer,
}

impl Stage<'_> {
    /// Causes a fault as `quorate chaos` does.
    pub(super) fn cause(&self, fault: &chaos::Args) -> Outcome<Happened> {
        let lives = self.control(Action::List, &[])?.replicas;
        chaos::cause(fault, &self.cluster, &lives)
    }

    fn control(&self, action: Action, replicas: &[u16]) -> Outcome<control::Done> {
        control::call(&self.cluster.directory, &Request { action, replicas: replicas.to_vec() })
    }

    /// Ends all faults, before the writes are asked for although a step failed.
    pub(super) fn calm(&self) {
        let all = self.ids();
        // Each of them may have nothing to end.
        for action in [Action::Heal, Action::Lie(How::None)] {
            let _ = self.control(action, &all);
        }
        let lives = self.control(Action::List, &[]).map(|done| done.replicas).unwrap_or_default();
        let dead: Vec<u16> = lives.iter().filter(|one| one.is_dead()).map(|one| one.replica).collect();
        let _ = self.control(Action::Restart, &dead);
    }

    pub(super) fn ids(&self) -> Vec<u16> {
        self.cluster.members.iter().map(|(replica, _)| replica.number()).collect()
    }

    pub(super) fn leader(&self) -> Outcome<u16> {
        let leader = self.admin.wait_for_leader(PATIENCE).map(ReplicaId::number);
        leader.ok_or_else(|| Failure::new("nobody leads"))
    }

    /// Some replica that does not lead.
    pub(super) fn follower(&self) -> Outcome<u16> {
        let leader = self.leader()?;
        // The next one in turn would lead after it.
        let other = self.ids().into_iter().rev().find(|id| *id != leader && *id != leader + 1);
        other.ok_or_else(|| Failure::new("nobody follows"))
    }

    pub(super) fn look(&self) -> Look {
        Look::of(&self.admin.ask_all())
    }

    pub(super) fn status(&self, replica: u16) -> Outcome<Status> {
        self.admin.ask(ReplicaId::new(replica)).map_err(Failure::new)
    }

    /// How far the one is that is furthest.
    pub(super) fn furthest(&self) -> u64 {
        let answers = self.admin.ask_all();
        let executed = |answer: &admin::Answer| answer.status.as_ref().ok().map(|status| status.executed);
        answers.iter().filter_map(executed).max().unwrap_or(0)
    }

    /// Waits until the replica has executed everything that was executed anywhere when this began.
    pub(super) fn catch_up(&self, replica: u16) -> Outcome<()> {
        let target = self.furthest();
        let what = format!("replica {replica} has what the others have");
        self.wait(&what, || Ok(self.status(replica).is_ok_and(|status| status.executed >= target)))
    }

    /// Waits until it is so.
    pub(super) fn wait(&self, what: &str, mut is_so: impl FnMut() -> Outcome<bool>) -> Outcome<()> {
        let until = Instant::now() + PATIENCE;
        while !is_so()? {
            if Instant::now() >= until {
                return Err(Failure::new(format!(
                    "after {} s it is still not so that {what}",
                    PATIENCE.as_secs()
                )));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    pub(super) fn put(&self, key: &str, value: &str) -> Outcome<()> {
        self.store
            .put(key, value)
            .map_err(|not| Failure::new(format!("a write was not acknowledged: {}", not.why)))
    }

    /// Reads a key, which must have this value.
    pub(super) fn expect(&self, key: &str, value: &str) -> Outcome<()> {
        let found = self.store.get(key)?;
        if found.as_deref() == Some(value.as_bytes()) {
            return Ok(());
        }
        let found = found.map_or("nothing".to_owned(), |found| format!("\"{}\"", found.escape_ascii()));
        Err(Failure::new(format!(
            "a strong read of {key} gave {found}, and \"{value}\" was acknowledged before. This must never happen: please report it"
        )))
    }

    /// Whether a replica that is asked alone says this.
    pub(super) fn says(&self, replica: u16, key: &str, value: &str) -> bool {
        self.store.get_alone(replica, key).is_ok_and(|found| found.as_deref() == Some(value.as_bytes()))
    }
}
