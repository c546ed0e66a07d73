//! All metrics, in the order in which they are written.

use super::{Kind, Metric};

const GAUGE: Kind = Kind::Gauge(1.0);
const COUNTER: Kind = Kind::Counter(1.0);

const fn once(name: &'static str, kind: Kind, at: &'static str, help: &'static str) -> Metric {
    Metric { name, help, kind, each: None, at, front: None }
}

/// One of each entry of a list of the status, told apart by a label.
const fn each(
    each: (&'static str, &'static str, &'static str),
    name: &'static str,
    kind: Kind,
    at: &'static str,
    help: &'static str,
) -> Metric {
    Metric { name, help, kind, each: Some(each), at, front: None }
}

/// A name of etcd, beside ours, so that its dashboards show something.
const fn etcd(name: &'static str, kind: Kind, at: &'static str, help: &'static str) -> Metric {
    Metric { name, help, kind, each: None, at, front: Some("etcd") }
}

const MEMBER: (&str, &str, &str) = ("/members", "member", "replica");
const PEER: (&str, &str, &str) = ("/peers", "peer", "replica");
const INSTANCE: (&str, &str, &str) = ("/instances/each", "ordering_instance", "instance");
const LANE: (&str, &str, &str) = ("/lanes", "lane", "lane");
const ETCD_CALL: (&str, &str, &str) = ("/calls/etcd", "call", "call");
const ZOOKEEPER_CALL: (&str, &str, &str) = ("/calls/zookeeper", "call", "call");

/// The one metric that a lane can not tell itself, since it executes.
pub(super) const EXECUTING: &str = "quorate_executing_seconds";

/// What replicas tell, beside `quorate_info`.
pub const METRICS: &[Metric] = &[
    once(
        "quorate_leading",
        Kind::Is,
        "/instances/each/0/leading",
        "Whether this replica leads the first instance.",
    ),
    once("quorate_has_leader", Kind::Is, "/leader", "Whether this replica knows a leader."),
    once(
        "quorate_leader_changes_total",
        COUNTER,
        "/leader_changes",
        "How often this process heard of another leader of the first instance.",
    ),
    once("quorate_view", GAUGE, "/view", "The view of the first instance."),
    once("quorate_decided_slot", GAUGE, "/decided", "The last slot decided."),
    once("quorate_executed_seq", GAUGE, "/executed", "The last seq executed."),
    once(
        "quorate_agreed_time_seconds",
        Kind::Gauge(1e-9),
        "/agreed_time_ns",
        "The cluster's time as of the last batch, since 1970.",
    ),
    once("quorate_requests_total", COUNTER, "/requests", "Requests executed."),
    once("quorate_batches_total", COUNTER, "/batches", "Batches executed."),
    once("quorate_reads_total", COUNTER, "/reads", "Reads answered."),
    once("quorate_rejected_frames_total", COUNTER, "/rejected", "Frames that broke the rules."),
    once(
        "quorate_signatures_checked_total",
        COUNTER,
        "/signatures_checked",
        "Signatures of clients checked.",
    ),
    once("quorate_sessions", GAUGE, "/sessions", "Open sessions."),
    once("quorate_connections", GAUGE, "/connections", "Connections of clients and operators."),
    once("quorate_queue_bytes", GAUGE, "/queue_bytes", "Bytes that are admitted and not decided."),
    once(
        "quorate_held_back_votes",
        GAUGE,
        "/held_back",
        "Votes held back, since this replica can not vouch for the requests.",
    ),
    once("quorate_problems", Kind::Count, "/problems", "Problems that status tells, with what to do."),
    once(
        "quorate_suspects",
        Kind::Count,
        "/suspects",
        "Replicas that did what no honest one does, as this replica saw it.",
    ),
    once("quorate_evidence", Kind::Count, "/evidence", "Proofs against replicas that this one keeps."),
    once("quorate_lease", Kind::Is, "/lease", "Whether this replica answers strong reads by a lease."),
    once(
        "quorate_ordered_seconds",
        Kind::Durations,
        "/latencies/ordered",
        "From a leader's proposal of a batch until it is decided and delivered there.",
    ),
    once(
        "quorate_log_write_seconds",
        Kind::Durations,
        "/latencies/written",
        "Writes of the log, until they are as durable as they get.",
    ),
    once("quorate_turn_seconds", Kind::Durations, "/turns", "Turns of the main lane."),
    once(
        EXECUTING,
        GAUGE,
        "/executing_s",
        "How long the request takes so far that is executed; 0 while that is less than a second.",
    ),
    once(
        "quorate_slow_executions_total",
        COUNTER,
        "/slow/executions",
        "Batches whose execution took longer than the limit for the log.",
    ),
    once(
        "quorate_slow_requests_total",
        COUNTER,
        "/slow/requests",
        "Batches whose requests waited longer than the limit for the log; only at the leader.",
    ),
    once("quorate_traces_sent_total", COUNTER, "/traces/sent", "Traces that the collector took."),
    once(
        "quorate_traces_lost_total",
        COUNTER,
        "/traces/lost",
        "Traces that the collector did not take, or that found no room.",
    ),
    once("quorate_log_position_bytes", GAUGE, "/log/position", "Bytes of the log ever written."),
    once("quorate_log_appended_records", GAUGE, "/log/appended", "The last appended record."),
    once("quorate_log_durable_records", GAUGE, "/log/durable", "The last durable record."),
    once("quorate_log_disk_full", Kind::Is, "/log/disk_full", "Whether the log has no more room."),
    once(
        "quorate_full_disks",
        Kind::Count,
        "/log/full",
        "Members whose disks are full, as far as this replica knows.",
    ),
    once(
        "quorate_log_rotten",
        Kind::Is,
        "/log/rotten",
        "Whether a segment of the log has rot and is not trimmed yet.",
    ),
    once("quorate_disk_free_bytes", GAUGE, "/disk/free_bytes", "Free bytes of the disk."),
    once("quorate_disk_total_bytes", GAUGE, "/disk/total_bytes", "All bytes of the disk."),
    once("quorate_checkpoint_last_seq", GAUGE, "/checkpoints/last_seq", "The last border."),
    once(
        "quorate_checkpoint_agreed_seq",
        GAUGE,
        "/checkpoints/agreed_seq",
        "The newest border with an agreed digest.",
    ),
    once(
        "quorate_checkpoint_durable_seq",
        GAUGE,
        "/checkpoints/durable_seq",
        "The newest durable checkpoint here.",
    ),
    once(
        "quorate_checkpoint_writing",
        Kind::Is,
        "/checkpoints/writing",
        "Whether a checkpoint is being written.",
    ),
    once(
        "quorate_checkpoint_sent_bytes_total",
        COUNTER,
        "/checkpoints/sent_bytes",
        "Bytes of checkpoints sent to others.",
    ),
    once(
        "quorate_checkpoint_rotten",
        GAUGE,
        "/checkpoints/rotten",
        "Damaged places in checkpoints that are not mended yet.",
    ),
    once("quorate_checkpoint_repaired_total", COUNTER, "/checkpoints/repaired", "Damaged places mended."),
    once("quorate_scrubs_total", COUNTER, "/checkpoints/scrubs", "Scrubs that ended."),
    once(
        "quorate_diverged",
        Kind::Is,
        "/checkpoints/diverged",
        "Whether the state here differs from the agreed one.",
    ),
    once(
        "quorate_divergences_total",
        COUNTER,
        "/checkpoints/divergences",
        "How often it differed, whether it was repaired or not.",
    ),
    once("quorate_transfer", Kind::Is, "/checkpoints/transfer", "Whether this replica fetches a checkpoint."),
    once(
        "quorate_transfer_done_bytes",
        GAUGE,
        "/checkpoints/transfer/bytes_done",
        "Bytes of it that are here.",
    ),
    once("quorate_transfer_total_bytes", GAUGE, "/checkpoints/transfer/bytes_total", "All bytes of it."),
    each(
        MEMBER,
        "quorate_member_lag_bytes",
        GAUGE,
        "/lag_bytes",
        "Bytes of the log that a member has not confirmed; only at the leader.",
    ),
    each(
        MEMBER,
        "quorate_member_active",
        Kind::Is,
        "/active",
        "Whether the leader has heard of a member lately; only at the leader.",
    ),
    each(
        PEER,
        "quorate_peer_connected",
        Kind::Is,
        "/connected",
        "Whether both directions to another replica are connected.",
    ),
    once("quorate_members", Kind::Count, "/membership/members", "Members of the cluster."),
    once("quorate_removed", Kind::Is, "/membership/removed", "Whether this replica is no member any more."),
    once("quorate_feature_level", GAUGE, "/level/cluster", "The feature level at which the cluster works."),
    once("quorate_service_level", GAUGE, "/service/level", "The version by which the service works."),
    once("quorate_era", GAUGE, "/era/number", "The era that the replica is in, from 1."),
    once("quorate_instances", GAUGE, "/instances/count", "How many instances order batches."),
    once(
        "quorate_instances_skew_slots",
        GAUGE,
        "/instances/skew",
        "Slots between the furthest instance and the last one.",
    ),
    once(
        "quorate_noop_share",
        GAUGE,
        "/instances/noop_share",
        "The empty part of what was delivered, from 0 to 1.",
    ),
    each(
        INSTANCE,
        "quorate_instance_leading",
        Kind::Is,
        "/leading",
        "Whether this replica leads an instance.",
    ),
    each(INSTANCE, "quorate_instance_view", GAUGE, "/view", "The view of an instance."),
    each(
        INSTANCE,
        "quorate_instance_decided_slot",
        GAUGE,
        "/decided",
        "The last slot decided in an instance.",
    ),
    each(INSTANCE, "quorate_instance_clients", GAUGE, "/clients", "Clients that an instance serves."),
    each(
        INSTANCE,
        "quorate_instance_waited_seconds_total",
        Kind::Counter(1e-3),
        "/waited_ms",
        "How long the other instances waited for it.",
    ),
    each(
        LANE,
        "quorate_lane_busy",
        Kind::Gauge(1e-3),
        "/busy",
        "The part of its time in which a lane worked lately, from 0 to 1.",
    ),
    each(LANE, "quorate_lane_connections", GAUGE, "/connections", "Connections of a lane."),
    each(
        LANE,
        "quorate_lane_waiting_bytes",
        GAUGE,
        "/waiting_bytes",
        "Bytes that a lane has read and that are not worked off.",
    ),
    once("quorate_buffered_bytes", GAUGE, "/buffers/bytes", "Bytes in buffers of connections."),
    once(
        "quorate_buffered_bytes_max",
        GAUGE,
        "/buffers/bytes_max",
        "The most bytes in buffers of connections.",
    ),
    once("quorate_slow_readers", GAUGE, "/buffers/slow_readers", "Connections whose peers read slowly."),
    once(
        "quorate_cut_connections_total",
        COUNTER,
        "/buffers/cut",
        "Connections cut since their peers read too slowly.",
    ),
    once("quorate_clients", GAUGE, "/seats/clients", "Connected clients."),
    once("quorate_clients_max", GAUGE, "/seats/clients_max", "The most clients that may be connected."),
    once(
        "quorate_strangers",
        GAUGE,
        "/seats/strangers",
        "Connections whose peers have not introduced themselves.",
    ),
    once("quorate_connections_refused_total", COUNTER, "/seats/refused", "Connections refused at a limit."),
    once(
        "quorate_connections_late_total",
        COUNTER,
        "/seats/late",
        "Connections closed because their peers did not introduce themselves in time.",
    ),
    once(
        "quorate_connections_crowded_out_total",
        COUNTER,
        "/seats/crowded_out",
        "Connections closed before that time, to make room.",
    ),
    once("quorate_workers", GAUGE, "/workers/count", "Threads that check signatures."),
    once("quorate_workers_waiting", GAUGE, "/workers/waiting", "Pieces of work that wait for them."),
    once("quorate_executors", GAUGE, "/executors/count", "Threads that run commands."),
    once("quorate_executors_waiting", GAUGE, "/executors/waiting", "Pieces of work that wait for them."),
    once("quorate_executor_panics_total", COUNTER, "/executors/panics", "Panics of commands on them."),
    once(
        "quorate_verification_ruled_seq",
        GAUGE,
        "/verification/ruled",
        "The last seq that a ruling made final, where results are verified.",
    ),
    once(
        "quorate_verification_waiting_batches",
        GAUGE,
        "/verification/waiting",
        "Batches that wait for a ruling.",
    ),
    once(
        "quorate_verification_reruns_total",
        COUNTER,
        "/verification/reruns",
        "Runs of commands one after the other, because results did not agree.",
    ),
    once(
        "quorate_verification_differs",
        Kind::Is,
        "/verification/differs",
        "Whether the results here are not those that were ruled.",
    ),
    once(
        "quorate_certificate_expires_in_days",
        GAUGE,
        "/tls/expires_in_days",
        "Days until the certificate of this replica expires.",
    ),
    once(
        "quorate_authority_expires_in_days",
        GAUGE,
        "/tls/authority_expires_in_days",
        "Days until the certificate of the authority expires.",
    ),
    once("process_resident_memory_bytes", GAUGE, "/process/memory_bytes", "Memory in use."),
    once(
        "process_cpu_seconds_total",
        COUNTER,
        "/process/cpu_s",
        "Processor time, in user mode and in the kernel.",
    ),
    once("process_cpu_user_seconds_total", COUNTER, "/process/cpu_user_s", "Processor time in user mode."),
    once(
        "process_cpu_system_seconds_total",
        COUNTER,
        "/process/cpu_system_s",
        "Processor time in the kernel.",
    ),
    once(
        "process_start_time_seconds",
        GAUGE,
        "/process/start_time_s",
        "When the process started, since 1970.",
    ),
    each(
        ETCD_CALL,
        "quorate_etcd_call_seconds",
        Kind::Durations,
        "/took",
        "Calls of clients of etcd, from the request's last byte until the answer is ready.",
    ),
    each(
        ETCD_CALL,
        "quorate_etcd_calls_failed_total",
        COUNTER,
        "/failed",
        "Calls of clients of etcd that were answered with an error.",
    ),
    each(
        ZOOKEEPER_CALL,
        "quorate_zookeeper_call_seconds",
        Kind::Durations,
        "/took",
        "Requests of clients of ZooKeeper, from the request's last byte until the answer is ready.",
    ),
    etcd("etcd_server_has_leader", Kind::Is, "/leader", "Whether this member knows a leader."),
    etcd("etcd_server_is_leader", Kind::Is, "/instances/each/0/leading", "Whether this member leads."),
    etcd(
        "etcd_server_leader_changes_seen_total",
        COUNTER,
        "/leader_changes",
        "How often this process heard of another leader.",
    ),
    etcd("etcd_server_proposals_committed_total", COUNTER, "/decided", "Slots decided."),
    etcd("etcd_server_proposals_applied_total", COUNTER, "/executed", "Slots executed."),
    etcd(
        "etcd_disk_wal_fsync_duration_seconds",
        Kind::Durations,
        "/latencies/written",
        "Writes of the log, until they are as durable as they get.",
    ),
    etcd(
        "etcd_disk_backend_commit_duration_seconds",
        Kind::Durations,
        "/latencies/written",
        "The same: there is one log, and no backend beside it.",
    ),
];
