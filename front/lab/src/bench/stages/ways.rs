//! The ways in which the stages are put together.

use super::caller::{Caller, connection};
use super::steps::{Admit, Clock, Executing, Logging, Ordered, Ordering, reply_frame, seal};
use super::watch::{Stage, Watch};
use super::{Certificates, Plan, Run, Way};
use crate::bench::quota::own_time;
use crossbeam_channel::{Receiver, Sender, unbounded};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_order::Stored;
use quorate_tls::Session;
use quorate_types::{RecordId, Slot};
use quorate_wire::{Batch, OutFrame};
use std::thread::{Scope, ScopedJoinHandle};

/// All stages of a replica.
struct Replica {
    calls: Session,
    admit: Admit,
    ordering: Ordering,
    logging: Logging,
    executing: Executing,
    replies: Session,
    watch: Watch,
}

/// One run.
pub(super) fn run(way: Way, plan: Plan, certificates: &Certificates) -> Outcome<Run> {
    let (their_calls, calls) = connection(certificates)?;
    let (their_replies, replies) = connection(certificates)?;
    let clock = Clock::new();
    let mut replica = Replica {
        calls,
        admit: Admit::new(plan, clock),
        ordering: Ordering::new(clock),
        logging: Logging::new(),
        executing: Executing::new(way == Way::Merged, clock)?,
        replies,
        watch: Watch::default(),
    };
    let mut caller = Caller::new(their_calls, their_replies);
    replica.lead()?;
    let opening = caller.opening()?;
    caller.opened(&replica.turn(std::iter::once(opening))?)?;
    let (to_replica, from_caller) = unbounded();
    let (to_caller, from_replica) = unbounded();
    replica.watch = Watch::new(plan.each && way != Way::Staged);
    let (seen, used) = std::thread::scope(|scope| {
        let threads = match way {
            Way::Direct | Way::Merged => alone(scope, replica, from_caller, to_caller),
            Way::Staged => staged(scope, replica, from_caller, to_caller),
        };
        let seen = caller.run(plan, &to_replica, &from_replica);
        // The stage that waits for calls ends, and then, one after the other, all stages.
        drop(to_replica);
        let used = threads.join();
        Ok::<_, Failure>((seen?, used?))
    })?;
    let Used { cpu_s, executing, logging, watch } = used;
    if executing.totals()? != seen.sent || logging.bytes() < seen.sent.count * plan.bytes as u64 {
        return Err(Failure::new("the service does not have what was acknowledged"));
    }
    Ok(Run { commands: seen.sent.count, seconds: seen.seconds, cpu_s, stages: watch.shares() })
}

impl Replica {
    fn lead(&mut self) -> Outcome<()> {
        while !self.ordering.leads() {
            self.ordering.hurry();
            self.order(&mut Vec::new())?;
        }
        Ok(())
    }

    /// Carries out everything that ordering asks for, until it asks for nothing more.
    fn order(&mut self, replies: &mut Vec<u8>) -> Outcome<()> {
        loop {
            let (mut persisted, logging, executing) = (false, &mut self.logging, &mut self.executing);
            let watch = &mut self.watch;
            self.ordering.take(|ordered| {
                watch.ends(Stage::Order);
                match ordered {
                    Ordered::Persist(record) => {
                        persisted = true;
                        logging.append(record)?;
                        watch.ends(Stage::Log);
                    }
                    Ordered::Decided(slot, batch) => {
                        executing.decided(slot, batch, replies)?;
                        watch.ends(Stage::Execute);
                    }
                }
                Ok(())
            })?;
            self.watch.ends(Stage::Order);
            if !persisted {
                return Ok(());
            }
            let durable = self.logging.write();
            self.watch.ends(Stage::Log);
            self.ordering.durable(durable);
        }
    }

    /// Takes everything that arrived through all stages. Gives the sealed replies.
    fn turn(&mut self, arrived: impl Iterator<Item = Vec<u8>>) -> Outcome<Vec<u8>> {
        let admit = &mut self.admit;
        self.watch.begins();
        for sealed in arrived {
            self.calls.receive(&sealed, |plain| admit.push(plain)).doing("open calls")?;
        }
        self.watch.ends(Stage::Open);
        let (ordering, executing, watch) = (&mut self.ordering, &mut self.executing, &mut self.watch);
        self.admit.batches(|batch| {
            watch.ends(Stage::Admit);
            executing.proposed();
            ordering.propose(batch);
            watch.ends(Stage::Order);
            Ok(())
        })?;
        self.watch.ends(Stage::Admit);
        let (mut replies, mut sealed) = (Vec::new(), Vec::new());
        self.order(&mut replies)?;
        if let Some(frame) = reply_frame(&mut replies) {
            seal(&mut self.replies, frame, &mut sealed)?;
        }
        self.watch.ends(Stage::Reply);
        Ok(sealed)
    }
}

/// What is left of a replica: its processor seconds, and what it holds.
struct Used {
    cpu_s: f64,
    executing: Executing,
    logging: Logging,
    watch: Watch,
}

/// The replica's threads. Each returns its processor seconds, and some return what they hold.
struct Threads<'a> {
    others: Vec<ScopedJoinHandle<'a, Outcome<f64>>>,
    executing: ScopedJoinHandle<'a, Outcome<(f64, Executing)>>,
    logging: Option<ScopedJoinHandle<'a, Outcome<(f64, Logging)>>>,
    /// Set if one thread does both.
    both: Option<Receiver<(Logging, Watch)>>,
}

impl Threads<'_> {
    fn join(self) -> Outcome<Used> {
        let died = || Failure::new("a thread of the replica died");
        let mut cpu_s = 0.0;
        for thread in self.others {
            cpu_s += thread.join().map_err(|_| died())??;
        }
        let (used, executing) = self.executing.join().map_err(|_| died())??;
        cpu_s += used;
        let (logging, watch) = match (self.logging, self.both) {
            (Some(thread), _) => {
                let (used, logging) = thread.join().map_err(|_| died())??;
                cpu_s += used;
                (logging, Watch::default())
            }
            (None, both) => both.and_then(|both| both.recv().ok()).ok_or_else(died)?,
        };
        Ok(Used { cpu_s, executing, logging, watch })
    }
}

/// One thread does everything, turn by turn.
fn alone<'a>(
    scope: &'a Scope<'a, '_>,
    mut replica: Replica,
    calls: Receiver<Vec<u8>>,
    replies: Sender<Vec<u8>>,
) -> Threads<'a> {
    let (give, both) = unbounded();
    let executing = scope.spawn(move || {
        let began = own_time();
        while let Ok(first) = calls.recv() {
            let sealed = replica.turn(std::iter::once(first).chain(calls.try_iter()))?;
            if !sealed.is_empty() {
                replies.send(sealed).doing("answer the client")?;
            }
        }
        let _ = give.send((replica.logging, replica.watch));
        Ok((own_time() - began, replica.executing))
    });
    Threads { others: Vec::new(), executing, logging: None, both: Some(both) }
}

/// What ordering is told by the other threads.
enum ToOrder {
    Propose(Batch),
    Durable(RecordId),
    /// No calls follow, and all are answered.
    End,
}

/// A thread for each stage.
fn staged<'a>(
    scope: &'a Scope<'a, '_>,
    replica: Replica,
    calls: Receiver<Vec<u8>>,
    replies: Sender<Vec<u8>>,
) -> Threads<'a> {
    let Replica { calls: tls, admit, ordering, logging, executing, replies: sealing, watch: _ } = replica;
    let (to_admit, plain) = unbounded::<Vec<u8>>();
    let (to_order, orders) = unbounded();
    let (to_log, records) = unbounded();
    let (to_execute, decided) = unbounded();
    let (to_seal, frames) = unbounded();
    let durable = to_order.clone();
    let others = vec![
        scope.spawn(move || timed(|| open(tls, &calls, &to_admit))),
        scope.spawn(move || timed(|| admitting(admit, &plain, &to_order))),
        scope.spawn(move || timed(|| order(ordering, &orders, &to_log, &to_execute))),
        scope.spawn(move || timed(|| sealing_all(sealing, &frames, &replies))),
    ];
    let logging = scope.spawn(move || {
        let began = own_time();
        let logging = log(logging, &records, &durable)?;
        Ok((own_time() - began, logging))
    });
    let executing = scope.spawn(move || {
        let began = own_time();
        let executing = execute(executing, &decided, &to_seal)?;
        Ok((own_time() - began, executing))
    });
    Threads { others, executing, logging: Some(logging), both: None }
}

/// Runs `work`, and gives the processor seconds of this thread that it took.
fn timed(work: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
    let began = own_time();
    work()?;
    Ok(own_time() - began)
}

fn open(mut tls: Session, calls: &Receiver<Vec<u8>>, to: &Sender<Vec<u8>>) -> Outcome<()> {
    for sealed in calls {
        let mut opened = Vec::with_capacity(sealed.len());
        tls.receive(&sealed, |plain| opened.extend_from_slice(plain)).doing("open calls")?;
        to.send(opened).doing("hand calls on")?;
    }
    Ok(())
}

fn admitting(mut admit: Admit, plain: &Receiver<Vec<u8>>, to: &Sender<ToOrder>) -> Outcome<()> {
    for bytes in plain {
        admit.push(&bytes);
        admit.batches(|batch| to.send(ToOrder::Propose(batch)).doing("hand a batch on"))?;
    }
    to.send(ToOrder::End).doing("end")
}

fn order(
    mut ordering: Ordering,
    orders: &Receiver<ToOrder>,
    to_log: &Sender<Stored>,
    to_execute: &Sender<(Slot, Batch)>,
) -> Outcome<()> {
    for order in orders {
        match order {
            ToOrder::Propose(batch) => ordering.propose(batch),
            ToOrder::Durable(record) => ordering.durable(record),
            ToOrder::End => return Ok(()),
        }
        ordering.take(|ordered| match ordered {
            Ordered::Persist(record) => to_log.send(record).doing("hand a record on"),
            Ordered::Decided(slot, batch) => to_execute.send((slot, batch)).doing("hand a batch on"),
        })?;
    }
    Ok(())
}

/// Builds one block from all waiting records.
fn log(mut logging: Logging, records: &Receiver<Stored>, to: &Sender<ToOrder>) -> Outcome<Logging> {
    while let Ok(first) = records.recv() {
        logging.append(first)?;
        records.try_iter().try_for_each(|record| logging.append(record))?;
        // Ordering ends first.
        let _ = to.send(ToOrder::Durable(logging.write()));
    }
    Ok(logging)
}

fn execute(
    mut executing: Executing,
    decided: &Receiver<(Slot, Batch)>,
    to: &Sender<OutFrame>,
) -> Outcome<Executing> {
    let mut replies = Vec::new();
    while let Ok(first) = decided.recv() {
        for (slot, batch) in std::iter::once(first).chain(decided.try_iter()) {
            executing.decided(slot, batch, &mut replies)?;
        }
        if let Some(frame) = reply_frame(&mut replies) {
            to.send(frame).doing("hand replies on")?;
        }
    }
    Ok(executing)
}

fn sealing_all(mut tls: Session, frames: &Receiver<OutFrame>, to: &Sender<Vec<u8>>) -> Outcome<()> {
    while let Ok(first) = frames.recv() {
        let mut sealed = Vec::new();
        for frame in std::iter::once(first).chain(frames.try_iter()) {
            seal(&mut tls, frame, &mut sealed)?;
        }
        to.send(sealed).doing("answer the client")?;
    }
    Ok(())
}
