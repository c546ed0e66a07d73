//! Evidence as the reason why a replica is taken out of its cluster: `quorate member replace --evidence`.
//!
//! A replica that lies may make files up to have an honest one removed. So what counts is the key that the cluster has for the accused, as
//! more members name it than may lie; the key in the file counts for nothing. Tests: tests.rs, tests/all/trace.rs.

use super::ask::head;
use super::find;
use super::keys::Known;
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Failure, Outcome};
use quorate_order::mod_smart::evidence::Evidence;
use quorate_types::ReplicaId;
use serde_json::Value;
use std::path::Path;

/// Evidence that was named as a reason.
pub(crate) struct Grounds(pub(super) Evidence);

impl Grounds {
    /// Reads this file; or, if there is no such file and this is a name, asks the replicas for it.
    ///
    /// # Errors
    /// When nobody has it, or it is no evidence.
    pub(crate) fn find(file: &Path, args: &ClusterArgs) -> Outcome<Self> {
        find(file, args).map(Self)
    }

    /// Whether it accuses this replica of this cluster, whatever it proves.
    ///
    /// # Errors
    /// Why it says nothing about it.
    pub(crate) fn is_about(&self, cluster: &Cluster, old: ReplicaId) -> Outcome<()> {
        let Self(evidence) = self;
        if evidence.cluster != cluster.id {
            return Err(self.refused(
                old,
                &format!("it is of cluster {}, and this one is {}", evidence.cluster, cluster.id),
            ));
        }
        if evidence.accused != old {
            let accused = evidence.accused;
            return Err(self.refused(old, &format!("it is against {accused}, and says nothing of {old}")));
        }
        Ok(())
    }

    /// Whether it proves that this replica is not honest, to a cluster that knows it by this key, 64 hexadecimal digits.
    ///
    /// # Errors
    /// Why it does not.
    pub(crate) fn prove(&self, cluster: &Cluster, old: ReplicaId, key: Option<&str>) -> Outcome<()> {
        self.is_about(cluster, old)?;
        let Some(key) = key else {
            return Err(
                self.refused(old, "the members name no key of it: `quorate member list` shows who is one")
            );
        };
        let known = Known::of_members(cluster.id, old, key).ok_or_else(|| {
            Failure::new(format!("the members name `{key}` as the key of {old}, which is none"))
        })?;
        known.judge(&self.0).map_err(|why| {
            let made_up = "so it proves nothing, and whoever made it may want an honest replica removed";
            self.refused(old, &format!("{why}; {made_up}"))
        })
    }

    fn refused(&self, old: ReplicaId, why: &str) -> Failure {
        Failure::new(format!("{old} is not replaced on the evidence {}: {why}", self.name()))
    }

    fn name(&self) -> String {
        self.0.file_name()
    }

    /// What was done because of it, in one line for outputs and audit logs.
    pub(crate) fn reason(&self, old: ReplicaId, new: ReplicaId) -> String {
        format!("{new} replaces {old} on the evidence {}: {}", self.name(), self.0)
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> Value {
        head(&self.0)
    }
}
