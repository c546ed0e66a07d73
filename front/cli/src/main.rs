//! The program `quorate`: a local cluster in one command, replicas, status, the key-value commands, faults on request, simulations.
//!
//! `demo` is the tour for who sees it for the first time. Each command for operators is a module with its arguments and a function `run`. `bench`, `sim` and the code that makes replicas lie are
//! the laboratory (`front/lab`); what commands share is in `front/command`. `control` is the socket between `chaos` and `dev`.
//! Tests with real processes: tests/.

mod admin;
mod backup;
mod beginning;
mod cert;
mod chaos;
mod control;
mod demo;
mod dev;
mod doctor;
mod drain;
mod env;
mod etcd;
mod evidence;
mod faults;
mod fronts;
mod health;
mod init;
mod instances;
mod kv;
mod lanes;
mod man;
mod member;
mod new;
mod problems;
mod restart;
mod scrub;
mod serve;
mod services;
mod set;
mod status;
mod top;
mod upgrade;
mod web;
mod zookeeper;

use clap::{CommandFactory as _, Parser, Subcommand};
use quorate_command::{failure, print};
use quorate_lab::{bench, sim};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Replication for any deterministic service: commands run on several replicas, in one order, exactly once.
#[derive(Debug, Parser)]
#[command(
    name = "quorate",
    version,
    propagate_version = true,
    after_help = "First steps:
  quorate demo                      two minutes that show what this is
  quorate dev                       a cluster on this machine; leave it running
  quorate status                    in another terminal: how it is
  quorate top                       the same, live
  quorate kv put greeting hello     write, and read with `quorate kv get greeting`
  quorate chaos kill leader         see how long writes stall
  quorate doctor                    what this machine and its disk allow

Commands find the cluster by --dir, --config, the environment variable QUORATE_CONFIG, then ./.quorate/dev.
Exit codes: 0 success, 1 failure, 2 wrong command line or configuration."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Admin(admin::Args),
    Dev(dev::Args),
    New(new::Args),
    Init(init::Args),
    Cert(cert::Args),
    Serve(serve::Args),
    Status(status::Args),
    Top(top::Args),
    Env(env::Args),
    Web(web::Args),
    Health(health::Args),
    Doctor(doctor::Args),
    Kv(kv::Args),
    Member(member::Args),
    Upgrade(upgrade::Args),
    Instances(instances::Args),
    Faults(faults::Args),
    Lanes(lanes::Args),
    Backup(backup::Args),
    Etcd(etcd::Args),
    Zookeeper(zookeeper::Args),
    Evidence(evidence::Args),
    Scrub(scrub::Args),
    Drain(drain::Args),
    Restart(restart::Args),
    Chaos(chaos::Args),
    Bench(Box<bench::Args>),
    Sim(sim::Args),
    Completions(CompletionsArgs),
    Man(man::Args),
}

/// Print the completions for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate completions bash > ~/.local/share/bash-completion/completions/quorate
  quorate completions zsh > ~/.zfunc/_quorate
  quorate completions fish > ~/.config/fish/completions/quorate.fish")]
struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

fn main() -> ExitCode {
    // `bench floor` starts this program again as the null program.
    bench::null_program();
    let ended = match Cli::parse().command {
        Command::Demo(args) => demo::run(args),
        Command::Admin(args) => admin::run(args),
        Command::Dev(args) => dev::run(args),
        Command::New(args) => new::run(&args),
        Command::Init(args) => init::run(args),
        Command::Cert(args) => cert::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Status(args) => status::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Env(args) => env::run(&args),
        Command::Web(args) => web::run(&args),
        Command::Health(args) => health::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Kv(args) => kv::run(args),
        Command::Member(args) => member::run(args),
        Command::Upgrade(args) => upgrade::run(args),
        Command::Instances(args) => instances::run(args),
        Command::Faults(args) => faults::run(args),
        Command::Lanes(args) => lanes::run(&args),
        Command::Backup(args) => backup::run(args),
        Command::Etcd(args) => etcd::run(args),
        Command::Zookeeper(args) => zookeeper::run(args),
        Command::Evidence(args) => evidence::run(&args),
        Command::Scrub(args) => scrub::run(&args),
        Command::Drain(args) => drain::run(&args),
        Command::Restart(args) => restart::run(&args),
        Command::Chaos(args) => chaos::run(&args),
        Command::Bench(args) => bench::run(*args),
        Command::Sim(args) => sim::run(args),
        Command::Completions(args) => completions(args.shell),
        Command::Man(args) => man::run(&args, Cli::command()),
    };
    ended.unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        failure.code()
    })
}

fn completions(shell: clap_complete::Shell) -> failure::Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "quorate", &mut script);
    print::bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}
