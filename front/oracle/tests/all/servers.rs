//! Real servers, where there are some, and one that answers nonsense.

use quorate_runtime::{Oracle, TlsFiles};
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Where a listener is reached.
pub(crate) fn address_of(listener: &TcpListener) -> String {
    listener.local_addr().expect("an address").to_string()
}

/// A running server, which ends with this.
pub(crate) struct Server {
    child: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn wait(&self, connect: impl Fn() -> Box<dyn Oracle>) {
        let until = Instant::now() + PATIENCE;
        while let Err(why) = connect().serve("quorate/ready/1/1", None) {
            assert!(Instant::now() < until, "it does not start: {why}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A real etcd.
pub(crate) fn etcd(tls: Option<&TlsFiles>) -> Option<Server> {
    let named = std::env::var_os("ETCD").map(PathBuf::from);
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/etcd-clients/etcd");
    let program = named.into_iter().chain([built]).find(|file| file.is_file())?;
    let (directory, port) = (tempfile::tempdir().expect("a directory"), free_port());
    let scheme = if tls.is_some() { "https" } else { "http" };
    let client = format!("{scheme}://127.0.0.1:{port}");
    let peer = format!("http://127.0.0.1:{}", free_port());
    let mut command = Command::new(program);
    if let Some(TlsFiles { ca, certificate, key }) = tls {
        command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(ca);
        command.arg("--cert-file").arg(certificate).arg("--key-file").arg(key);
    }
    let child = command
        .args(["--data-dir", &directory.path().to_string_lossy(), "--unsafe-no-fsync"])
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("etcd runs");
    Some(Server { child, port, _directory: directory })
}

/// A real ZooKeeper, of one server.
pub(crate) fn zookeeper() -> Option<Server> {
    let jars = std::env::var_os("ZOOKEEPER").map(PathBuf::from).filter(|folder| folder.is_dir())?;
    let (directory, port) = (tempfile::tempdir().expect("a directory"), free_port());
    let config = directory.path().join("zoo.cfg");
    let data = directory.path().display();
    let text = format!(
        "tickTime=2000\ndataDir={data}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
    );
    std::fs::write(&config, text).expect("written");
    let mut all = OsString::from(jars);
    all.push("/*");
    let child = Command::new("java")
        .arg("-cp")
        .arg(all)
        .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
        .arg(&config)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("java runs");
    Some(Server { child, port, _directory: directory })
}

/// A server that answers this to everything, and where it listens.
pub(crate) fn garbage(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = address_of(&listener);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (mut stream, mut first) = (stream, [0; 1]);
            // Whoever connects may be gone already.
            if stream.read(&mut first).is_ok() {
                let _ = stream.write_all(answer);
            }
        }
    });
    address
}
