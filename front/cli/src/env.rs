//! `quorate env`: what other programs need in their environment to reach a cluster. Tests: tests/all/pages.rs.

use quorate_command::admin::{self, Admin, Answer};
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::print;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Print what other programs need in their environment to reach a cluster.
///
/// `QUORATE_CONFIG` names the cluster for this program. With the service etcd there is what etcdctl reads; with the service zookeeper
/// `ZOOKEEPER_SERVERS`, for `zkCli.sh -server $ZOOKEEPER_SERVERS`. Replicas are asked for the addresses of their fronts, so one must run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  eval \"$(quorate env)\" && etcdctl put greeting hello
  eval \"$(quorate env --dir ./zk)\" && zkCli.sh -server $ZOOKEEPER_SERVERS
  quorate env --json")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let cluster = Cluster::find(&args.cluster)?;
    let answers = Admin::new(&cluster)?.ask_all();
    if answers.iter().all(|answer| answer.status.is_err()) {
        return Err(Failure::new(
            "no replica answers, so the addresses of their fronts are not known.\nStart the cluster; `quorate status` says who is missing",
        ));
    }
    let file = cluster.directory.join(quorate_command::cluster::CLIENT_FILE);
    let config = std::path::absolute(&file).doing(format_args!("find {}", file.display()))?;
    let mut variables = vec![("QUORATE_CONFIG".to_owned(), config.display().to_string())];
    variables.extend(of_etcd(&cluster, &answers));
    variables.extend(of_zookeeper(&answers));
    print::line(if args.json {
        let of = |(name, value): (String, String)| (name, value.into());
        serde_json::Value::Object(variables.into_iter().map(of).collect()).to_string()
    } else {
        let line = |(name, value): &(String, String)| format!("export {name}={}", print::quoted(value));
        variables.iter().map(line).collect::<Vec<_>>().join("\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What etcdctl reads from its environment; nothing where no replica serves clients of etcd.
pub(crate) fn of_etcd(cluster: &Cluster, answers: &[Answer]) -> Vec<(String, String)> {
    let addresses = admin::front("etcd", answers);
    if addresses.is_empty() {
        return Vec::new();
    }
    let scheme = if cluster.tls.is_some() { "https" } else { "http" };
    let endpoints: Vec<String> = addresses.iter().map(|address| format!("{scheme}://{address}")).collect();
    let mut variables = vec![("ETCDCTL_ENDPOINTS".to_owned(), endpoints.join(","))];
    if let Some(tls) = &cluster.tls {
        let files = &tls.client;
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
        let named = [("CACERT", &files.ca), ("CERT", &files.certificate), ("KEY", &files.key)];
        let variable = |(name, path): (&str, &PathBuf)| {
            (format!("ETCDCTL_{name}"), absolute(path).display().to_string())
        };
        variables.extend(named.map(variable));
    }
    variables
}

/// Where clients of ZooKeeper connect; nothing where no replica serves them.
fn of_zookeeper(answers: &[Answer]) -> Option<(String, String)> {
    let addresses = admin::front("zookeeper", answers);
    (!addresses.is_empty()).then(|| ("ZOOKEEPER_SERVERS".to_owned(), addresses.join(",")))
}
