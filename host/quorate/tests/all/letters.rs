//! Letters, and replies of single replicas, on a real cluster, one of whose replicas lies in both.

use quorate::client::{Client, FaultModel, LetterQueue, ReadOptions, ReplyWatch};
use quorate::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, Letter, Letters, LocalCluster, Options,
    OwnReplies, Protocol, ReplicaId, ReplySink, RequestNumber, Service, SessionId, read_all,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// Passes each command on to all sessions that said `read`. What a liar sends differs from what it executes.
#[derive(Default)]
struct Board {
    readers: BTreeSet<u64>,
    letters: Letters,
    lies: bool,
}

impl Service for Board {
    fn execute(&mut self, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        if command == b"read" {
            self.readers.insert(ctx.session().number());
        } else {
            let body = if self.lies { b"a lie".to_vec() } else { command.to_vec() };
            for reader in &self.readers {
                self.letters.send(SessionId::from_number(*reader), body.clone()).expect("short");
            }
        }
        reply.write(command);
    }
    fn query(&self, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(&(self.readers.len() as u64).to_le_bytes());
    }
    fn take_letters(&mut self) -> Vec<Letter> {
        self.letters.take()
    }
    fn own_replies(&self) -> Option<&dyn OwnReplies> {
        Some(self)
    }
    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        let state = serde_json::to_vec(&(&self.readers, &self.letters));
        out.write(&state.map_err(|why| CheckpointError::Storage(why.to_string()))?)
    }
    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        let bytes = read_all(from, 1 << 20)?;
        let state = serde_json::from_slice(&bytes).map_err(|_| CheckpointError::Malformed("a board"))?;
        (self.readers, self.letters) = state;
        Ok(())
    }
}

impl OwnReplies for Board {
    fn own(&self, reply: &[u8], own: &mut Vec<u8>) {
        own.extend_from_slice(if self.lies { b"a lie" } else { reply });
    }
}

/// Waits until this is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The third of four replicas lies, and the first one stops for a while.
fn cluster(directory: &tempfile::TempDir) -> LocalCluster {
    let next = AtomicU8::new(0);
    let service = move || {
        let lies = next.fetch_add(1, Ordering::Relaxed) % 4 == 2;
        Box::new(Board { lies, ..Board::default() }) as Box<dyn Service>
    };
    let byzantine = |config: &mut quorate::Config| {
        (config.fault_model, config.protocol) = (FaultModel::Byzantine, Protocol::MOD_SMART);
    };
    LocalCluster::start_with(directory.path(), 4, service, byzantine, |_| Options::default())
        .expect("it starts")
}

#[test]
fn a_liars_letters_and_replies_do_not_count_and_are_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut cluster = cluster(&directory);
    let builder = Client::builder().members(cluster.members()).fault_model(FaultModel::Byzantine);
    let builder = builder.timeout(Duration::from_secs(60));
    let (letters, watch) = (LetterQueue::new(1 << 20), ReplyWatch::new(100));
    let reads = builder.clone().letters(letters.clone()).build_blocking().expect("a client");
    let reader = reads.open_session().expect("a session");
    reader.call_one(b"read").expect("it reads");
    let writes = builder.reply_listener(watch.clone()).build_blocking().expect("a client");
    let writer = writes.open_session().expect("a session");
    let mut next = 1_u64;
    let mut write = |count| {
        for number in next..next + count {
            writer.call_one(format!("news {number}").as_bytes()).expect("it is written");
        }
        for number in next..next + count {
            let letter = letters.recv(Duration::from_secs(30)).expect("a letter");
            assert_eq!((letter.session, letter.number, letter.missed), (reader.id(), number, 0));
            assert_eq!(letter.body, format!("news {number}"));
        }
        next += count;
    };
    write(20);
    // Each replica's own word, also of the one that came too late to count.
    let first = || watch.replies(writer.id(), RequestNumber::new(1));
    until("all replicas answer", || first().len() == 4);
    for reply in first() {
        assert_eq!(reply.agrees, Some(reply.replica != ReplicaId::new(3)), "{:?}", first());
    }
    until("the liar is known", || watch.differed() == [(ReplicaId::new(3), 20)]);
    let replicas = (1..=4).map(ReplicaId::new);
    for (replica, read) in reads.read_each(Vec::new(), replicas, ReadOptions::WEAK) {
        assert_eq!(read.map(|read| read.body).as_deref(), Ok(&1_u64.to_le_bytes()[..]), "{replica}");
    }
    assert_eq!(cluster.stop(ReplicaId::new(1)), None);
    write(5);
    cluster.restart(ReplicaId::new(1)).expect("it starts");
    write(5);
    assert_eq!(letters.try_recv(), None, "none twice");
}
