//! `quorate bench`: how fast a cluster is, and how fast the machine would allow it to be.
//!
//! A benchmark starts three replicas of its own, which are processes of this program, or uses a running cluster. Each figure is shown
//! beside that of the null program (`bench floor`) from the same command. The two run in turns, since the machine's other work changes from
//! minute to minute.
//!
//! Files: `options` (the command line), `temporary` (the replicas), `events` (what happens to them), `operator` (changes of their members), `lists` (clients that know every answer), `load` and `paced` (the load generators, as much as goes and at a given rate), `quota` (limits of lanes), `nets` (limits of links), `append`, `kv`, `latency`, `bft`, `idle`,
//! `floor`, `gate`, `etcd`, `zookeeper`, `compare`, `hostile`, `instances`, `stages`, `model` (one benchmark each), `table` (many of them, in turns), `pulse` (a part of `idle`), `figure` (figures of papers, measured and drawn), `draw` (pages and charts), `output` (text, JSON, pages), `series` (floor and ours in turns), `median`, `interrupt` (Ctrl-C), `cpu` (what the system says),
//! `report` (what people see). Tests: front/cli/tests.

mod append;
mod bft;
mod compare;
mod cpu;
mod draw;
mod etcd;
mod events;
mod figure;
mod floor;
mod gate;
mod hostile;
mod idle;
mod instances;
mod interrupt;
mod kv;
mod latency;
mod lists;
mod load;
mod median;
mod model;
mod nets;
mod operator;
mod options;
mod output;
mod paced;
mod pulse;
mod quota;
mod report;
mod series;
mod signatures;
mod stages;
mod table;
mod target;
mod temporary;
#[cfg(test)]
mod tests;
mod zookeeper;

pub(crate) use figure::replies;
pub use options::Args;

use options::Command;
use output::Output;
use quorate_command::failure::Outcome;

/// Becomes the null program and does not return, if `bench floor` started this process for that. Must be called before anything else.
pub fn null_program() {
    quorate_floor::maybe_child();
}

/// Runs one benchmark and prints its result.
///
/// # Errors
/// When it could not be run. A bad result is no error but an exit code.
pub fn run(args: Args) -> Outcome {
    let output = Output::new(args.json, args.plot.as_deref())?;
    match args.command {
        Command::Append(append) => append::run(&append, &output),
        Command::Etcd(etcd) => etcd::run(&etcd, &output),
        Command::Zookeeper(zookeeper) => zookeeper::run(&zookeeper, &output),
        Command::Compare(compare) => compare::run(&compare, &output),
        Command::Member(member) => etcd::become_member(&member),
        Command::Kv(kv) => kv::run(&kv, &output),
        Command::Latency(latency) => latency::run(&latency, &output),
        Command::Bft(bft) => bft::run(&bft, &output),
        Command::Floor(floor) => floor::run(&floor, &output),
        Command::Idle(idle) => idle::run(&idle, &output),
        Command::Instances(instances) => instances::run(&instances, &output),
        Command::Stages(stages) => stages::run(&stages, &output),
        Command::Model(model) => model::run(&model, &output),
        Command::Table(table) => table::run(&table, &output),
        Command::Hostile(hostile) => hostile::run(&hostile, &output),
        Command::Gate(gate) => gate::run(&gate, &output),
        Command::Trip(trip) => gate::make_trip(&trip),
        Command::Crowd(crowd) => hostile::crowd(&crowd),
        Command::Figure(figure) => figure::run(&figure, &output),
    }
}
