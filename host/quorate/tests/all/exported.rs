//! What a program with a service of its own needs, and finds in this one package.

use quorate::{LocalCluster, Options, Protocol, Typed, read_all, read_exact};

/// A `main` that returns the error prints it by `Debug`.
#[test]
fn a_reason_not_to_start_is_a_sentence_wherever_it_is_printed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let start = |replicas| {
        let service = || Box::new(Typed(Nothing)) as _;
        let raft = |config: &mut quorate::Config| config.protocol = Protocol::RAFT;
        LocalCluster::start_with(directory.path(), replicas, service, raft, |_| Options::default())
    };
    drop(start(1).expect("one replica runs"));
    let why = start(1).err().expect("the directory is used");
    assert_eq!(format!("{why:?}"), why.to_string());
    assert!(why.to_string().contains(' '), "{why}");
}

/// Parts of a checkpoint of one's own are read with the same care as those of the program's services.
#[test]
fn parts_of_a_checkpoint_are_read_to_their_end() {
    let (mut source, mut begin) = (&b"head and tail"[..], [0; 4]);
    read_exact(&mut source, &mut begin).expect("there are four bytes");
    assert_eq!(&begin, b"head");
    assert_eq!(read_all(&mut source, 100).expect("few bytes"), b" and tail");
    read_exact(&mut source, &mut begin).expect_err("nothing is left");
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Nothing;

impl quorate::TypedService for Nothing {
    type Command = ();
    type Reply = ();
    type Query = ();
    type Answer = ();

    fn execute(&mut self, (): (), _: &quorate::Context) {}
    fn query(&self, (): (), _: &quorate::Context) {}
}
