//! A service that names a deadline is told when it passes, also when nobody asks anything.

use quorate::client::ReadOptions;
use quorate::{
    AgreedTime, CheckpointError, CheckpointSink, CheckpointSource, Client, Context, LocalCluster, ReplySink,
    Service,
};
use quorate_types::Span;
use std::time::{Duration, Instant};

/// Nothing that a test waits for takes longer on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command sets an alarm for so many milliseconds later; the answer to a query is how many rang.
#[derive(Default)]
struct Alarms {
    next: Option<AgreedTime>,
    rang: u64,
}

impl Service for Alarms {
    fn execute(&mut self, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        self.next = Some(ctx.time().plus(Span::from_millis(u64::from(command[0]))));
        reply.write(b"set");
    }
    fn query(&self, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(&self.rang.to_le_bytes());
    }
    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        out.write(&self.next.map_or(0, AgreedTime::nanos).to_le_bytes())?;
        out.write(&self.rang.to_le_bytes())
    }
    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        let mut number = || {
            let mut bytes = [0; 8];
            from.read(&mut bytes).map(|_| u64::from_le_bytes(bytes))
        };
        let (next, rang) = (number()?, number()?);
        self.next = (next > 0).then(|| AgreedTime::from_nanos(next));
        self.rang = rang;
        Ok(())
    }
    fn next_deadline(&self) -> Option<AgreedTime> {
        self.next
    }
    fn deadline_reached(&mut self, ctx: &Context) {
        assert!(self.next.is_some_and(|next| next <= ctx.time()));
        (self.next, self.rang) = (None, self.rang + 1);
    }
}

#[test]
fn a_deadline_passes_on_an_idle_cluster() {
    let directory = tempfile::tempdir().expect("a directory");
    let cluster = LocalCluster::start(&directory.path().join("cluster"), 3, || Box::new(Alarms::default()));
    let cluster = cluster.expect("a cluster");
    // Its session asks for nothing by itself while the test runs.
    let client = Client::builder().members(cluster.members()).session_ttl(Duration::from_secs(3600));
    let client = client.build_blocking().expect("a client");
    let session = client.open_session().expect("a session");
    let rang = || {
        let answer = client.read(Vec::new(), ReadOptions::STRONG).expect("an answer");
        u64::from_le_bytes(answer.body[..].try_into().expect("a number"))
    };
    for round in 0..3u64 {
        assert_eq!(rang(), round);
        session.call_one(&[50]).expect("done");
        let begun = Instant::now();
        while rang() == round {
            assert!(begun.elapsed() < PATIENCE, "nobody was told");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
