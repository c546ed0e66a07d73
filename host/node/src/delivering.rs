//! Delivery and execution among the other parts: what the global log has is delivered, executed, and told to whom it concerns.

use crate::effects::{Effect, Effects, Event, KeeperWork};
use crate::engine::{Delivery, Finished};
use crate::eras;
use crate::keeping::{In, captured};
use crate::node::Node;
use crate::reconfigure::{LEVEL, SERVICE_LEVEL, level_record};
use quorate_state::checkpoint::Job;
use quorate_types::{InstanceId, Seq, Time, planted};
use quorate_wire::{Batch, ReplyStatus, SystemCommand};

/// Delivers what the global log has. Plain execution comes at the end of the turn, see [`execute`].
pub(crate) fn deliver(node: &mut Node, now: Time, out: &mut Effects) {
    loop {
        let _ = !node.engine.postpones() && finish(node, now, out);
        let Some(delivery) = node.engine.next(now) else { return };
        if let Delivery::Batch { seq, instance, batch, settled } = delivery {
            delivered(node, now, (seq, instance, settled), &batch, out);
        }
        node.look_at_generation(now, out);
    }
}

/// Executes what was delivered, and what waited for that; also after proposals, which a replica that is alone decides at once.
pub(crate) fn execute(node: &mut Node, now: Time, out: &mut Effects) {
    while finish(node, now, out) {
        deliver(node, now, out);
    }
}

/// Takes from the engine what became final. Whether there was anything.
fn finish(node: &mut Node, now: Time, out: &mut Effects) -> bool {
    let mut any = false;
    while let Some(finished) = node.engine.finished(now) {
        any = true;
        match finished {
            Finished::Batch { instance, proposed } => {
                executed(node, instance, proposed);
                tell_of_service(node, out);
            }
            Finished::Ahead(border, version) => {
                let job = Job::Ahead { border, version };
                out.push(Effect::Keep(KeeperWork { job, stops: false }));
            }
            Finished::Image(system, image) => {
                let image = captured(*system, image);
                if let (In::Captured { image, .. }, true) = (&image, node.eras.has_ended()) {
                    eras::step_eras(node, now, eras::In::State(image.clone()), out);
                }
                node.keep(now, image, out);
            }
        }
    }
    any
}

/// Time passed, so more may be final. If that held up delivery, delivery goes on.
pub(crate) fn finish_late(node: &mut Node, now: Time, out: &mut Effects) {
    if node.engine.foresee() || node.engine.is_behind() {
        deliver(node, now, out);
        node.after_order(now, out);
    }
}

/// The engine delivered a batch: everything takes effect that follows from the order alone. The batch may be executed later.
pub(crate) fn delivered(
    node: &mut Node,
    now: Time,
    (seq, id, settled): (Seq, InstanceId, bool),
    batch: &Batch,
    out: &mut Effects,
) {
    let (merge, me) = (node.engine.merge(), node.config.members.me());
    let led = node.groups.of(id).map(|group| (group.view(), group.proposed(merge, me)));
    node.engine.gives((seq, id), led.unwrap_or_default(), now, batch);
    if let Some(command) = SystemCommand::of(batch) {
        node.reconfigure(now, out, |part, look, outs| part.executed(look, command, outs));
    }
    node.learn_time(now);
    let (bytes, asks, ends) = (batch.bytes().len() as u64, batch.header().border, node.eras.has_ended());
    node.keep(now, In::Delivered { seq, bytes, asks, settled, ends }, out);
}

/// A batch of an instance is executed and final: the parts that wait for its outcome are told.
pub(crate) fn executed(node: &mut Node, id: InstanceId, proposed: bool) {
    let me = node.config.members.me();
    if let Some(group) = node.groups.of_mut(id) {
        group.answered(node.engine.outcomes(), me);
    }
    // The results of a diverged replica are wrong: its clients get their replies from other replicas.
    if !node.keeping.has_diverged() {
        let answerers = node.answerers();
        node.engine.reply(proposed, answerers);
    }
    let outcomes = node.engine.outcomes().iter();
    node.intake.executed(outcomes.map(|done| (done.opening, done.session, done.number, done.status)));
    // What is under way is ordered: nobody waits for a leader to propose it.
    let begun = node.engine.begun().iter();
    node.intake.executed(begun.map(|(session, number)| (None, *session, *number, ReplyStatus::Done)));
    node.guide.executed(node.groups.len(), &node.engine);
}

/// An ordered command raises the level of the service. A program that does not have the version executes nothing behind it.
pub(crate) fn raise_service(node: &mut Node, level: u32, out: &mut Effects) {
    match node.config.service.check(level) {
        Ok(()) => node.engine.raise_service(level),
        Err(halt) => {
            node.engine.stop();
            out.push(Effect::Halt(halt));
        }
    }
}

/// The level of the service follows what was executed.
fn tell_of_service(node: &mut Node, out: &mut Effects) {
    let executor = node.engine.executor();
    node.config.service.level = executor.service_level();
    if let Some(raise) = node.reconfigure.news_of_service(executor.service_raise()) {
        note_service(node);
        let end = Some(raise.failed.map_or(Ok(()), Err));
        out.event(Event::ServiceLevel { level: raise.level, end });
    }
}

/// A checkpoint was installed, in which the service has a level.
pub(crate) fn install_service(node: &mut Node) {
    node.config.service.level = node.engine.executor().service_level();
    note_service(node);
}

/// Writes the level of the service down, as that of the cluster. Without room there is no such record, and none comes later: then an older
/// program stops where it executes the raise, or reads the next checkpoint.
fn note_service(node: &mut Node) {
    let level = node.config.service.level;
    if node.reconfigure.notes_service(level) {
        let _ = node.journal.note(level_record(SERVICE_LEVEL, level));
    }
}

/// The feature level: it follows what was executed, and is written down.
/// The cluster works at another level from now on, as was executed. The level is taken even if this program can not do it: what it
/// executes until it halts is wrong, but must not pass for the lower level.
pub(crate) fn begin_level(node: &mut Node, level: u32, out: &mut Effects) {
    take_level(node, level);
    if let Err(halt) = node.config.level.check(level) {
        return out.push(Effect::Halt(halt));
    }
    out.event(Event::Level { level, begun: false });
    note_level(node);
}

/// A checkpoint was installed, which has a level.
pub(crate) fn set_level(node: &mut Node, level: u32) {
    take_level(node, level);
    note_level(node);
}

fn take_level(node: &mut Node, level: u32) {
    node.config.level.cluster = level;
    let own = planted("service-level-by-own-binary");
    node.engine.set_level(if own { node.config.level.highest } else { level });
}

/// Writes the level down, so that an older program stops before it says a word. Without room there is no such record; then an older
/// program stops when it hears of the level.
fn note_level(node: &mut Node) {
    let level = node.level();
    if node.reconfigure.is_unnoted(level) && node.journal.note(level_record(LEVEL, level)).is_ok() {
        node.reconfigure.noted(level);
    }
}
