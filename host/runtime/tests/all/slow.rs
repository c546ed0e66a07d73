//! What was slow, at a real replica. What the lines say is in `host/runtime/src/stages/tests.rs`.

use crate::common::{RawClient, config};
use quorate_execute::{CheckpointError, CheckpointSink, CheckpointSource, Context, ReplySink, Service};
use quorate_runtime::Replica;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Takes as many milliseconds as the command says.
struct Sleeper;

impl Service for Sleeper {
    fn execute(&mut self, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        std::thread::sleep(Duration::from_millis(u64::from(command[0])));
        reply.write(&[0; 8]);
    }
    fn query(&self, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn checkpoint(&self, _: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        Ok(())
    }
    fn restore(&mut self, _: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        Ok(())
    }
}

fn metrics(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: replica\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn slow_commands_and_their_requests_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config(directory.path());
    config.health = Some("127.0.0.1:0".into());
    (config.telemetry.slow_execution_ms, config.telemetry.slow_request_ms) = (150, 150);
    let running = Replica::new(config, Box::new(Sleeper)).start().unwrap();
    let metrics = || metrics(running.health_address().unwrap());
    let until = Instant::now() + Duration::from_secs(60);
    while !metrics().contains("\nquorate_leading 1\n") {
        assert!(Instant::now() < until, "it does not lead");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut client = RawClient::connect(&running.address().to_string()).unwrap();
    let session = client.open(1);
    client.add(session, 1, &[200]).expect("done");
    client.add(session, 2, &[0]).expect("done");
    // A replica asks itself ten times in a second.
    std::thread::sleep(Duration::from_millis(200));
    let metrics = metrics();
    for name in ["quorate_slow_executions_total", "quorate_slow_requests_total"] {
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u32>().ok());
        // The machine may be slow enough for more.
        assert!(value.is_some_and(|value| value >= 1), "{name} {value:?}");
    }
    running.stop().unwrap();
}
