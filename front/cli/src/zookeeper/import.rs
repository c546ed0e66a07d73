//! `quorate zookeeper import`: a new cluster that begins with the tree of a ZooKeeper.
//!
//! Tests: with a real server front/zookeeper/tests/all/import.rs, with real replicas front/cli/tests/all/zookeeper/import.rs.

use super::Settings;
use crate::beginning::BeginningArgs;
use quorate_command::cluster::Cluster;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::{self, Origin, Plan, ServiceChoice};
use quorate_command::print;
use quorate_execute::{Executor, InStore, Parallel, SessionLimits, Store};
use quorate_node::System;
use quorate_state::checkpoint::Image;
use quorate_types::{AgreedTime, Seq};
use quorate_wire::FEATURE_LEVEL;
use quorate_zookeeper::import::{self, Imported};
use quorate_zookeeper::service::ZooKeeper;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Replicas, unless the command line says otherwise.
const REPLICAS: usize = 3;

/// Make a new cluster that begins with the tree of a ZooKeeper.
///
/// Reads the newest snapshot and the log behind it: data, rights, versions and transactions, sessions with their ephemeral nodes. Clients come
/// back with the sessions that they have. Stop the ensemble before, import the files of each server, and keep the cluster with the highest last
/// transaction: the others may lack something that was acknowledged.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate zookeeper import /var/lib/zookeeper --out again      three replicas, all on this machine
  quorate dev --dir again                                      runs them
  quorate zookeeper import data logs --out prod --members 1=10.0.0.1:7000,2=10.0.0.2:7000,3=10.0.0.3:7000")]
pub(super) struct Args {
    /// What zoo.cfg calls dataDir, and dataLogDir if there is one
    #[arg(value_name = "DIR", required = true)]
    from: Vec<PathBuf>,
    #[command(flatten)]
    cluster: BeginningArgs,
}

pub(super) fn run(args: Args) -> Outcome {
    let beginning = args.cluster.plan(ServiceChoice::Zookeeper, (REPLICAS, 1), "quorate zookeeper import")?;
    let failed = |why: import::ImportError| Failure::new(why.to_string());
    let imported = import::read(&args.from).map_err(failed)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let begins = AgreedTime::from_nanos(u64::try_from(now).unwrap_or_default());
    let rules = Settings::default().rules();
    let store = imported.state(begins, rules, quorate_zookeeper_tcp::session_digest).map_err(failed)?;
    let origin = Origin {
        cluster: layout::new_cluster_id()?,
        start_time_ns: begins.nanos(),
        level: FEATURE_LEVEL,
        sessions: None,
    };
    let image = image(store, begins, &origin, &beginning.plan)?;
    let cluster = args.cluster.make(&beginning, &origin, &image)?;
    let out = &args.cluster.out;
    print::line(if args.cluster.json {
        let (nodes, sessions, zxid) = imported.counts();
        let document = json!({
            "cluster": cluster.id.to_string(),
            "directory": out.display().to_string(),
            "snapshot": imported.snapshot.display().to_string(),
            "nodes": nodes,
            "sessions": sessions,
            "zxid": format!("{zxid:#x}"),
            "notes": imported.notes,
        });
        document.to_string()
    } else {
        text(&imported, &cluster) + &beginning.next(out, &cluster)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The first state of all replicas: as if the first batch had made it.
fn image(store: Store, begins: AgreedTime, origin: &Origin, plan: &Plan) -> Outcome<Image> {
    let service = InStore::with(Parallel::new(ZooKeeper::default()), store);
    let mut executor = Executor::new(Box::new(service), SessionLimits::default(), begins);
    executor.pass(Seq::FIRST);
    let parts = executor.image().map_err(|why| Failure::new(why.to_string()))?;
    let protocol = plan.order.protocol;
    let system =
        System::beginning(origin.cluster, protocol, plan.members.len(), origin.level, parts.system.into());
    Ok(Image { seq: system.seq, border: system.border, system: system.encode(), objects: parts.objects })
}

fn text(imported: &Imported, cluster: &Cluster) -> String {
    let (nodes, sessions, zxid) = imported.counts();
    let notes: String = imported.notes.iter().map(|note| format!("Note: {note}\n")).collect();
    format!(
        "cluster {} is made in {}, from {} and the log behind it: {nodes} nodes, {sessions} sessions, the last transaction {zxid:#x}\n{notes}\n\
         Sessions live on for their time-outs once the cluster runs; their clients come back with what they have.\n\n",
        cluster.id,
        cluster.directory.display(),
        imported.snapshot.display(),
    )
}
