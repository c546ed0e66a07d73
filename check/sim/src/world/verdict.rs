//! When a run is over, and what the checkers say in the end.

use super::{Phase, World};
use crate::checks::{acked, linear, reads};
use crate::client::Done;
use crate::trace::Level;

impl World {
    /// Moves on to the next phase when this one is done; says whether the last one is.
    pub(super) fn is_over(&mut self) -> bool {
        match self.phase {
            Phase::Safety => {}
            Phase::Liveness if self.clients.iter().all(|client| client.is_done()) => {
                self.trace.line(Level::Events, self.now, None, "phase", || "last reads".to_owned());
                self.phase = Phase::Reads;
                for index in 0..self.clients.len() {
                    let who = self.plan.replicas + index;
                    let local = self.processes[who].clock.read(self.now);
                    self.clients[index].final_reads(self.now, local);
                    self.wake(who);
                }
            }
            Phase::Reads if self.clients.iter().all(|client| client.is_over()) => {
                self.phase = Phase::CatchUp;
            }
            Phase::CatchUp => {
                let mut seqs =
                    self.replicas.iter().filter_map(|replica| Some(replica.node.as_ref()?.executor().seq()));
                let first = seqs.next();
                return seqs.all(|seq| Some(seq) == first);
            }
            Phase::Liveness | Phase::Reads => {}
        }
        false
    }

    /// What is still to be done, for a run that does not end.
    pub(super) fn open(&self) -> Vec<String> {
        let mut open = Vec::new();
        for client in &self.clients {
            for done in client.done.iter().filter(|done| done.outcome.is_none()).take(3) {
                open.push(format!(
                    "{:?} {} {} since {:.3} s",
                    done.id,
                    done.op,
                    done.key,
                    done.call as f64 / 1e9
                ));
            }
        }
        for (who, replica) in self.replicas.iter().enumerate() {
            let name = self.trace.name(who);
            match &replica.node {
                Some(node) => {
                    let status = node.status();
                    open.push(format!(
                        "{name} view {} leader {:?} decided {} executed {} durable {}/{} full {}",
                        status.view,
                        status.leader,
                        status.decided,
                        status.executed,
                        status.log.durable,
                        status.log.appended,
                        status.log.disk_full
                    ));
                }
                None => open.push(format!("{name} does not run: {:?}", replica.halt)),
            }
        }
        open
    }

    /// The checks at the end.
    pub(super) fn judge(&mut self) {
        let dones: Vec<&Done> = self.clients.iter().flat_map(|client| &client.done).collect();
        let rows = self.agreement.rows();
        let mut found = reads::judge(&dones, rows);
        found = found.and_then(|()| reads::fresh(&dones, rows, |op| self.once.index(op)));
        for done in &dones {
            found = found.and_then(|()| self.once.compare(done, rows));
            for (who, replica) in self.replicas.iter().enumerate() {
                if replica.node.is_some() {
                    let name = self.trace.name(who);
                    found = found.and_then(|()| acked::kept(&name, replica.executed, done, &self.once));
                }
            }
        }
        for (who, replica) in self.replicas.iter().enumerate() {
            if let Some(node) = &replica.node {
                let name = self.trace.name(who);
                let looked = self.states.look(&name, node.executor());
                found = found.and(looked);
            }
        }
        let events = self.clients.iter().flat_map(|client| client.events()).collect();
        match found.and_then(|()| linear::judge(events)) {
            Ok(unjudged) => self.unjudged = unjudged,
            Err(failure) => self.fail(failure),
        }
    }
}
