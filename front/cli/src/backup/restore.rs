//! `quorate backup restore`: a new cluster whose first state is a backup.
//!
//! The system part is decoded; the cluster's id and the members are replaced by new ones. The rest is kept: seq, sessions, agreed time, and
//! the positions of ordering. `crate::beginning` writes it. The cluster's time continues from the backup: nothing expires while a backup lies
//! in a drawer.

use super::facts::{BackupFacts, utc};
use super::look;
use super::proof::{self, Judged, KeyArgs, Known};
use crate::beginning::BeginningArgs;
use quorate_command::cluster::{CLIENT_FILE, Cluster};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::{self, Origin, Plan, ServiceArg, parse_own_service, parse_service};
use quorate_command::print;
use quorate_node::System;
use quorate_state::checkpoint::Image;
use quorate_types::{ClusterId, ReplicaId, ServiceName};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Make the directories of a new cluster that begins with a backup.
///
/// Verifies the backup, with --keys also that enough replicas of the old cluster signed it, then does what `quorate init` does, and puts the state into every data directory. The cluster is a new
/// one: it has an id of its own, and nobody of the old cluster is taken for a member. It goes on at the backup's seq.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate backup restore monday.qbk --service etcd --out again     as many replicas as before, all on this machine
  quorate dev --dir again                                   runs them
  quorate backup restore monday.qbk --keys old/client.toml --service kv --out again       where replicas may lie
  quorate backup restore monday.qbk --service kv --out prod2 --members 1=10.0.0.1:7000,2=10.0.0.2:7000,3=10.0.0.3:7000

It may be one that `etcdctl` saved from a member. What was written after the backup is not in it. Stop the old cluster before clients use the new one, or both will take
writes.")]
pub(super) struct Args {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Which service the replicas run: the one that the old cluster ran. A NAME that is none of this program's is that of a service of your
    /// own, with a program of yours; it needs --members [default: the one that the backup names]
    #[arg(long, value_name = "NAME", value_parser = parse_service)]
    service: Option<ServiceArg>,
    /// As --service, for a name that is none of this program's
    #[arg(long, value_name = "NAME", hide = true, conflicts_with = "service", value_parser = parse_own_service)]
    own_service: Option<String>,
    #[command(flatten)]
    keys: KeyArgs,
    /// Take the backup as it is, though replicas of its cluster may lie and nothing proves that it is true
    #[arg(long, conflicts_with_all = ["keys", "key", "signatures"])]
    unproved: bool,
    #[command(flatten)]
    cluster: BeginningArgs,
}

pub(super) fn run(args: Args) -> Outcome {
    let known = args.keys.known()?;
    let (facts, image) = look::load(&args.file)?;
    let size = (facts.members.len(), facts.instances);
    let (service, own_service) = args.service_of(&facts)?.apart();
    let mut beginning = args.cluster.plan(service, size, "quorate backup restore")?;
    beginning.plan.own_service = own_service;
    let judged = args.admits(&facts, known.as_ref(), &beginning.plan)?;
    let origin = Origin {
        cluster: layout::new_cluster_id()?,
        // Nothing of the cluster's past is later, and it goes on from there.
        start_time_ns: facts.time.nanos(),
        level: System::decode(&image.system).map_err(|why| Failure::new(why.to_owned()))?.level,
        sessions: Some(facts.limits.clone()),
    };
    let image = renewed(&image, origin.cluster, &beginning.plan)?;
    let cluster = args.cluster.make(&beginning, &origin, &image)?;
    let out = &args.cluster.out;
    let digest = image.digest();
    print::line(if args.cluster.json {
        let mut document = facts.json();
        document["restored"] = json!({
            "cluster": cluster.id.to_string(),
            "directory": out.display().to_string(),
            "digest": digest.to_string(),
        });
        document["proved"] = judged.json().into();
        document.to_string()
    } else {
        text(out, &cluster, &facts, &judged) + &beginning.next(out, &cluster)
    })?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Which service the new cluster runs: the one that the backup names, if it names one.
    fn service_of(&self, facts: &BackupFacts) -> Outcome<ServiceArg> {
        let named = facts.service.as_str();
        let asked = self.own_service.clone().map(ServiceArg::Own).or_else(|| self.service.clone());
        let service = match asked {
            Some(service) => service,
            None if named.is_empty() => {
                return Err(Failure::usage(
                    "the backup does not name its service: say which one it is, as in --service etcd, or --service NAME for one of your own",
                ));
            }
            None => parse_service(named).map_err(Failure::usage)?,
        };
        Ok(service)
    }

    /// Whether the new cluster may begin with this backup.
    fn admits(&self, facts: &BackupFacts, known: Option<&Known>, plan: &Plan) -> Outcome<Judged> {
        let may_lie = plan.order.fault_model.may_lie();
        proof::admit(&self.file, facts, known, (self.unproved, may_lie))
    }
}

/// The same image, for the members of another cluster.
fn renewed(image: &Image, cluster: ClusterId, plan: &Plan) -> Outcome<Image> {
    let unusable = |why: &str| Failure::new(format!("the system part of the backup can not be used: {why}"));
    let mut system = System::decode(&image.system).map_err(unusable)?;
    let (old, new) = (system.service, plan.service_name());
    if ServiceName::new(&new).is_some_and(|new| old.differs(&new)) {
        return Err(Failure::new(format!(
            "the backup is one of the service {old}, and the new cluster was to run {new}: give --service {old}"
        )));
    }
    system.service = ServiceName::NONE;
    // Replicas that were about to join or leave are not part of the new cluster.
    let members: Vec<ReplicaId> = plan.members.iter().map(|(id, _)| ReplicaId::new(*id)).collect();
    let anew = system.begin_anew(cluster, plan.order.protocol, &members);
    anew.map_err(|why| unusable(&why.to_string()))?;
    Ok(Image { system: system.encode(), ..image.clone() })
}

fn text(out: &Path, cluster: &Cluster, facts: &BackupFacts, judged: &Judged) -> String {
    let shown = out.display();
    let proved = match judged {
        Judged::Proved(by) => format!(" {} signed it.", super::names(by)),
        Judged::Unchecked if facts.proof.is_some() || facts.may_be_of_liars => {
            " Nothing proves that it is true.".into()
        }
        Judged::Unchecked | Judged::NotNeeded => String::new(),
    };
    format!(
        "cluster {} is made in {shown}, from the backup of cluster {}\n\nIts state is that of seq {}, agreed time {}.{proved} What was \
         written after that is not in it.\nClients of the old cluster are refused until they get the new {CLIENT_FILE}. Sessions of the backup live on, for as long as they \
         had left:\nwho sends a request again whose reply is in it gets that reply, and nothing runs twice.\n\n",
        cluster.id,
        facts.cluster,
        facts.seq.number(),
        utc(facts.time),
    )
}
