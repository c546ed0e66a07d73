//! A cluster that does not stay what it was: other programs, other members, other certificates.

use super::cluster::{Cluster, Life, Process, admin, ports, quorate, wait};
use super::random::Random;
use quorate::client::ReplicaId;
use rustix::process::Signal;
use serde_json::Value;

/// How a command ended.
pub(crate) struct Ran {
    pub(crate) ok: bool,
    pub(crate) said: String,
}

impl Cluster {
    /// Runs a command about this cluster.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let output = quorate().args(arguments).arg("--dir").arg(self.root()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        Ran { ok: output.status.success(), said: String::from_utf8_lossy(&said).into_owned() }
    }

    /// Runs one that must succeed.
    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let Ran { ok, said } = self.run(arguments);
        assert!(ok, "{arguments:?}: {said}");
        said
    }

    /// Runs one that must fail, and say this.
    #[track_caller]
    pub(crate) fn fails(&self, arguments: &[&str], says: &str) {
        let Ran { ok, said } = self.run(arguments);
        assert!(!ok && said.contains(says), "{arguments:?}: `{says}` is missing in: {said}");
    }

    /// From its next start on this replica runs a program that can work at this feature level at most; none: as high as there is.
    pub(crate) fn limit_level(&mut self, at: usize, level: Option<u32>) {
        self.processes[at].arguments =
            level.into_iter().map(|level| format!("--max-feature-level={level}")).collect();
    }

    /// Stops a replica in the clean way.
    pub(crate) fn stop(&mut self, at: usize) {
        self.check_running(at);
        self.signal(at, Signal::TERM);
        let status = self.processes[at].child.take().unwrap().wait().unwrap();
        self.processes[at].life = Life::Down;
        assert!(status.success(), "replica {}: {status}\n{}", at + 1, self.tail(at));
    }

    /// The replica's program is replaced.
    pub(crate) fn change_program(&mut self, at: usize, level: Option<u32>) {
        self.stop(at);
        self.limit_level(at, level);
        self.start(at);
        self.wait_until_caught_up(at);
    }

    /// A new replica becomes a member, as a learner; not started yet.
    pub(crate) fn join(&mut self, random: &mut Random) -> usize {
        let (at, port) = (self.processes.len(), ports(1, random)[0]);
        let (id, address) = (ReplicaId::new(at as u16 + 1), format!("127.0.0.1:{port}"));
        self.ok(&["member", "add", &id.number().to_string(), "--address", &address]);
        self.members.push((id, address));
        self.processes.push(Process::new());
        self.admin = admin(&self.root());
        at
    }

    /// A learner that runs takes the place of another replica, which is stopped.
    pub(crate) fn replace(&mut self, old: usize, new: usize) {
        let (from, to) = ((old + 1).to_string(), (new + 1).to_string());
        self.ok(&["member", "replace", &from, &to, "--timeout", "60"]);
        wait("it hears that it was removed", || self.printed(old).contains("was removed"));
        self.leave(old);
    }

    /// A replica that is no member any more is stopped.
    pub(crate) fn leave(&mut self, at: usize) {
        if self.processes[at].life != Life::Down {
            self.stop(at);
        }
        self.processes[at].life = Life::Gone;
        self.admin = admin(&self.root());
    }

    /// A replica reads its certificates again.
    pub(crate) fn reload(&self, at: usize) {
        self.signal(at, Signal::HUP);
    }

    /// A number of a replica's status.
    pub(crate) fn value(&self, at: usize, place: &str) -> Option<Value> {
        self.status(at)?.pointer(place).cloned()
    }
}
