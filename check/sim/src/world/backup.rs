//! Clusters that begin with the state of another one, as `quorate backup restore` makes them.

use super::World;
use super::cluster::{Cluster, id};
use crate::plan::Plan;
use crate::replica::CLUSTER;
use crate::trace::Level;
use quorate_node::System;
use quorate_state::checkpoint::{Image, Job, Keeper, Report, Step};
use quorate_types::ReplicaId;

/// Runs the earlier cluster to its end. Returns what one of its replicas has at rest.
///
/// # Panics
/// When that cluster did not end well, which does not concern the cluster that is made from it.
fn backup(plan: &Plan) -> Image {
    let mut world = World::new(plan.before(), Level::Hash);
    let report = world.run();
    assert!(report.failure.is_none(), "the cluster of the backup fails: {:?}", report.failure);
    let (_, opened) = Keeper::open(&mut world.cluster.replicas[0].keeping.files, false)
        .expect("its checkpoints can be opened");
    opened.image.expect("it ends with a border")
}

/// Gives all founders the same checkpoint, if the plan says so.
pub(super) fn restore(cluster: &mut Cluster) {
    let plan = &cluster.plan;
    if !plan.restored {
        return;
    }
    let image = backup(plan);
    let mut system = System::decode(&image.system).expect("the system part of a checkpoint");
    let founders: Vec<ReplicaId> = (0..plan.founders).map(id).collect();
    system.begin_anew(CLUSTER, plan.protocol, &founders).expect("the executor's part of a checkpoint");
    let image = Image { system: system.encode(), ..image };
    cluster.begins_at = image.seq;
    for replica in &mut cluster.replicas[..plan.founders] {
        let files = &mut replica.keeping.files;
        let (mut keeper, _) = Keeper::open(files, false).expect("an empty directory");
        keeper.submit(Job::Install { image: image.clone() });
        let mut written = false;
        while !written {
            let step = keeper.step(files);
            written = keeper.reports().any(|report| matches!(report, Report::Written { .. }));
            assert!(written || step != Step::Idle, "a checkpoint is written in an empty directory");
        }
        drop(files.take_published());
    }
}
