//! When a run is over, and what the checkers say in the end.

use super::{MS, Phase, World};
use crate::checks::{Failure, acked, checkpoints, linear, reads};
use crate::client::{Client, Done};
use crate::replica::{Replica, SideJob};
use crate::trace::Level;
use quorate_log::SyncMode;
use quorate_node::CheckpointStatus;

/// What a replica is at, in words.
fn state_of(status: &CheckpointStatus, replica: &Replica) -> String {
    let mut words = Vec::new();
    words.extend(status.diverged.map(|seq| format!("diverged at {seq}")));
    words.extend(
        status.transfer.as_ref().map(|transfer| format!("fetches ({}) {:?}", transfer.why, transfer.seq)),
    );
    words.extend(status.writing.map(|seq| format!("writes {seq}")));
    words.extend(replica.standing.corrupt.map(|seq| format!("corrupt since {seq}")));
    words.join(", ")
}

impl World {
    /// Moves on to the next phase when this one is done; says whether the last one is.
    pub(super) fn is_over(&mut self) -> bool {
        match self.phase {
            Phase::Safety => {}
            Phase::Liveness if self.waits_for_none(Client::is_done) => {
                self.enter(Phase::Reads, "last reads");
                for index in 0..self.clients.len() {
                    // Who is lost has not done its work yet; who was lost reads later than the others did.
                    if self.clients[index].is_done() && !self.clients[index].reads_last() {
                        let who = self.plan.replicas + index;
                        let local = self.processes[who].clock.read(self.now);
                        self.clients[index].final_reads(self.now, local);
                        self.wake(who);
                    }
                }
            }
            // One that was lost found its way: a replica that it knows heard who the members are, and told it.
            Phase::Reads | Phase::CatchUp if !self.waits_for_none(Client::reads_last) => {
                self.enter(Phase::Liveness, "a client goes on");
            }
            Phase::CatchUp if !self.waits_for_none(Client::is_over) => self.enter(Phase::Reads, "last reads"),
            Phase::Reads if self.waits_for_none(Client::is_over) => {
                let current = self.current();
                let nodes = current.iter().filter_map(|who| self.replicas[*who].node.as_ref());
                let last = nodes.map(|node| node.executor().seq().number()).max();
                self.last_border = (last.unwrap_or(0), 0, false);
                self.enter(Phase::CatchUp, "the last border");
            }
            Phase::CatchUp => {
                // Who was removed and hears nobody leads on for that long.
                let noticed = self.plan.heal_at + 2 * self.plan.timing.2 * MS;
                return self.last_border.2 && self.now >= noticed && self.untrimmed().is_none();
            }
            Phase::Liveness | Phase::Reads => {}
        }
        false
    }

    /// Whether all clients are that far, but for those that nothing leads to the members.
    fn waits_for_none(&self, is_far: impl Fn(&Client) -> bool) -> bool {
        self.clients.iter().all(|client| client.lies() || is_far(client) || self.is_lost(client))
    }

    /// Whether clients are answered, once nothing else fails.
    pub(super) fn look_at_answers(&mut self) -> Result<(), Failure> {
        let honest = || self.clients.iter().filter(|client| !client.lies() && !self.is_lost(client));
        let open = |client: &Client| client.done.iter().any(|done| done.outcome.is_none());
        let waits = self.phase != Phase::Safety && honest().any(open);
        let count = self.clients.iter().flat_map(|client| &client.done).filter(|done| done.outcome.is_some());
        self.answers.look(self.now, count.count(), waits)
    }

    fn enter(&mut self, phase: Phase, name: &'static str) {
        self.trace.line(Level::Events, self.now, None, "phase", || name.to_owned());
        self.phase = phase;
    }

    /// What is still to be done, for a run that does not end.
    pub(super) fn open(&self) -> Vec<String> {
        let mut open = Vec::new();
        for client in self.clients.iter().filter(|client| !client.lies()) {
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
                    let each = status.instances.each.iter().map(|of| {
                        let leader = of.leader.map_or("-".into(), |leader| format!("r{leader}"));
                        format!(" i{} v{} {leader} s{}", of.instance, of.view, of.decided)
                    });
                    let instances: String =
                        if status.instances.each.len() > 1 { each.collect() } else { String::new() };
                    open.push(format!(
                        "{name}{instances} {} view {} leader {:?} decided {} executed {} durable {}/{} full {} border {} agreed {} {} keeper idle {}",
                        self.standing_of(who),
                        status.view,
                        status.leader,
                        status.decided,
                        status.executed,
                        status.log.durable,
                        status.log.appended,
                        status.log.disk_full,
                        status.checkpoints.last_seq,
                        status.checkpoints.agreed_seq,
                        state_of(&status.checkpoints, replica),
                        replica.keeping.idle
                    ));
                }
                None => open.push(format!("{name} does not run: {:?}", replica.halt)),
            }
        }
        open.extend(self.untrimmed().map(|failure| failure.text));
        open
    }

    /// The checks at the end.
    pub(super) fn judge(&mut self) {
        let current = self.current();
        let honest = || self.clients.iter().filter(|client| !client.lies());
        let dones: Vec<&Done> = honest().flat_map(|client| &client.done).collect();
        let rows = self.agreement.rows();
        let mut found = reads::judge(&dones, rows);
        found = found.and_then(|()| reads::fresh(&dones, rows, |op| self.once.index(op)));
        found = found.and_then(|()| reads::own(&dones, rows, |op| self.once.index(op)));
        for done in &dones {
            found = found.and_then(|()| self.once.compare(done, rows));
            for (who, replica) in self.replicas.iter().enumerate().filter(|(who, _)| current.contains(who)) {
                if let Some(node) = &replica.node {
                    let name = self.trace.name(who);
                    let after = self.agreement.first_from(node.executor().seq().number() + 1);
                    let commands = replica.standing.next.unwrap_or(after);
                    found = found.and_then(|()| acked::kept(&name, commands, done, &self.once));
                }
            }
        }
        for (who, replica) in self.replicas.iter().enumerate() {
            if let Some(node) = &replica.node
                && !self.plan.is_liar(who)
            {
                let name = self.trace.name(who);
                let looked = self.states.look(&name, node.executor());
                found = found.and(looked);
                if current.contains(&who) {
                    found = found.and_then(|()| self.judge_checkpoints(who, &name, replica));
                }
            }
        }
        found = found.and_then(|()| self.judge_members(&current));
        let events = honest().flat_map(|client| client.events()).collect();
        match found.and_then(|()| linear::judge(events)) {
            Ok(unjudged) => self.unjudged = unjudged,
            Err(failure) => self.fail(failure),
        }
    }

    /// What a replica has on its disk.
    fn judge_checkpoints(&self, who: usize, name: &str, replica: &Replica) -> Result<(), Failure> {
        let (Some(node), true) = (&replica.node, self.plan.log.sync != SyncMode::Memory) else {
            return Ok(());
        };
        let status = node.status();
        // What rots can be the only one that there is, and nobody else has that border's.
        let any = status.checkpoints.durable_seq > 0 && !self.has_rot(who);
        self.checkpoints.at_rest(name, &replica.keeping.files, any)?;
        self.trims(who)
    }

    /// A replica of the present members that does not lie, and has not given up yet what its log need not keep.
    fn untrimmed(&self) -> Option<Failure> {
        let honest = self.current().into_iter().filter(|who| !self.plan.is_liar(*who));
        let failed = |who: usize| self.trims(who).err();
        honest.filter(|_| self.plan.log.sync != SyncMode::Memory).find_map(failed)
    }

    /// Whether a replica keeps no more of its log than it may.
    fn trims(&self, who: usize) -> Result<(), Failure> {
        let replica = &self.replicas[who];
        let Some(node) = &replica.node else { return Ok(()) };
        // A liar that begins to fetch and does not go on has the log kept for it, as far as the configuration allows.
        let mut held = node.holds_back_for().map(|by| usize::from(by.number()) - 1);
        if held.any(|by| self.plan.is_liar(by)) {
            return Ok(());
        }
        let size = self.plan.log.segment_bytes;
        let first = replica.disk.segments().first().map_or(0, |first| first * size);
        // What is being deleted is as good as gone.
        let going = replica.side.iter().filter_map(|job| match job {
            SideJob::Remove(segments) => Some(segments.end * size),
            _ => None,
        });
        let first = going.fold(first, u64::max);
        let before = replica.keeping.written.iter().rev().nth(1).map_or(0, |(_, position)| *position);
        // Of several instances each has what it decided ahead of the global log in its own log already.
        let ahead = if self.plan.instances > 1 || self.plan.resizes { 128 << 10 } else { 0 };
        checkpoints::trimmed(
            &self.trace.name(who),
            first,
            node.status().log.position,
            before,
            3 * size + (64 << 10) + ahead,
        )
    }
}

#[cfg(test)]
mod tests;
