//! The harness for the merge. What it prints is described in scripts/merge/README.md.
//!
//! Commands (`I` is an instance, a number):
//!
//! - `merge instances=3 window=4 [held=100]`: a replica, r1, that leads nothing. `use r2`: another one from here on; it is made when it
//!   is named first.
//! - `batch I name [change=2] [record=5] [bytes=10]`: instance I decides its next record, or the one with this number; a batch, which may
//!   ask for another number of instances. `noop I to=4 [record=5]`: a no-op. What can be executed is executed.
//! - `lead I ...`, `follow I ...`: who leads; `new I ...`: leads, and does not know yet what was decided before. `settle I ...`: now it does.
//! - `propose I`: its leader here proposes a batch. `room I`: how many slots it may propose.
//! - `turn`: the end of a turn: reads that end, no-ops to propose, questions to other leaders.
//! - `asked slot=3 instance=1`: another replica wants everything up to there. `lost I`: a question to I's leader may be lost.
//! - `through`: the instance to ask for a strong read. `read 7 I record=3`: its leader says that three records are decided.
//! - `checkpoint`: of what is executed; `restart`: from that checkpoint; `jump`: the checkpoint, which another replica made, takes the
//!   place of the state.
//! - `status`: where it stands.

use crate::{Command, Harness};
use quorate_merge::{
    Checkpoint, Config, Decided, Delivered, INSTANCES_MAX, Leader, Merge, Place, ReadEnd, RecordIndex,
};
use quorate_types::{InstanceId, Slot, Time};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A batch: its name, and the number of instances that it asks for.
type Batch = (String, Option<u16>);

/// Runs the commands of a script; nothing exists before `merge`.
#[derive(Default)]
pub struct Replicas {
    config: Option<(Config, u16)>,
    all: BTreeMap<String, Merge<Batch>>,
    name: String,
    checkpoint: Option<Checkpoint>,
}

fn number(command: &Command, key: &str) -> Result<u64, String> {
    command.number(key)?.ok_or_else(|| format!("{} needs {key}=", command.name))
}

fn instance(word: &str) -> Result<InstanceId, String> {
    word.parse().map(InstanceId::new).map_err(|_| format!("{word} is no instance"))
}

fn show_place(place: Place) -> String {
    match place.instance.number() {
        INSTANCES_MAX => format!("{} of all", place.slot),
        _ => format!("{} {}", place.slot, place.instance),
    }
}

fn count(instances: u16) -> String {
    if instances == 1 { "1 instance".into() } else { format!("{instances} instances") }
}

impl Harness for Replicas {
    fn run(&mut self, command: &Command) -> Result<String, String> {
        match &*command.name {
            "merge" => self.begin(command)?,
            "use" => self.name = command.only_arg()?.to_string(),
            _ => {}
        }
        let (config, instances) = self.config.ok_or("there is no merge yet")?;
        if !self.all.contains_key(&self.name) {
            let merge = Merge::new(config, instances).map_err(|e| e.to_string())?;
            self.all.insert(self.name.clone(), merge);
        }
        let merge = self.all.get_mut(&self.name).ok_or("there is no such replica")?;
        let mut out = String::new();
        match &*command.name {
            "merge" | "use" => {}
            "checkpoint" => {
                self.checkpoint = Some(merge.checkpoint());
                out = show_checkpoint(&merge.checkpoint());
            }
            "restart" | "jump" => {
                let from = self.checkpoint.as_ref().ok_or("there is no checkpoint")?;
                match &*command.name {
                    "jump" => merge.jump(from).map_err(|e| e.to_string())?,
                    _ => *merge = Merge::restore(config, from).map_err(|e| e.to_string())?,
                }
                out = format!("goes on behind {}", from.seq);
            }
            _ => apply(merge, command, &mut out)?,
        }
        merge.invariants(true);
        Ok(out)
    }
}

impl Replicas {
    fn begin(&mut self, command: &Command) -> Result<(), String> {
        command.only_options(&["instances", "window", "held"])?;
        let instances = u16::try_from(number(command, "instances")?).map_err(|_| "so many instances")?;
        let held_bytes_max = command.number("held")?.unwrap_or(1 << 20) as usize;
        let config = Config { window: number(command, "window")?, held_bytes_max };
        *self = Self { config: Some((config, instances)), name: "r1".into(), ..Self::default() };
        Ok(())
    }
}

fn apply(merge: &mut Merge<Batch>, command: &Command, out: &mut String) -> Result<(), String> {
    command.only_options(&["change", "record", "bytes", "to", "slot", "instance"])?;
    match &*command.name {
        "batch" | "noop" => return decide(merge, command, out),
        "lead" | "new" | "follow" | "settle" | "lost" => {
            for word in &command.args {
                let whom = instance(word)?;
                match &*command.name {
                    "follow" => merge.leader(whom, Leader::Elsewhere),
                    "lost" => merge.ask_again(whom),
                    "settle" => merge.settled(whom),
                    name => {
                        merge.leader(whom, Leader::Here);
                        if name == "lead" {
                            merge.settled(whom);
                        }
                    }
                }
            }
        }
        "propose" => {
            let whom = instance(command.only_arg()?)?;
            if merge.room(whom) == 0 {
                out.push_str("no room");
            } else if let Some(slot) = merge.proposed(whom) {
                let _ = write!(out, "{whom} proposes a batch for {slot}");
            }
        }
        "room" => {
            let whom = instance(command.only_arg()?)?;
            let open = if merge.is_open(whom) { "" } else { ", and should hand on no more" };
            let _ = write!(out, "{whom} may propose {} slots{open}", merge.room(whom));
        }
        "turn" => turn(merge, out),
        "asked" => merge.asked(Place::new(number(command, "slot")?, number(command, "instance")? as u16)),
        "through" => match merge.read_through(|_| true) {
            Some(whom) => out.push_str(&format!("ask {whom}")),
            None => out.push_str("nobody"),
        },
        "read" => {
            let [read, whom] = &command.args[..] else { return Err("read 7 2 record=3".into()) };
            let read = read.parse().map_err(|_| "a read has a number")?;
            merge.read_confirmed(read, instance(whom)?, RecordIndex(number(command, "record")?));
        }
        "status" => status(merge, out),
        other => return Err(format!("there is no command {other}")),
    }
    Ok(())
}

fn decide(merge: &mut Merge<Batch>, command: &Command, out: &mut String) -> Result<(), String> {
    let whom = instance(command.args.first().ok_or("which instance?")?)?;
    let record = command.number("record")?.map(RecordIndex);
    let record = record.or_else(|| merge.next_record(whom)).unwrap_or_default();
    let what = match command.args.get(1) {
        Some(name) if command.name == "batch" => {
            let change = command.number("change")?.map(|count| count as u16);
            let bytes = command.number("bytes")?.unwrap_or(10) as usize;
            Decided::Batch { payload: (name.clone(), change), bytes }
        }
        None if command.name == "noop" => Decided::Noop { target: Slot::new(number(command, "to")?) },
        _ => return Err("batch 2 a, or noop 2 to=4".into()),
    };
    if let Err(why) = merge.decided(whom, record, what) {
        let _ = writeln!(out, "refused: {why}");
    }
    execute(merge, out);
    Ok(())
}

/// Takes everything that can be executed.
fn execute(merge: &mut Merge<Batch>, out: &mut String) {
    while let Some(piece) = merge.next(Time::ZERO) {
        let _ = match piece {
            Delivered::Noops { first, last } if first == last => writeln!(out, "{first}  nothing"),
            Delivered::Noops { first, last } => writeln!(out, "{first}-{last}  nothing"),
            Delivered::Batch { seq, place, payload: (name, change) } => {
                let _ = writeln!(out, "{seq}  \"{name}\" ({})", show_place(place));
                match change.map(|count| merge.change(count)) {
                    Some(Ok(next)) => {
                        let (slot, base, after) = (next.first.previous(), next.base, count(next.instances));
                        writeln!(out, "{after} behind {slot}, which ends with {base}")
                    }
                    Some(Err(why)) => writeln!(out, "no change: {why}"),
                    None => Ok(()),
                }
            }
        };
    }
    if let Some(waits) = merge.waits() {
        let _ = writeln!(out, "waits for {} {}", waits.slot, waits.instance);
    }
}

fn turn(merge: &mut Merge<Batch>, out: &mut String) {
    merge.reads(|read, end| {
        let _ = match end {
            ReadEnd::Ready => writeln!(out, "read {read} may run"),
            ReadEnd::AskAnother => writeln!(out, "read {read} asks another instance"),
        };
    });
    for at in 0..merge.status(Time::ZERO).instances.len() {
        let whom = InstanceId::new(at as u16 + 1);
        if let Some(target) = merge.fill(whom) {
            let _ = writeln!(out, "{whom} proposes a no-op up to {target}");
        }
    }
    merge.asks(|whom, place| {
        let _ = writeln!(out, "the leader of {whom} is asked for everything up to {}", show_place(place));
    });
}

fn show_checkpoint(checkpoint: &Checkpoint) -> String {
    let mut out = format!("{}, {}", checkpoint.seq, count(checkpoint.generation.instances));
    if let Some(next) = checkpoint.next {
        let _ = write!(out, ", {} behind {}", next.instances, next.first.previous());
    }
    for (at, part) in checkpoint.instances.iter().enumerate() {
        let _ = write!(out, "\ni{}  {}, record {}", at + 1, part.slot, part.record.0);
        if part.offset > 0 {
            let _ = write!(out, " and {} slots of the next", part.offset);
        }
    }
    out
}

fn status(merge: &Merge<Batch>, out: &mut String) {
    let (status, counts) = (merge.status(Time::ZERO), merge.counts());
    let percent = counts.noop_share() * 100.0;
    let _ = writeln!(out, "{}, skew {}, {percent:.0} % empty", status.seq, status.skew);
    for part in status.instances {
        let (whom, decided, delivered) = (part.instance, part.decided, part.delivered);
        let _ = writeln!(out, "{whom}  decided {decided}, delivered {delivered}, {} bytes", part.held_bytes);
    }
}
