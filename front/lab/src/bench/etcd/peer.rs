//! A cluster of etcd: members on loopback that sync every write. Dropping it removes the processes and their data.

use crate::bench::interrupt;
use crate::bench::temporary::{addresses, sweep};
use quorate::program::die_with_parent;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The beginning of its directories' names; the id of this process and the cluster's number follow.
const PREFIX: &str = "etcd-";
static STARTED: AtomicU32 = AtomicU32::new(0);
/// The limit of etcd's store, so large that no run reaches it.
const QUOTA_BYTES: u64 = 8 << 30;

/// The processes and their directory.
pub(in crate::bench) struct Peer {
    children: Vec<Child>,
    /// The addresses for clients.
    pub(super) addresses: Vec<String>,
    directory: PathBuf,
}

/// A process that ends with the one that started it, and becomes the program that it is told.
#[derive(Debug, clap::Args)]
pub(in crate::bench) struct MemberArgs {
    #[arg(long)]
    parent: u32,
    program: PathBuf,
    #[arg(last = true)]
    arguments: Vec<OsString>,
}

pub(in crate::bench) fn become_member(args: &MemberArgs) -> Outcome {
    die_with_parent(args.parent).doing("end with the process that started this one")?;
    let why = Command::new(&args.program).args(&args.arguments).exec();
    Err(Failure::new(format!(
        "can not start {}: {why}; is it installed, and does --etcd or --program name it?",
        args.program.display()
    )))
}

impl Peer {
    /// Starts this number of members, each a process that ends with this one. Call it from the main thread.
    pub(in crate::bench) fn start(program: &Path, scratch: &Path, members: u16) -> Outcome<Self> {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        if number == 0 {
            sweep(scratch, PREFIX);
        }
        let directory = scratch.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir_all(&directory).doing(format_args!("make {}", directory.display()))?;
        let mut clients = addresses(2 * usize::from(members))?;
        let peers = clients.split_off(usize::from(members));
        let cluster: Vec<String> =
            (1..).zip(&peers).map(|(id, peer)| format!("m{id}=http://{peer}")).collect();
        let mut made = Self { children: Vec::new(), addresses: clients, directory };
        for (id, (client, peer)) in (1..).zip(made.addresses.iter().zip(&peers)) {
            let log = made.directory.join(format!("log-{id}.txt"));
            let log = File::create(&log).doing(format_args!("write {}", log.display()))?;
            let [client, peer] = [client, peer].map(|address| format!("http://{address}"));
            let own = std::env::current_exe().doing("find this program's own file")?;
            let child = Command::new(own)
                .args(["bench", "member", "--parent", &std::process::id().to_string()])
                .arg(program)
                .arg("--")
                .arg("--data-dir")
                .arg(made.directory.join(format!("m{id}")))
                .args(["--name", &format!("m{id}"), "--log-level", "error"])
                .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &cluster.join(","), "--initial-cluster-state", "new"])
                .args(["--quota-backend-bytes", &QUOTA_BYTES.to_string()])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .doing("start a member of etcd")?;
            made.children.push(child);
        }
        Ok(made)
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    /// Fails when a member has ended.
    pub(super) fn check(&mut self) -> Outcome<()> {
        interrupt::check()?;
        for (id, child) in (1..).zip(&mut self.children) {
            if let Ok(Some(status)) = child.try_wait() {
                let log =
                    fs::read_to_string(self.directory.join(format!("log-{id}.txt"))).unwrap_or_default();
                let last = log.lines().last().unwrap_or_default();
                return Err(Failure::new(format!("member {id} of etcd ended by itself ({status}): {last}")));
            }
        }
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        // Files left behind are removed by the next benchmark.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
