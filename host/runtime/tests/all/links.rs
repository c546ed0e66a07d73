//! Directions that are cut and links that are slow, with real sockets: the network is replaced by one that leads through relays.

use crate::common::{self, OptionsOf, RawClient};
use quorate_runtime::{Durability, Network, Options, SystemNetwork};
use quorate_types::ReplicaId;
use quorate_wire::ReadConsistency;
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// One direction between two replicas.
#[derive(Default)]
struct Direction {
    cut: AtomicBool,
    delay_ms: AtomicU64,
}

/// All directions, by who dials and who is dialed.
#[derive(Default)]
struct Directions(Mutex<BTreeMap<(usize, u16), Arc<Direction>>>);

impl Directions {
    fn link(&self, from: usize, to: u16) -> Arc<Direction> {
        self.0.lock().unwrap().entry((from, to)).or_default().clone()
    }

    /// Cuts everything between one replica and the others, or heals it.
    fn isolate(&self, at: usize, cut: bool) {
        for other in (0..3).filter(|other| *other != at) {
            self.link(at, other as u16 + 1).cut.store(cut, Ordering::SeqCst);
            self.link(other, at as u16 + 1).cut.store(cut, Ordering::SeqCst);
        }
    }
}

/// Leads each connection through a relay of its own.
struct Relayed {
    me: usize,
    links: Arc<Directions>,
    system: SystemNetwork,
}

impl Network for Relayed {
    fn listen(&self, address: SocketAddr) -> io::Result<TcpListener> {
        self.system.listen(address)
    }

    fn connect(&self, to: ReplicaId, address: SocketAddr) -> io::Result<TcpStream> {
        let link = self.links.link(self.me, to.number());
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let relay = listener.local_addr()?;
        std::thread::spawn(move || {
            let Ok((near, _)) = listener.accept() else { return };
            if link.cut.load(Ordering::SeqCst) {
                return;
            }
            let Ok(far) = TcpStream::connect(address) else { return };
            let back = (far.try_clone().unwrap(), near.try_clone().unwrap(), link.clone());
            std::thread::spawn(move || relay_bytes(back.0, back.1, &back.2));
            relay_bytes(near, far, &link);
        });
        self.system.connect(to, relay)
    }
}

fn relay_bytes(mut from: TcpStream, mut to: TcpStream, link: &Direction) {
    from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut bytes = vec![0; 64 << 10];
    loop {
        if link.cut.load(Ordering::SeqCst) {
            break;
        }
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(n) => {
                std::thread::sleep(Duration::from_millis(link.delay_ms.load(Ordering::SeqCst)));
                if to.write_all(&bytes[..n]).is_err() {
                    break;
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn cluster() -> (common::Cluster, Arc<Directions>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let links: Arc<Directions> = Arc::default();
    let options: OptionsOf = {
        let links = links.clone();
        Box::new(move |at| {
            let network = Relayed { me: at, links: links.clone(), system: SystemNetwork::default() };
            Options { network: Some(Arc::new(network)), ..Options::default() }
        })
    };
    (common::cluster_with(directory.path(), 3, Durability::Group, options), links, directory)
}

/// Connects to a leader other than `old`, once there is one.
fn leader_other_than(cluster: &common::Cluster, old: usize) -> (usize, RawClient) {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        for at in (0..3).filter(|at| *at != old) {
            if let Some(client) = RawClient::connect(cluster.configs[at].listen_address())
                && client.welcome.is_some_and(|w| w.leader == Some(w.replica))
            {
                return (at, client);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no other leader in twenty seconds");
}

#[test]
fn a_leader_that_is_cut_off_is_replaced_and_comes_back_as_a_follower() {
    let (cluster, links, _directory) = cluster();
    let (old, mut client) = cluster.leader();
    let session = client.open(1);
    assert_eq!(client.add(session, 1, &[5]), Some(vec![5]));
    links.isolate(old, true);
    let (new, mut client) = leader_other_than(&cluster, old);
    assert_ne!(old, new);
    assert_eq!(client.add(session, 2, &[6]), Some(vec![11]));
    links.isolate(old, false);
    let mut reader = RawClient::connect(cluster.configs[old].listen_address()).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while reader.read(ReadConsistency::Strong, 0).2 != 11 {
        assert!(Instant::now() < until, "it catches up once it is connected again");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_slow_link_to_one_follower_slows_nobody() {
    let (cluster, links, _directory) = cluster();
    let (leader, mut client) = cluster.leader();
    let slow = (leader + 1) % 3;
    links.link(leader, slow as u16 + 1).delay_ms.store(100, Ordering::SeqCst);
    let session = client.open(1);
    for number in 1..=50 {
        assert_eq!(client.add(session, number, &[1]), Some(vec![number]));
    }
    let mut reader = RawClient::connect(cluster.configs[slow].listen_address()).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while reader.read(ReadConsistency::Weak, 0).2 != 50 {
        assert!(Instant::now() < until, "the slow one gets everything in the end");
        std::thread::sleep(Duration::from_millis(20));
    }
}
