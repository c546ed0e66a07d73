//! `quorate etcd import`: a new cluster that begins with the keys of an etcd.
//!
//! Tests: front/etcd/src/moving/tests.rs, with real servers front/cli/tests/all/etcd/moving.rs.

use crate::beginning::BeginningArgs;
use quorate_command::cluster::Cluster;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::{self, Origin, Plan, ServiceChoice};
use quorate_command::print;
use quorate_etcd::Etcd;
use quorate_etcd::moving::{self, Imported};
use quorate_execute::{Executor, InStore, SessionLimits, Store};
use quorate_node::System;
use quorate_state::checkpoint::Image;
use quorate_types::{AgreedTime, Seq};
use quorate_wire::FEATURE_LEVEL;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Replicas, unless the command line says otherwise.
const REPLICAS: usize = 3;

/// Make a new cluster that begins with the keys of an etcd.
///
/// Reads what `etcdctl snapshot save` of etcd 3.5 and 3.6 wrote: keys with all revisions since the compaction, leases, users with their
/// passwords, roles. Stop the clients before it is saved: what they write afterwards is not in it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  etcdctl snapshot save etcd.db                             at any member
  quorate etcd import etcd.db --out again                   three replicas, all on this machine
  quorate dev --dir again                                   runs them
  quorate etcd import etcd.db --out prod --members 1=10.0.0.1:7000,2=10.0.0.2:7000,3=10.0.0.3:7000

member/snap/db from the directory of an etcd that is stopped can be read, too. What etcd wrote last may be missing there.")]
pub(super) struct Args {
    /// What etcdctl saved
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    cluster: BeginningArgs,
}

pub(super) fn run(args: Args) -> Outcome {
    let beginning = args.cluster.plan(ServiceChoice::Etcd, (REPLICAS, 1), "quorate etcd import")?;
    let shown = args.file.display();
    let unusable = |why| Failure::new(format!("{shown} can not be used: {why}"));
    let imported = moving::read(&args.file).map_err(unusable)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let begins = AgreedTime::from_nanos(u64::try_from(now).unwrap_or_default());
    let origin = Origin {
        cluster: layout::new_cluster_id()?,
        start_time_ns: begins.nanos(),
        level: FEATURE_LEVEL,
        sessions: None,
    };
    let image = image(imported.state(begins), begins, &origin, &beginning.plan)?;
    let cluster = args.cluster.make(&beginning, &origin, &image)?;
    let out = &args.cluster.out;
    print::line(if args.cluster.json {
        json(&args.file, &imported, &cluster)
    } else {
        text(&args.file, &imported, &cluster) + &beginning.next(out, &cluster)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The first state of all replicas: as if the first batch had made it.
fn image(store: Store, begins: AgreedTime, origin: &Origin, plan: &Plan) -> Outcome<Image> {
    let service = InStore::with(Etcd::default(), store);
    let mut executor = Executor::new(Box::new(service), SessionLimits::default(), begins);
    executor.pass(Seq::FIRST);
    let parts = executor.image().map_err(|why| Failure::new(why.to_string()))?;
    let protocol = plan.order.protocol;
    let system =
        System::beginning(origin.cluster, protocol, plan.members.len(), origin.level, parts.system.into());
    Ok(Image { seq: system.seq, border: system.border, system: system.encode(), objects: parts.objects })
}

fn json(file: &Path, imported: &Imported, cluster: &Cluster) -> String {
    let mut document = super::counts(&imported.counts());
    document["cluster"] = json!(cluster.id.to_string());
    document["directory"] = json!(cluster.directory.display().to_string());
    document["file"] = json!(file.display().to_string());
    document["notes"] = json!(imported.notes);
    document.to_string()
}

fn text(file: &Path, imported: &Imported, cluster: &Cluster) -> String {
    format!(
        "cluster {} is made in {}, from {}\n{}{}\n\
         A lease has the time that etcd would give it after a restart, from when the cluster runs. Members, and clients' tokens, are not taken over.\n\n",
        cluster.id,
        cluster.directory.display(),
        file.display(),
        super::lines(&imported.counts()),
        super::noted(&imported.notes),
    )
}
