//! Files that are made here, byte by byte.

use super::taken;
use quorate_zookeeper::error::ZkError;
use quorate_zookeeper::jute::Write as _;
use quorate_zookeeper::records::Acl;
use std::path::{Path, PathBuf};

/// A directory with files.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let place = std::env::temp_dir().join(format!("quorate-import-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&place));
        std::fs::create_dir_all(place.join("version-2")).expect("a directory");
        Self(place)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.0.join("version-2").join(name), bytes).expect("written");
    }

    fn taken(&self) -> Result<crate::support::Zk, String> {
        taken(std::slice::from_ref(&self.0))
    }

    fn refused(&self, part: &str) {
        let why = self.taken().map(drop).expect_err("it is refused");
        assert!(why.contains(part), "{why}");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// One addition after the other, so that it is not the sum that is tested.
fn sum(bytes: &[u8]) -> i64 {
    let (low, high) = bytes.iter().fold((1_u32, 0_u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    i64::from(high << 16 | low)
}

/// A node of a snapshot: path, data, children that were made, and owner.
type Spec<'a> = (&'a str, Option<&'a [u8]>, i32, i64);

fn snapshot(sessions: &[i64], nodes: &[Spec<'_>]) -> Vec<u8> {
    let mut out = b"ZKSN".to_vec();
    out.int(2);
    out.long(-1);
    out.int(sessions.len() as i32);
    for session in sessions {
        out.long(*session);
        out.int(4000);
    }
    out.int(1);
    out.long(7);
    out.list(Some(&[Acl { perms: Acl::READ, ..Acl::OPEN }]), |out, acl| acl.write(out));
    for (path, data, cversion, owner) in nodes {
        out.bytes(Some(path.as_bytes()));
        out.bytes(*data);
        out.long(if *path == "/read" { 7 } else { -1 });
        [1, 1, 50, 60].iter().for_each(|number| out.long(*number));
        [3, *cversion, 2].iter().for_each(|number| out.int(*number));
        out.long(*owner);
        out.long(1);
    }
    out.bytes(Some(b"/"));
    let sum = sum(&out);
    out.long(sum);
    out.bytes(Some(b"/"));
    out
}

/// A log with these transactions: number, operation, and record. Session 9 asks for all of them.
fn log(entries: &[(i64, i32, Vec<u8>)]) -> Vec<u8> {
    let mut out = b"ZKLG".to_vec();
    out.int(2);
    out.long(0);
    for (zxid, kind, record) in entries {
        let mut entry = Vec::new();
        entry.long(9);
        entry.int(1);
        entry.long(*zxid);
        entry.long(1000 + zxid);
        entry.int(*kind);
        entry.extend_from_slice(record);
        out.long(sum(&entry));
        out.bytes(Some(&entry));
        out.push(b'B');
    }
    out
}

fn create(path: &str, ephemeral: bool, cversion: i32) -> Vec<u8> {
    let mut out = Vec::new();
    out.bytes(Some(path.as_bytes()));
    out.bytes(Some(b"new"));
    out.list(Some(&[Acl::OPEN]), |out, acl| acl.write(out));
    out.flag(ephemeral);
    out.int(cversion);
    out
}

fn named(path: &str) -> Vec<u8> {
    let mut out = Vec::new();
    out.bytes(Some(path.as_bytes()));
    out
}

const ROOT: Spec<'_> = ("", Some(b""), 1, 0);

#[test]
fn a_snapshot_and_the_log_behind_it() {
    let place = Place::new("whole");
    place.put("snapshot.a", &snapshot(&[9], &[ROOT, ("/read", None, 0, 0), ("/mine", Some(b"x"), 0, 9)]));
    let mut set = named("/read");
    set.bytes(Some(b"set"));
    set.int(4);
    let multi = |list: &[(i32, Vec<u8>)]| {
        let mut out = Vec::new();
        out.list(Some(list), |out, (kind, record)| {
            out.int(*kind);
            out.bytes(Some(record));
        });
        out
    };
    let failed = multi(&[(1, create("/never", false, 9)), (-1, (-101_i32).to_be_bytes().to_vec())]);
    let done = multi(&[(1, create("/read/child", false, 1)), (13, named("/read")), (2, named("/mine"))]);
    let entries = [
        (0xa, 1, create("/before", false, 5)),
        (0xb, 5, set),
        (0xc, -1, (-101_i32).to_be_bytes().to_vec()),
        (0xd, 14, failed),
        (0xe, 14, done),
        // A new leader.
        (1 << 32 | 1, 1, create("/own", true, 6)),
    ];
    let mut bytes = log(&entries);
    bytes.resize(bytes.len() + 5000, 0);
    place.put("log.5", &bytes);
    let mut zk = place.taken().expect("it is taken over");
    assert_eq!(zk.children("/"), Ok(vec!["own".into(), "read".into(), "zookeeper".into()]));
    assert_eq!(zk.zxid, 1 << 32 | 1);
    let (data, stat) = zk.data("/read").expect("there");
    assert_eq!((data.as_deref(), stat.version, stat.mzxid, stat.mtime), (Some(&b"set"[..]), 4, 0xb, 1011));
    assert_eq!((stat.cversion, stat.num_children, stat.pzxid, stat.aversion), (1, 1, 0xe, 2));
    assert_eq!(zk.acl("/read"), Ok(vec!["1:world:anyone".into()]));
    assert_eq!(zk.exists("/own").map(|stat| stat.ephemeral_owner), Ok(9));
    // Its client does not come back: it ends as all do, a time-out and a tick after the beginning.
    zk.wait(3000);
    assert!(zk.exists("/own").is_ok());
    for _ in 0..2 {
        zk.wait(3000);
    }
    assert_eq!(zk.exists("/own"), Err(ZkError::NoNode));
    assert_eq!(zk.zxid, 1 << 32 | 2, "the next transaction");
}

/// The snapshot has more than its name says: what the log does was done already, or can not be done any more.
#[test]
fn a_fuzzy_snapshot_is_no_error() {
    let place = Place::new("fuzzy");
    place.put("snapshot.3", &snapshot(&[9], &[ROOT, ("/done", Some(b"new"), 0, 0)]));
    let mut gone = named("/gone");
    gone.bytes(Some(b"set"));
    gone.int(1);
    let entries = [
        (4, 1, create("/gone", false, 2)),
        (5, 5, gone),
        (6, 1, create("/gone/child", false, 1)),
        (7, 2, named("/gone/child")),
        (8, 2, named("/gone")),
        (9, 1, create("/done", false, 3)),
        (10, 2, named("/nothing/there")),
    ];
    place.put("log.4", &log(&entries));
    let mut zk = place.taken().expect("it is taken over");
    assert_eq!(zk.children("/"), Ok(vec!["done".into(), "zookeeper".into()]));
    let root = zk.exists("/").expect("there");
    assert_eq!((root.cversion, root.pzxid), (4, 9), "3 made, 1 deleted");
}

#[test]
fn what_is_torn_is_left_out_and_what_is_damaged_refused() {
    let place = Place::new("torn");
    place.refused("no whole snapshot");
    let whole = snapshot(&[], &[ROOT]);
    place.put("snapshot.8", &whole);
    place.refused("there is no log beside");
    for cut in [0, 3, 20, whole.len() - 20, whole.len() - 1] {
        place.put("snapshot.8", &whole[..cut]);
        place.refused("snapshot.8 is not whole");
    }
    let mut flipped = whole.clone();
    flipped[60] ^= 1;
    place.put("snapshot.8", &flipped);
    place.put("snapshot.2", &whole);
    // The older one, and the log behind it.
    let entries: Vec<_> = (3..12).map(|zxid| (zxid, 1, create(&format!("/n{zxid}"), false, -1))).collect();
    let bytes = log(&entries);
    place.put("log.3", &bytes);
    assert_eq!(place.taken().expect("taken").children("/").map(|list| list.len()), Ok(10));
    for cut in 1..120 {
        place.put("log.3", &bytes[..bytes.len() - cut]);
        let left = place.taken().expect("what is whole is taken").children("/").expect("there").len();
        assert!((8..10).contains(&left), "without {cut} bytes {left} are left");
    }
    for (at, bit) in [(16, 1), (20, 1), (24, 1), (25, 1), (26, 1), (27, 2), (24, 0x80), (40, 1), (60, 1)] {
        let mut damaged = bytes.clone();
        damaged[at] ^= bit;
        place.put("log.3", &damaged);
        place.refused("is damaged at byte 16");
    }
    // What the newer one had is not in this log.
    place.put("log.3", &bytes[..bytes.len() - 500]);
    place.put("log.100000001", &log(&[((1 << 32) + 1, 1, create("/late", false, -1))]));
    place.refused("behind transaction");
    std::fs::remove_file(place.0.join("version-2/log.100000001")).expect("there");
    place.put("log.3", &bytes);
    place.put("log.d", &log(&[(0xd, 1, create("/late", false, -1))]));
    place.refused("behind transaction 0xb comes 0xd");
    place.put("log.c", &log(&[(0xc, 99, Vec::new())]));
    place.refused("is damaged at byte 16");
    place.put("log.c", b"something else");
    place.refused("log.c is damaged at byte 0");
}

#[test]
fn a_log_that_ends_before_is_noted() {
    let place = Place::new("early");
    place.put("snapshot.8", &snapshot(&[], &[ROOT, ("/read", None, 0, 0)]));
    place.put("log.3", &log(&[(3, 1, create("/early", false, -1))]));
    let notes = quorate_zookeeper::import::read(std::slice::from_ref(&place.0)).expect("taken").notes;
    assert!(notes[0].contains("the log ends at 0x3") && notes[0].contains("dataLogDir"), "{notes:?}");
}

#[test]
fn rights_that_nobody_can_prove_here_are_noted() {
    let place = Place::new("rights");
    let mut rights = named("/a");
    let list = [(b"x509", b"CN=x"), (b"sasl", b"a@B."), (b"mine", b"...."), (b"mine", b",,,,")];
    let list = list.map(|(scheme, id)| Acl { perms: 31, scheme, id });
    rights.list(Some(&list), |out, acl| acl.write(out));
    rights.int(1);
    place.put("snapshot.1", &snapshot(&[], &[ROOT]));
    place.put("log.2", &log(&[(2, 1, create("/a", false, -1)), (3, 7, rights)]));
    let notes = quorate_zookeeper::import::read(std::slice::from_ref(&place.0)).expect("taken").notes;
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes.iter().all(|note| note.starts_with("1 nodes have rights for ")), "{notes:?}");
}

/// A list of rights that was new while the tree was written is in the log; a session's nodes may have gone before.
#[test]
fn what_a_fuzzy_snapshot_lacks_is_in_the_log() {
    let place = Place::new("lacks");
    let nodes = [ROOT, ("/new", Some(&b"x"[..]), 0, 0), ("/parent", None, 1, 0)];
    let mut bytes = snapshot(&[9], &nodes);
    // The node's list is another one than all that are there.
    let at = bytes.windows(4).position(|part| part == b"/new").expect("there") + 4 + 4 + 1;
    bytes[at..at + 8].copy_from_slice(&77_i64.to_be_bytes());
    bytes.truncate(bytes.len() - 13);
    let checked = sum(&bytes);
    bytes.long(checked);
    bytes.bytes(Some(b"/"));
    place.put("snapshot.3", &bytes);
    let mut gone = Vec::new();
    gone.list(Some(&["/parent/gone"]), |out, path| out.bytes(Some(path.as_bytes())));
    place.put("log.4", &log(&[(4, 1, create("/new", false, -1)), (5, -11, gone)]));
    let mut zk = place.taken().expect("it is taken over");
    assert_eq!(zk.acl("/new"), Ok(vec!["31:world:anyone".into()]));
    assert_eq!(zk.exists("/parent").map(|stat| stat.pzxid), Ok(5));
    place.put("log.4", &log(&[(4, 2, named("/parent"))]));
    place.refused("the node /new has rights that are nowhere");
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let place = Place::new("large");
    place.put("log.9", &log(&[]));
    place.put("snapshot.8", &snapshot(&[9], &[ROOT, ("/e", None, 1, 9), ("/e/b", None, 0, 0)]));
    place.refused("the node /e/b is below one that ends with a session");
    place.put("snapshot.8", &snapshot(&[], &[ROOT, ("/a/b", None, 0, 0)]));
    place.refused("the node /a/b has no parent");
    let long = format!("/{}", "x".repeat(70_000));
    place.put("snapshot.8", &snapshot(&[], &[ROOT, (&long, None, 0, 0)]));
    place.refused("the path of the node /xxx");
    let large = vec![0; 9 << 20];
    place.put("snapshot.8", &snapshot(&[], &[ROOT, ("/large", Some(&large), 0, 0)]));
    place.refused("the data of the node /large has 9437184 bytes");
    assert!(taken(&[Path::new("/no/such/place").to_owned()]).map(drop).is_err());
}

/// A quota says what is there, whatever its node said.
#[test]
fn quotas_are_counted_anew() {
    let place = Place::new("quota");
    let at = |name: &str| format!("/zookeeper/quota/a{name}");
    let (limits, stats) = (at("/zookeeper_limits"), at("/zookeeper_stats"));
    let nodes = [
        ROOT,
        ("/a", Some(&b"12"[..]), 1, 0),
        ("/a/b", Some(b"3"), 0, 0),
        ("/zookeeper", None, 2, 0),
        ("/zookeeper/quota", None, 1, 0),
        ("/zookeeper/quota/a", None, 2, 0),
        (&limits, Some(b"count=-1,bytes=-1=;countHardLimit=3"), 0, 0),
        (&stats, Some(b"count=9,bytes=9"), 0, 0),
    ];
    place.put("snapshot.8", &snapshot(&[], &nodes));
    place.put("log.9", &log(&[]));
    let mut zk = place.taken().expect("taken");
    assert_eq!(zk.data(&stats).map(|(data, _)| data), Ok(Some(b"count=2,bytes=3".to_vec())));
    zk.open();
    zk.create("/a/c", b"", quorate_zookeeper::request::Mode::Persistent).expect("within");
    let over = zk.create("/a/d", b"", quorate_zookeeper::request::Mode::Persistent);
    assert_eq!(over, Err(ZkError::QuotaExceeded));
}
