//! Disks that are really full, as clients of etcd see it: a write is refused long before its deadline, with the error that promises that
//! nothing was done, the alarm is there, and probes are told. Needs the right to mount a tmpfs; without it this test says so and does nothing.

use crate::rig::cluster::{Cluster, REPLICAS, wait};
use crate::rig::random::Random;
use crate::rig::tmpfs;
use quorate_etcd_grpc::pb::etcdserverpb::kv_client::KvClient;
use quorate_etcd_grpc::pb::etcdserverpb::maintenance_client::MaintenanceClient;
use quorate_etcd_grpc::pb::etcdserverpb::{AlarmRequest, AlarmType, PutRequest};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// A write's deadline, and when it must be refused at the latest on a machine that does much else. Without early refusals it takes 10 s.
const DEADLINE: Duration = Duration::from_secs(30);
const EARLY: Duration = Duration::from_secs(8);

async fn put(channel: &Channel, number: u64) -> Result<(), Status> {
    let (key, value) = (format!("key-{}", number % 8).into(), vec![number as u8; 256 << 10].into());
    let request = PutRequest { key, value, ..PutRequest::default() };
    KvClient::new(channel.clone()).put(request).await.map(drop)
}

async fn alarms(channel: &Channel) -> Vec<i32> {
    let answer = MaintenanceClient::new(channel.clone()).alarm(AlarmRequest::default()).await;
    answer
        .map(|answer| answer.into_inner().alarms.iter().map(|alarm| alarm.alarm).collect())
        .unwrap_or_default()
}

fn ready(address: &str) -> String {
    let mut text = String::new();
    if let Ok(mut stream) = TcpStream::connect(address) {
        let _ = stream.write_all(b"GET /readyz HTTP/1.1\r\n\r\n");
        let _ = stream.read_to_string(&mut text);
    }
    text
}

/// Gives a replica that does not run an address for probes.
fn add_probe(cluster: &Cluster, at: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let probe = listener.local_addr().expect("it has one").to_string();
    let file = cluster.home(at).join("replica.toml");
    let text = std::fs::read_to_string(&file).expect("it is there");
    std::fs::write(&file, format!("health = \"{probe}\"\n{text}")).expect("written");
    probe
}

#[test]
fn a_full_disk_is_told_to_clients_of_etcd_at_once() {
    let mut random = Random::from_environment("etcd-full");
    let (mut cluster, addresses) = Cluster::of_etcd("etcd-full", &mut random);
    let place = match cluster.move_to_tmpfs(&[0, 1, 2], 210) {
        Ok(place) => place,
        Err(why) => return quorate_skipped::skipped(format!("no tmpfs can be mounted here: {why}")),
    };
    let probes: Vec<String> = (0..REPLICAS).map(|at| add_probe(&cluster, at)).collect();
    cluster.heal();
    cluster.wait_for_leader();
    let all_ready = || probes.iter().all(|probe| ready(probe).starts_with("HTTP/1.1 200"));
    wait("probes find all well", all_ready);

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let leader = cluster.wait_for_leader();
    let endpoint = Endpoint::from_shared(format!("http://{}", addresses[leader])).expect("an address");
    let channel = {
        let _context = runtime.enter();
        endpoint.timeout(DEADLINE).connect_lazy()
    };
    assert_eq!(runtime.block_on(alarms(&channel)), Vec::<i32>::new());
    let (mut number, refused) = (0, loop_until_refused(&runtime, &channel));
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert!(refused.message().contains("database space exceeded"), "{refused}");
    // All that come later, too, and each within its time.
    for _ in 0..3 {
        let since = Instant::now();
        number += 1;
        let refused = runtime.block_on(put(&channel, number)).expect_err("there is no room");
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        assert!(since.elapsed() < EARLY, "it took {:?}", since.elapsed());
    }
    wait("the alarm is there", || {
        runtime.block_on(alarms(&channel)).contains(&i32::from(AlarmType::Nospace))
    });
    wait("probes are told", || probes.iter().any(|probe| ready(probe).contains("its disk is full")));

    tmpfs::resize(&place, 600);
    wait("there is room again", || runtime.block_on(put(&channel, 0)).is_ok());
    wait("the alarm is gone", || runtime.block_on(alarms(&channel)).is_empty());
    wait("probes find all well", all_ready);
}

fn loop_until_refused(runtime: &tokio::runtime::Runtime, channel: &Channel) -> Status {
    for number in 0..4_000 {
        let since = Instant::now();
        match runtime.block_on(put(channel, number)) {
            Err(refused) if refused.code() != Code::Unavailable => {
                assert!(since.elapsed() < EARLY, "it took {:?}: {refused}", since.elapsed());
                return refused;
            }
            _ => {}
        }
    }
    panic!("the disks never fill")
}
