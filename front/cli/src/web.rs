//! `quorate web`: the dashboard of a cluster, for an operator; `quorate dev` shows it, too. Tests: `web/tests.rs`.

use crate::control::{self, Action, Request, SOCKET};
use quorate_command::admin::{Admin, Answer};
use quorate_command::cluster::{CLIENT_FILE, Cluster, ClusterArgs};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::{print, random};
use quorate_kit::Running;
use quorate_web::{Act, Source, Verb, Web};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

#[cfg(test)]
mod tests;

/// Where it listens, unless somebody else does.
const ADDRESS: &str = "127.0.0.1:7979";

/// Show a cluster in a browser.
///
/// Prints the address of the page, with a token that the browser keeps, and stays until Ctrl-C. It asks the replicas as `quorate status` does,
/// with the operator's certificate, and only while somebody looks.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate web
  quorate web --config prod/client.toml --listen 127.0.0.1:9000

The page is not encrypted: reach another machine's through a tunnel, as in `ssh -L 7979:127.0.0.1:7979 HOST`.")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Where to listen [default: 127.0.0.1:7979, or a free port there]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Print the address as a JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut signals = Signals::new([SIGINT, SIGTERM]).doing("listen to signals")?;
    let cluster = Cluster::find(&args.cluster)?;
    let shown = Shown::start(&cluster, args.listen.as_deref())?;
    print::line(if args.json {
        json!({ "dashboard": shown.address, "cluster": cluster.id.to_string() }).to_string()
    } else {
        format!("The dashboard of cluster {}:\n  {}\nCtrl-C ends it.", cluster.id, shown.address)
    })?;
    signals.forever().next();
    Ok(ExitCode::SUCCESS)
}

/// A dashboard that runs.
pub(crate) struct Shown {
    /// What to open in a browser. Whoever knows it may see the cluster.
    pub(crate) address: String,
    _running: Running,
}

impl Shown {
    /// Starts the dashboard of this cluster, here or at the usual address.
    ///
    /// # Errors
    /// When it can not listen.
    pub(crate) fn start(cluster: &Cluster, listen: Option<&str>) -> Outcome<Self> {
        let token = format!("{:016x}{:016x}", random::number()?, random::number()?);
        let looks = Arc::new(Looks { seen: Mutex::new((cluster.clone(), Arc::new(Admin::new(cluster)?))) });
        let start = |listen: &str| {
            Web { listen: listen.to_owned(), token: token.clone(), source: looks.clone() }.start()
        };
        let running = match listen {
            Some(listen) if !is_here(listen) => {
                return Err(Failure::usage(format!(
                    "the dashboard is not encrypted, so it listens on this machine only: {listen} is no address of it such as 127.0.0.1:7979. \
                 Reach it from elsewhere through a tunnel, as in `ssh -L 7979:127.0.0.1:7979 HOST`"
                )));
            }
            Some(listen) => start(listen),
            None => start(ADDRESS).or_else(|_| start("127.0.0.1:0")),
        };
        let running = running.map_err(|why| Failure::new(why.to_string()))?;
        let address = format!("http://{}/#token={token}", running.address());
        Ok(Self { address, _running: running })
    }
}

/// Whether only this machine reaches the address.
fn is_here(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host == "localhost" || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Asks replicas how they are, and a `dev` that looks after them to do something to them.
struct Looks {
    /// The cluster as it was seen last, and who asks its replicas.
    seen: Mutex<(Cluster, Arc<Admin>)>,
}

impl Looks {
    /// The cluster now. Its `client.toml` is read each time, since a change of the members is written there; one that can not be read, or is of
    /// another cluster, changes nothing.
    fn now(&self) -> (Cluster, Arc<Admin>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let read = Cluster::read(&seen.0.directory.join(CLIENT_FILE), "").ok();
        if let Some(now) = read.filter(|now| now.id == seen.0.id && *now != seen.0)
            && let Ok(admin) = Admin::new(&now)
        {
            *seen = (now, Arc::new(admin));
        }
        seen.clone()
    }
}

/// The processes, where a `dev` runs in this directory.
fn lives(directory: &Path) -> Option<control::Done> {
    if !directory.join(SOCKET).exists() {
        return None;
    }
    control::call(directory, &Request { action: Action::List, replicas: Vec::new() }).ok()
}

fn replica(answer: &Answer, lives: Option<&control::Done>) -> Value {
    let life = lives.and_then(|done| done.replicas.iter().find(|one| one.replica == answer.replica.number()));
    let (status, error) = match &answer.status {
        Ok(status) => (Some(&status.raw), None),
        Err(why) => (None, Some(why.as_str())),
    };
    json!({
        "replica": answer.replica.number(),
        "address": answer.address,
        "reachable": status.is_some(),
        "life": life.map(|one| one.life),
        "ended": life.and_then(|one| one.error.as_ref()),
        "apart": life.map(|one| &one.apart),
        "status": status,
        "error": error,
    })
}

impl Source for Looks {
    fn state(&self) -> Value {
        let (cluster, admin) = self.now();
        let (answers, lives) = (admin.ask_all(), lives(&cluster.directory));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let replicas: Vec<Value> = answers.iter().map(|answer| replica(answer, lives.as_ref())).collect();
        json!({
            "time_ms": now.as_millis() as u64,
            "cluster": cluster.id.to_string(),
            "dev": lives.is_some(),
            "needed": cluster.majority(),
            "replicas": replicas,
        })
    }

    fn act(&self, Act { verb, replica }: Act) -> Result<String, String> {
        let (action, did) = match verb {
            Verb::Kill => (Action::Kill, "was killed"),
            Verb::Pause => (Action::Pause, "stands still"),
            Verb::Resume => (Action::Resume, "goes on"),
            Verb::Restart => (Action::Restart, "starts again"),
            Verb::Partition => (Action::Partition, "is cut off from the others; clients reach all"),
            Verb::Heal => (Action::Heal, "and all others reach each other again"),
        };
        let request = Request { action, replicas: vec![replica] };
        control::call(&self.now().0.directory, &request).map_err(|why| why.to_string())?;
        Ok(format!("replica {replica} {did}"))
    }
}
