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
    for at in [16, 20, 40, 60] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        place.put("log.3", &damaged);
        assert!(place.taken().is_err(), "byte {at}");
    }
    place.put("log.3", &bytes);
    place.put("log.d", &log(&[(0xd, 1, create("/late", false, -1))]));
    place.refused("behind transaction 0xb comes 0xd");
    place.put("log.c", &log(&[(0xc, 99, Vec::new())]));
    place.refused("is damaged at byte 16");
    place.put("log.c", b"something else");
    place.refused("log.c is damaged at byte 0");
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let place = Place::new("large");
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
    let mut zk = place.taken().expect("taken");
    assert_eq!(zk.data(&stats).map(|(data, _)| data), Ok(Some(b"count=2,bytes=3".to_vec())));
    zk.open();
    zk.create("/a/c", b"", quorate_zookeeper::request::Mode::Persistent).expect("within");
    let over = zk.create("/a/d", b"", quorate_zookeeper::request::Mode::Persistent);
    assert_eq!(over, Err(ZkError::QuotaExceeded));
}
