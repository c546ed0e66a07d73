//! A network of limited links on one machine, for measurements in which links are the limit.
//!
//! Each replica gets a network namespace of its own. One pair of virtual cards per link joins it to a bridge for that link; `tc tbf` limits
//! both directions of each pair. The bridges lie in the namespace of this process, so the process first starts itself again in a new
//! namespace. Everything disappears with the last process in it. The load generator is on the bridges, so its traffic is not limited.

use quorate_command::failure::{Doing as _, Failure, Outcome};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The argument of a process that runs inside the namespace already.
pub(super) const INSIDE: &str = "--inside-network";
/// The port of replicas, on all links.
const PORT: u16 = 7000;
/// The most links; there are no addresses for more.
pub(super) const LINKS_MAX: u16 = 16;
/// How many bytes a link passes at once, and how many may wait.
const BURST: &str = "256kb";
const WAITS: &str = "100ms";
/// How long a process may take to be in its namespace.
const START: Duration = Duration::from_secs(5);
/// The programs that are needed.
const TOOLS: [&str; 4] = ["unshare", "nsenter", "ip", "tc"];

/// The links; each carries the same number of Mbit per second.
pub(super) struct Nets {
    links: u16,
    mbit: u32,
}

/// Starts this program again in a network of its own. Returns only when that is not possible, with the reason.
pub(super) fn enter() -> Failure {
    if let Err(why) = tools() {
        return why;
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(why) => return Failure::new(format!("can not find this program's own file: {why}")),
    };
    let why = Command::new("unshare")
        .args(["--net", "--"])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .arg(INSIDE)
        .exec();
    missing(&format!("can not start in a network of its own: {why}"))
}

/// Checks for all programs before minutes of measuring.
fn tools() -> Outcome<()> {
    for tool in TOOLS {
        let there = std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join(tool).is_file()));
        if !there {
            return Err(missing(&format!("there is no `{tool}` here")));
        }
    }
    run(&mut tool("unshare", &["--net", "true"])).map_err(|why| missing(&why.to_string()))
}

fn missing(why: &str) -> Failure {
    Failure::new(format!(
        "{why}; this figure limits links: run it as root on a Linux machine with util-linux and iproute2, whose kernel has network \
         namespaces, veth, bridges and tbf"
    ))
}

impl Nets {
    /// Makes the bridges, in the namespace of this process.
    pub(super) fn new(links: u16, mbit: u32) -> Outcome<Self> {
        for link in 0..links {
            let (bridge, address) = (bridge(link), format!("{}/24", host(link, 254)));
            // What the measurement before this one left is the same.
            if Path::new("/proc/sys/net/ipv4/conf").join(&bridge).exists() {
                continue;
            }
            ip(&["link", "add", &bridge, "type", "bridge"])?;
            ip(&["addr", "add", &address, "dev", &bridge])?;
            ip(&["link", "set", &bridge, "up"])?;
        }
        ip(&["link", "set", "lo", "up"])?;
        // Replicas of the measurement before had the same addresses, on other cards.
        ip(&["neighbour", "flush", "all"])?;
        Ok(Self { links, mbit })
    }

    /// The address of a replica on a link.
    pub(super) fn address(&self, replica: u16, link: u16) -> String {
        format!("{}:{PORT}", host(link % self.links, replica))
    }

    pub(super) fn links(&self) -> u16 {
        self.links
    }

    /// Changes a replica's configuration: it listens on all links, and the second lane's connections take the first link.
    pub(super) fn configure(&self, config: &mut toml::Table) {
        config.insert("listen".into(), format!("0.0.0.0:{PORT}").into());
        let members = config.get_mut("members").and_then(toml::Value::as_array_mut);
        for member in members.into_iter().flatten().filter_map(toml::Value::as_table_mut) {
            let id = member.get("replica").and_then(toml::Value::as_integer);
            let id = id.and_then(|id| u16::try_from(id).ok()).unwrap_or_default();
            let links = (0..self.links).map(|link| self.address(id, link).into());
            member.insert("links".into(), toml::Value::Array(links.collect()));
        }
    }

    /// Starts a replica's program in a namespace of its own with its links. The process waits in a shell until the links are there.
    pub(super) fn spawn(
        &self,
        replica: u16,
        program: &Path,
        shape: impl FnOnce(&mut Command),
    ) -> Outcome<Child> {
        let mut command = tool("unshare", &["--net", "--", "sh", "-c", "read go && exec \"$@\"", "sh"]);
        command.arg(program);
        shape(&mut command);
        let mut child =
            command.stdin(Stdio::piped()).spawn().doing("start a replica in a network of its own")?;
        let made = self.attach(replica, child.id());
        let go = child.stdin.take().map(|mut stdin| std::io::Write::write_all(&mut stdin, b"go\n"));
        match (made, go) {
            (Ok(()), Some(Ok(()))) => Ok(child),
            (made, _) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(made.err().unwrap_or_else(|| missing("a replica ended in a network of its own")))
            }
        }
    }

    fn attach(&self, replica: u16, process: u32) -> Outcome<()> {
        let own = fs::read_link("/proc/self/ns/net").doing("find this process's network")?;
        let until = Instant::now() + START;
        while fs::read_link(format!("/proc/{process}/ns/net")).doing("find a replica's network")? == own {
            if Instant::now() >= until {
                return Err(missing("a process does not get a network of its own"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let (process, rate) = (process.to_string(), format!("{}mbit", self.mbit));
        let inside = |name: &str, arguments: &[&str]| {
            run(tool("nsenter", &["--net", "--target", &process, "--", name]).args(arguments))
        };
        inside("ip", &["link", "set", "lo", "up"])?;
        for link in 0..self.links {
            let (here, there) = (format!("q{replica}h{link}"), format!("q{replica}r{link}"));
            let bridge = bridge(link);
            ip(&["link", "add", &here, "type", "veth", "peer", "name", &there, "netns", &process])?;
            ip(&["link", "set", &here, "master", &bridge, "up"])?;
            run(&mut tool("tc", &limit(&here, &rate)))?;
            inside("ip", &["addr", "add", &format!("{}/24", host(link, replica)), "dev", &there])?;
            inside("ip", &["link", "set", &there, "up"])?;
            inside("tc", &limit(&there, &rate))?;
        }
        Ok(())
    }
}

fn bridge(link: u16) -> String {
    format!("qbridge{link}")
}

/// An address in a link's network.
fn host(link: u16, number: u16) -> String {
    format!("10.77.{link}.{number}")
}

fn limit<'a>(card: &'a str, rate: &'a str) -> [&'a str; 12] {
    ["qdisc", "add", "dev", card, "root", "tbf", "rate", rate, "burst", BURST, "latency", WAITS]
}

fn tool(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments);
    command
}

fn ip(arguments: &[&str]) -> Outcome<()> {
    run(&mut tool("ip", arguments))
}

fn run(command: &mut Command) -> Outcome<()> {
    let doing = format!("{command:?}").replace('"', "");
    let done = command.stdin(Stdio::null()).output().doing(format_args!("run {doing}"))?;
    if done.status.success() {
        return Ok(());
    }
    Err(missing(&format!("`{doing}` failed: {}", String::from_utf8_lossy(&done.stderr).trim())))
}
