//! An ensemble of ZooKeeper: servers on loopback that sync every write. Dropping it removes the processes and their data.

use crate::bench::interrupt;
use crate::bench::temporary::{addresses, sweep};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The beginning of its directories' names; the id of this process and the ensemble's number follow.
const PREFIX: &str = "zookeeper-";
static STARTED: AtomicU32 = AtomicU32::new(0);

/// The processes and their directory.
pub(in crate::bench) struct Peer {
    children: Vec<Child>,
    /// The addresses for clients.
    pub(super) addresses: Vec<String>,
    directory: PathBuf,
}

impl Peer {
    /// Starts this number of servers, each a process that ends with this one. Call it from the main thread.
    pub(in crate::bench) fn start(jars: &Path, scratch: &Path, servers: u16) -> Outcome<Self> {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        if number == 0 {
            sweep(scratch, PREFIX);
        }
        let directory = scratch.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir_all(&directory).doing(format_args!("make {}", directory.display()))?;
        let directory = directory.canonicalize().doing("find the directory")?;
        let count = usize::from(servers);
        let mut clients = addresses(3 * count)?;
        let mut peers = clients.split_off(count);
        let elections = peers.split_off(count);
        let mut made = Self { children: Vec::new(), addresses: clients, directory };
        let port = |address: &str| address.rsplit_once(':').map_or("", |(_, port)| port).to_owned();
        let mut common = String::from(
            "tickTime=2000\ninitLimit=10\nsyncLimit=5\nadmin.enableServer=false\nmaxClientCnxns=0\nforceSync=yes\n\
             globalOutstandingLimit=10000\nclientPortAddress=127.0.0.1\n",
        );
        // A server alone has no others to name.
        let members = peers.iter().zip(&elections).filter(|_| servers > 1);
        for (id, (peer, election)) in (1..).zip(members) {
            let _ = writeln!(common, "server.{id}=127.0.0.1:{}:{}", port(peer), port(election));
        }
        for (id, client) in (1..).zip(made.addresses.clone()) {
            let data = made.directory.join(format!("server-{id}"));
            fs::create_dir_all(&data).doing(format_args!("make {}", data.display()))?;
            let own = format!("{common}dataDir={}\nclientPort={}\n", data.display(), port(&client));
            let config = made.directory.join(format!("{id}.cfg"));
            fs::write(data.join("myid"), id.to_string()).doing("write an id")?;
            fs::write(&config, own).doing(format_args!("write {}", config.display()))?;
            let log = made.directory.join(format!("log-{id}.txt"));
            let log = File::create(&log).doing(format_args!("write {}", log.display()))?;
            let own = std::env::current_exe().doing("find this program's own file")?;
            let child = Command::new(own)
                .args(["bench", "member", "--parent", &std::process::id().to_string(), "java", "--"])
                .args(["-Xmx1g", "-cp", &format!("{}/*", jars.display())])
                .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
                .arg(&config)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .doing("start a server of ZooKeeper")?;
            made.children.push(child);
        }
        Ok(made)
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    /// Fails when a server has ended.
    pub(super) fn check(&mut self) -> Outcome<()> {
        interrupt::check()?;
        for (id, child) in (1..).zip(&mut self.children) {
            if let Ok(Some(status)) = child.try_wait() {
                let log =
                    fs::read_to_string(self.directory.join(format!("log-{id}.txt"))).unwrap_or_default();
                let last = log.lines().last().unwrap_or_default();
                return Err(Failure::new(format!(
                    "server {id} of ZooKeeper ended by itself ({status}): {last}; --jars names the folder of its jars"
                )));
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
