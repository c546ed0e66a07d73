//! `quorate dev`: a whole cluster on this machine in one command.
//!
//! It supervises `serve` processes, which end when it ends. `directory` makes and keeps the files, `children` the processes; `quorate
//! chaos` talks to it through the socket of `crate::control`. One thread starts and stops all processes, since each ends with the thread
//! that started it; other threads send it events. Tests: tests/smoke.rs.

mod children;
mod directory;
mod export;
mod logs;
mod program;
mod rot;

pub(crate) use directory::{LOCK, adopt, free_ports};

use crate::control::{self, Request, Response, SOCKET};
use crate::env;
use crate::set::SetArgs;
use crate::web::Shown;
use children::{Children, Death};
use directory::{Choices, DevDirectory};
use program::Program;
use quorate::program::die_with_parent;
use quorate_command::admin::{self, Admin, Answer};
use quorate_command::arguments;
use quorate_command::cluster::{CLIENT_FILE, Cluster, DEV_DIRECTORY, dir_option};
use quorate_command::execution::ExecutionArgs;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::{self, DurabilityChoice, ServiceArg, ServiceChoice, parse_service};
use quorate_command::oracle::{OWN, OWN_REPLICAS};
use quorate_command::ordering::OrderArgs;
use quorate_command::print;
use quorate_types::ReplicaId;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Run a whole cluster on this machine.
///
/// Starts the replicas as processes of their own, waits until one of them leads, says where everything is, and stays until
/// Ctrl-C, which is always safe. The data stays in the directory, and the next start goes on with it.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  quorate dev                                    three replicas, durable, data in ./.quorate/dev
  quorate dev --service kv                       without clients of etcd, for `quorate bench kv`
  quorate dev --protocol mod-smart --dir /tmp/smart     another protocol underneath, the same service
  quorate dev --replicas 5 --dir /tmp/five       another cluster beside it
  quorate dev --fresh --durability memory        throw the data away; start over without a disk
  quorate dev -- ./my-service                    a service of your own

In another terminal:
  quorate status                                 how it is
  quorate kv put greeting hello                  write and read
  quorate chaos kill leader                      see how long writes stall"
)]
pub(crate) struct Args {
    /// How many replicas [default: 3; 4 with byzantine faults]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    replicas: Option<u16>,
    /// Where the data is
    #[arg(long, value_name = "DIR", default_value = DEV_DIRECTORY)]
    dir: PathBuf,
    /// When a write counts as durable [default: group]
    #[arg(long, value_enum)]
    durability: Option<DurabilityChoice>,
    #[command(flatten)]
    order: OrderArgs,
    /// How many ordering instances share the work [default: 1]
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u16).range(1..=64))]
    instances: Option<u16>,
    /// How many threads of each replica share the work of its connections [default: 1]
    #[arg(long, value_name = "LANES", value_parser = clap::value_parser!(u16).range(1..=64))]
    lanes: Option<u16>,
    /// Which service the replicas run: kv, etcd, zookeeper, oracle, tally, echo, work, shop or lists; with a program of your own any other
    /// NAME, if the program does not say it [default: etcd, which `quorate kv` and clients of etcd use]
    #[arg(long, value_name = "NAME", value_parser = parse_service)]
    service: Option<ServiceArg>,
    #[command(flatten)]
    execution: ExecutionArgs,
    /// The first port; the other replicas take the ones after it, then clients of etcd [default: free ones]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=65_000))]
    port_base: Option<u16>,
    /// Without certificates and encryption: replicas listen on this machine only, but any process on it may do everything
    #[arg(long)]
    plain: bool,
    #[command(flatten)]
    set: SetArgs,
    /// Where the dashboard is [default: 127.0.0.1:7979, or a free port there]
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "no_web")]
    web: Option<String>,
    /// Without the dashboard
    #[arg(long)]
    no_web: bool,
    /// Throw away what a former `quorate dev` left in the directory
    #[arg(long)]
    fresh: bool,
    /// Print one JSON document when the cluster is ready, for programs
    #[arg(long)]
    json: bool,
    /// End with the process that has this id: for `quorate demo`
    #[arg(long, value_name = "PID", hide = true, require_equals = true)]
    die_with_parent: Option<u32>,
    /// A program of your own that runs the replicas: it is started with the configuration of each as its last argument, and says with --service
    /// which service it is, as a main that calls `quorate::run(service)` does
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Export(export::Args),
}

/// An event for the supervising thread.
enum Event {
    /// A signal came.
    Signal(i32),
    /// A request came on the control socket; the sender waits there.
    Asked(Request, UnixStream),
}

/// How often the length of logs is checked.
const HOUSEKEEPING: Duration = Duration::from_secs(5);
/// How often to check whether the cluster is ready.
const LOOK: Duration = Duration::from_millis(10);
/// How long the cluster may be without a leader before a notice is printed.
const SLOW: Duration = Duration::from_secs(10);

pub(crate) fn run(args: Args) -> Outcome {
    if let Some(Command::Export(args)) = &args.command {
        return export::run(args);
    }
    if let Some(parent) = args.die_with_parent {
        die_with_parent(parent).doing("end with the process that started this one")?;
    }
    let started = Instant::now();
    let (events, inbox) = channel();
    // Before there are processes to be orphaned.
    listen_to_signals(events.clone())?;
    let directory = directory::open(&args)?;
    let model = directory.choices.order.fault_model;
    let (may_lie, few) = (model.may_lie(), model.few_are_slow());
    let on_disk = directory.choices.durability != DurabilityChoice::Memory;
    let ids = directory.cluster.members.iter().map(|(replica, _)| replica.number());
    let mut dev = Dev {
        admin: Admin::new(&directory.cluster)?,
        children: Children::new(&args.dir, ids, (may_lie, on_disk), Program::of(&args.program).as_ref()),
        oracle: few.then(|| Children::new(&args.dir.join(OWN), 1..=OWN_REPLICAS, (false, true), None)),
        directory,
        args,
        web: None,
    };
    listen_to_requests(&dev, events)?;
    if !dev.args.no_web {
        dev.web = Some(Shown::start(&dev.directory.cluster, dev.args.web.as_deref())?);
    }
    dev.oracle.iter_mut().try_for_each(Children::start)?;
    dev.children.start()?;
    let ended = dev.supervise(started, &inbox);
    dev.children.stop();
    dev.oracle.iter_mut().for_each(Children::stop);
    let _ = std::fs::remove_file(dev.directory.cluster.directory.join(SOCKET));
    ended?;
    if !dev.args.json {
        let (shown, dir) = (dev.args.dir.display(), dir_option(&dev.args.dir));
        let stays =
            format!("stopped; the data is in {shown}, and the next `quorate dev{dir}` goes on with it");
        let _ = print::line(if on_disk { stays } else { "stopped; nothing was on a disk".to_owned() });
    }
    Ok(ExitCode::SUCCESS)
}

/// These replicas, for a sentence.
fn named(replicas: &[u16]) -> String {
    let list: Vec<String> = replicas.iter().map(u16::to_string).collect();
    format!("{} {}", if list.len() == 1 { "replica" } else { "replicas" }, list.join(", "))
}

struct Dev {
    directory: DevDirectory,
    children: Children,
    /// The cluster that decides between halves of the replicas, where few of them are slow.
    oracle: Option<Children>,
    admin: Admin,
    args: Args,
    /// The dashboard.
    web: Option<Shown>,
}

impl Dev {
    /// Handles events until one says to end.
    fn supervise(&mut self, started: Instant, inbox: &Receiver<Event>) -> Outcome<()> {
        if !self.wait_until_ready(started, inbox)? {
            return Ok(());
        }
        loop {
            match inbox.recv_timeout(HOUSEKEEPING) {
                Ok(event) => {
                    if self.on_event(event) {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.children.bound_logs();
                    self.oracle.iter().for_each(Children::bound_logs);
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    /// Waits until the cluster is ready. `false` when told to end.
    fn wait_until_ready(&mut self, started: Instant, inbox: &Receiver<Event>) -> Outcome<bool> {
        let mut told = false;
        loop {
            if let Ok(event) = inbox.recv_timeout(LOOK)
                && self.on_event(event)
            {
                return Ok(false);
            }
            let majority = self.directory.cluster.majority();
            if self.children.up() < majority {
                return Err(Failure::new(format!(
                    "fewer than {majority} replicas are left, so the cluster can not start; why they ended stands above"
                )));
            }
            let ended = self.children.ended();
            if self.directory.made && !ended.is_empty() {
                return Err(Failure::new(format!(
                    "a new cluster begins only with all its replicas, and {} ended; why stands above. Do what it says, then start \
                     `quorate dev{}` again",
                    named(&ended),
                    dir_option(&self.args.dir)
                )));
            }
            let answers = self.admin.ask_all();
            if let Some(leader) = admin::leader(&answers)
                && admin::followers_of(&answers, leader) >= majority
                && fronts_listen(&answers)
            {
                self.announce(started.elapsed(), leader, &answers)?;
                return Ok(true);
            }
            if !told && started.elapsed() > SLOW {
                told = true;
                let logs = self.args.dir.join("replica-*").join("log.txt");
                let down = match ended.as_slice() {
                    [] => String::new(),
                    ended => format!(
                        "{} ended; if this cluster never worked, it begins only with all its replicas. ",
                        named(ended)
                    ),
                };
                eprintln!(
                    "still no leader after {} s. {down}What the replicas say is in {}",
                    SLOW.as_secs(),
                    logs.display()
                );
            }
        }
    }

    /// Handles an event. Says whether it is time to end.
    fn on_event(&mut self, event: Event) -> bool {
        match event {
            Event::Signal(SIGCHLD) => {
                for death in self.children.deaths() {
                    eprintln!("{}", self.told(&death));
                }
                for death in self.oracle.iter_mut().flat_map(Children::deaths) {
                    eprintln!(
                        "replica {} of the oracle ended by itself ({}). The end of its log, {}:\n{}All start again with the next `quorate dev`",
                        death.replica,
                        ending(death.status),
                        death.log.display(),
                        death.tail
                    );
                }
                false
            }
            Event::Signal(_) => true,
            Event::Asked(request, stream) => {
                let response = match self.children.act(request.action, &request.replicas) {
                    Ok(done) => Response::Done(done),
                    Err(why) => Response::Error(why.to_string()),
                };
                // The asking process may be gone.
                let _ = control::write_line(&stream, &response);
                false
            }
        }
    }

    /// What a person must know of a replica that ended on its own.
    fn told(&self, death: &Death) -> String {
        let (replica, log, how) = (death.replica, death.log.display(), ending(death.status));
        let (why, then) = match &death.error {
            Some(why) => (format!(": {why}"), "Do what it says, then start it again"),
            None => (String::new(), "Start it again"),
        };
        format!(
            "replica {replica} ended by itself ({how}){why}. The end of its log, {log}:\n{}{then} with `quorate chaos restart {replica}{}`",
            death.tail,
            dir_option(&self.args.dir)
        )
    }

    fn announce(&self, after: Duration, leader: ReplicaId, answers: &[Answer]) -> Outcome<()> {
        let text = if self.args.json {
            self.ready_json(after, leader, answers)
        } else {
            self.ready_text(after, leader, answers)
        };
        print::line(text).map(|_| ())
    }

    fn ready_json(&self, after: Duration, leader: ReplicaId, answers: &[Answer]) -> String {
        let directory = &self.directory.cluster.directory;
        let replicas: Vec<serde_json::Value> = self
            .children
            .reports()
            .into_iter()
            .zip(&self.directory.cluster.members)
            .map(|(report, (replica, address))| {
                let place = layout::replica_directory(directory, replica.number());
                serde_json::json!({
                    "replica": replica.number(),
                    "address": address,
                    "pid": report.pid,
                    "directory": place,
                })
            })
            .collect();
        serde_json::json!({
            "ready_ms": after.as_millis() as u64,
            "cluster": self.directory.cluster.id.to_string(),
            "leader": leader.number(),
            "protocol": self.directory.choices.order.protocol,
            "fault_model": self.directory.choices.order.fault_model.to_string(),
            "durability": self.directory.choices.durability,
            "service": self.directory.choices.service_name(),
            "etcd": admin::front("etcd", answers),
            "zookeeper": admin::front("zookeeper", answers),
            "dir": directory,
            "client_config": directory.join(CLIENT_FILE),
            "control_socket": directory.join(SOCKET),
            "dashboard": self.web.as_ref().map(|web| &web.address),
            "pid": std::process::id(),
            "replicas": replicas,
        })
        .to_string()
    }

    fn ready_text(&self, after: Duration, leader: ReplicaId, answers: &[Answer]) -> String {
        let DevDirectory { cluster, choices, made, .. } = &self.directory;
        let mut text = format!("ready in {} ms: {} replicas", after.as_millis(), cluster.members.len());
        let dir = dir_option(&self.args.dir);
        text.push_str(if *made { "\n" } else { ", with the data of the run before\n" });
        if !*made {
            let _ = writeln!(
                text,
                "made before: {} replicas, {}; `quorate dev{dir} --fresh` throws it away and makes a new one",
                choices.replicas, choices.order
            );
        }
        cluster.spare().into_iter().for_each(|spare| text.push_str(&format!("{spare}\n")));
        for (replica, address) in &cluster.members {
            let role = if *replica == leader { "  leader" } else { "" };
            let _ = writeln!(text, "  replica {:<3} {address}{role}", replica.number());
        }
        let shown = self.args.dir.display();
        let _ = write!(
            text,
            "agreement    {}\ndurability   {}\nservice      {}\ndata         {shown}\nclients      {shown}/{CLIENT_FILE}\n{}\nIn another terminal:\n",
            choices.order,
            arguments::name(choices.durability),
            choices.service_name(),
            self.web.as_ref().map_or(String::new(), |web| format!("dashboard    {}\n", web.address)),
        );
        if self.oracle.is_some() {
            let _ = writeln!(
                text,
                "  quorate {:<40} the cluster that decides between halves",
                format!("status --dir {shown}/{OWN}")
            );
        }
        for (command, what) in [("status", "how it is"), ("chaos kill leader", "how long writes stall")] {
            let _ = writeln!(text, "  quorate {:<40} {what}", format!("{command}{dir}"));
        }
        let without_kv = [ServiceChoice::Tally, ServiceChoice::Zookeeper].contains(&choices.service);
        if choices.own_service.is_none() && !without_kv {
            let _ = writeln!(text, "  quorate {:<40} write", format!("kv put greeting hello{dir}"));
            let _ = writeln!(text, "  quorate {:<40} read", format!("kv get greeting{dir}"));
        }
        text.push_str(&clients_of_others(cluster, choices, answers, &dir));
        text.push_str("Ctrl-C stops it; the data stays.");
        text
    }
}

/// Whether the fronts of all replicas that answer can be connected to: they start after their replica, which may lead by then.
fn fronts_listen(answers: &[Answer]) -> bool {
    let addresses = ["etcd", "zookeeper"].iter().flat_map(|name| admin::front(name, answers));
    addresses.into_iter().all(|address| TcpStream::connect(address).is_ok())
}

/// How clients of etcd and of ZooKeeper reach the cluster.
fn clients_of_others(cluster: &Cluster, choices: &Choices, answers: &[Answer], dir: &str) -> String {
    let (etcd, zookeeper) = (env::of_etcd(cluster, answers), admin::front("zookeeper", answers));
    let mut text = String::new();
    if !etcd.is_empty() {
        let _ = writeln!(
            text,
            "\nFor etcdctl and other clients of etcd (`eval \"$(quorate env{dir})\"` sets this):"
        );
        for (name, value) in etcd {
            let _ = writeln!(text, "  export {name}={value}");
        }
        if choices.order.fault_model.may_lie() {
            text.push_str(ETCD_TRUST);
        }
        text.push('\n');
    }
    if !zookeeper.is_empty() {
        let servers = zookeeper.join(",");
        let _ = writeln!(text, "\nFor clients of ZooKeeper:\n  zkCli.sh -server {servers}\n");
    }
    text
}

/// What clients of etcd may believe where replicas may lie.
const ETCD_TRUST: &str = "\
A client of etcd believes the one replica that it asks: a liar can tell it anything, drop or alter what it asks for, and write in
anybody's name. The others go on, and stay equal. Clients of Quorate's own protocol (`quorate kv` with the service kv) believe f+1 alike.
";

fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "for no known reason".into(),
    }
}

fn listen_to_signals(events: Sender<Event>) -> Outcome<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCHLD])
        .doing("take notice of signals")?;
    let run = move || signals.forever().for_each(|signal| drop(events.send(Event::Signal(signal))));
    std::thread::Builder::new().name("signals".into()).spawn(run).doing("start a thread").map(drop)
}

fn listen_to_requests(dev: &Dev, events: Sender<Event>) -> Outcome<()> {
    let directory = &dev.directory.cluster.directory;
    let listener =
        control::listen(directory).doing(format_args!("listen on {}", directory.join(SOCKET).display()))?;
    let run = move || {
        for stream in listener.incoming().flatten() {
            // A process that connects and sends nothing must not keep others waiting for long.
            let heard = stream.set_read_timeout(Some(Duration::from_secs(1)));
            match heard.and_then(|()| control::read_line::<Request>(&stream)) {
                Ok(Some(request)) => drop(events.send(Event::Asked(request, stream))),
                Ok(None) => {}
                Err(why) => {
                    let _ = control::write_line(&stream, &Response::Error(format!("not a request: {why}")));
                }
            }
        }
    };
    std::thread::Builder::new().name("control".into()).spawn(run).doing("start a thread").map(drop)
}
