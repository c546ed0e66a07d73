//! What a guest has to do with the cluster: it sees each replica's clock and published state, and its carriers bring what it wants.

use super::MS;
use super::cluster::Cluster;
use crate::client::{Client, Ended};
use crate::guest::{Front, Guest, Hosted, Newest};
use crate::plan::Plan;
use crate::processes::Processes;
use crate::queue::Event;
use crate::service::GUEST;
use crate::timeline::Timeline;
use bytes::Bytes;

/// The guest acts about so often.
const ACTS: u64 = MS;

/// A guest, and what it sees.
#[derive(Default)]
pub(super) struct Hosting {
    guest: Option<Box<dyn Guest>>,
    /// By replica: the states of its present life.
    newest: Vec<Newest>,
    is_calm: bool,
}

impl Hosting {
    /// With this guest, in a cluster of so many replicas.
    pub(super) fn of(guest: Box<dyn Guest>, replicas: usize) -> Self {
        Self { guest: Some(guest), newest: vec![Newest::default(); replicas], is_calm: false }
    }

    pub(super) fn has_guest(&self) -> bool {
        self.guest.is_some()
    }

    /// The guest's service for a new life of a replica.
    pub(super) fn service(&mut self, who: usize) -> Option<Hosted> {
        Some(self.guest.as_mut()?.service(who))
    }

    /// Where a new life of a replica publishes its states.
    pub(super) fn publisher(&mut self, who: usize) -> Option<Newest> {
        let newest = self.newest.get_mut(who)?;
        *newest = Newest::default();
        Some(newest.clone())
    }

    /// A replica's life ends.
    pub(super) fn dies(&mut self, who: usize) {
        if let Some(guest) = &mut self.guest {
            self.newest[who] = Newest::default();
            guest.dies(who);
        }
    }

    /// The guest acts, and carriers that are free take what it wants.
    pub(super) fn act(
        &mut self,
        cluster: &mut Cluster,
        processes: &mut Processes,
        is_healed: bool,
        time: &mut Timeline,
    ) {
        let local = |who| processes.does_something(who).then(|| processes.local(who, time));
        let fronts = self.newest.iter().enumerate();
        let fronts = fronts.map(|(who, newest)| Front { local: local(who), newest: newest.get() });
        let fronts: Vec<Front> = fronts.collect();
        let Some(guest) = &mut self.guest else { return };
        if is_healed && !self.is_calm {
            self.is_calm = true;
            guest.calms_down();
        }
        guest.acts(time.now(), &fronts);
        for carrier in 0..cluster.plan.carriers {
            carry(&mut **guest, carrier, cluster, processes, time);
        }
        let after = time.rng().range(ACTS / 2, 3 * ACTS / 2);
        time.after(after, Event::Guest);
    }

    /// Something ended at a client: the guest hears of it, if it is about that. Returns the operations that ended.
    pub(super) fn ended(&mut self, plan: &Plan, index: usize, client: &Client, ended: Ended) -> Vec<usize> {
        let carried = plan.carrier(index).zip(self.guest.as_mut());
        match (ended, carried) {
            (Ended::Carried(name, answer), Some((carrier, guest))) => {
                guest.answered(carrier, name, answer);
                Vec::new()
            }
            (Ended::Operations(numbers), Some((carrier, guest))) if !numbers.is_empty() => {
                let reply = |number: &usize| client.done[*number].reply_if_known();
                let replies = numbers.iter().map(|number| reply(number).map(Bytes::copy_from_slice));
                guest.replied(carrier, replies.collect());
                numbers
            }
            (Ended::Operations(numbers), _) => numbers,
            (Ended::Carried(..), None) => Vec::new(),
        }
    }
}

/// A carrier takes what the guest wants, if it can.
fn carry(
    guest: &mut dyn Guest,
    carrier: usize,
    cluster: &mut Cluster,
    processes: &mut Processes,
    time: &mut Timeline,
) {
    let index = cluster.plan.clients - cluster.plan.carriers + carrier;
    let (who, client) = (cluster.plan.replicas + index, &mut cluster.clients[index]);
    if guest.is_over() {
        client.release();
    }
    if !processes.does_something(who) {
        return;
    }
    // A session that nobody needs would be kept alive for ever, and the log would never be at rest.
    if guest.is_over() && client.close(processes.local(who, time)) {
        processes.wake(who, time);
    }
    let queries = guest.queries(carrier);
    let commands = if client.is_free() { guest.commands(carrier) } else { Vec::new() };
    if commands.is_empty() && queries.is_empty() {
        return;
    }
    let queries = queries.into_iter().map(|(name, query)| (name, [&[GUEST], &query[..]].concat().into()));
    client.carries(processes.local(who, time), commands, queries.collect());
    processes.wake(who, time);
}
