//! The links between replicas, through this process: each can be cut, one way or both, and nothing is closed by that.

use super::cluster::Cluster;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// How often a cut link looks whether it is healed.
const LOOK: Duration = Duration::from_millis(2);

/// What goes from one replica to another one, by their places: `count * from + to`.
pub(crate) struct Links {
    cut: Arc<Vec<AtomicBool>>,
    count: usize,
    /// It ends with this.
    _runtime: Runtime,
}

impl Links {
    /// Between the replicas of a cluster that was not started yet.
    pub(crate) fn between(cluster: &Cluster) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let count = cluster.members.len();
        let cut: Arc<Vec<AtomicBool>> =
            Arc::new((0..count * count).map(|_| AtomicBool::new(false)).collect());
        let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
        let pairs: Vec<(usize, usize)> = pairs.filter(|(from, to)| from != to).collect();
        for (from, to) in &pairs {
            let target = cluster.members[*to].1.clone();
            let ways = (count * from + to, count * to + from);
            // Whatever is free: it stays bound to the end.
            let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).expect("a free port");
            let port = listener.local_addr().expect("it is bound").port();
            reach(&cluster.home(*from).join("replica.toml"), &target, port);
            runtime.spawn(serve(listener, target, cut.clone(), ways));
        }
        Self { cut, count, _runtime: runtime }
    }

    /// Nothing goes from one to the other any more; the other direction is left as it is.
    pub(crate) fn cut(&self, from: usize, to: usize) {
        self.cut[self.count * from + to].store(true, Ordering::Release);
    }

    /// Nobody hears this one, and it hears nobody.
    pub(crate) fn isolate(&self, at: usize) {
        for other in (0..self.count).filter(|other| *other != at) {
            self.cut(at, other);
            self.cut(other, at);
        }
    }

    pub(crate) fn heal(&self) {
        self.cut.iter().for_each(|cut| cut.store(false, Ordering::Release));
    }
}

/// Lets a replica reach another one through this port.
fn reach(file: &Path, target: &str, port: u16) {
    let text = std::fs::read_to_string(file).expect("the configuration can be read");
    let (old, new) = (format!("address = \"{target}\""), format!("address = \"127.0.0.1:{port}\""));
    assert_eq!(text.matches(&old).count(), 1, "{old} in {text}");
    std::fs::write(file, text.replace(&old, &new)).expect("the configuration can be written");
}

async fn serve(listener: TcpListener, target: String, cut: Arc<Vec<AtomicBool>>, ways: (usize, usize)) {
    while let Ok((near, _)) = listener.accept().await {
        let (target, cut) = (target.clone(), cut.clone());
        tokio::spawn(async move {
            wait_until_whole(&cut[ways.0]).await;
            let Ok(far) = TcpStream::connect(&target).await else { return };
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            // When one direction ends, so does the other: both halves are dropped.
            tokio::select! {
                _ = forward(near_in, far_out, &cut[ways.0]) => {}
                _ = forward(far_in, near_out, &cut[ways.1]) => {}
            }
        });
    }
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, cut: &AtomicBool) -> io::Result<()> {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let len = from.read(&mut bytes).await;
        // Nor does the other side hear that the connection has ended.
        wait_until_whole(cut).await;
        match len? {
            0 => return Ok(()),
            len => to.write_all(&bytes[..len]).await?,
        }
    }
}

async fn wait_until_whole(cut: &AtomicBool) {
    while cut.load(Ordering::Acquire) {
        tokio::time::sleep(LOOK).await;
    }
}
