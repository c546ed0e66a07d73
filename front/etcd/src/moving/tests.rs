//! Stores that were written for etcd are read again as they were; what etcd itself wrote is read as etcd has it.

use super::bolt::{Source as _, Writer};
use super::import::read_from;
use super::*;
use crate::auth::{Permission, ROLE, USER, User, names, role};
use crate::proto::{bytes_field, int_field, message_field, nested_field};
use crate::service::{Command, Etcd};
use crate::space::{ATTACHED, ENTRY, Entry, GONE, HEAD, KeyValue, Meta, Revision};
use crate::{check_invariants, lease};
use proptest::prelude::*;
use quorate_execute::{Context, ObjectService as _, ReplySink, Store};
use quorate_types::{AgreedTime, Seq, Span};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};

const NOW: AgreedTime = AgreedTime::from_nanos(1 << 60);

/// A store, and the service that changes it.
#[derive(Default)]
struct World {
    store: Store,
    service: Etcd,
}

impl World {
    fn run(&mut self, command: Command, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let (mut message, mut bytes, mut reply) = (Vec::new(), Vec::new(), Vec::new());
        write(&mut message);
        // While authentication is off it does not matter who says it.
        crate::Who::Named(b"root").encode(&mut bytes);
        command.encode(&message, &mut bytes);
        let ctx = Context::at(Seq::new(1), NOW).with_seed(7);
        self.service.execute(&mut self.store, &bytes, &ctx, &mut ReplySink::new(&mut reply, 1 << 20));
        reply
    }

    fn put(&mut self, key: &[u8], value: &[u8], lease: i64) {
        self.run(Command::Put, |out| {
            bytes_field(out, 1, key);
            bytes_field(out, 2, value);
            int_field(out, 3, lease);
        });
    }

    fn delete(&mut self, key: &[u8], end: &[u8]) {
        self.run(Command::DeleteRange, |out| {
            bytes_field(out, 1, key);
            bytes_field(out, 2, end);
        });
    }

    fn compact(&mut self, revision: i64) {
        self.run(Command::Compact, |out| int_field(out, 1, revision));
    }

    fn user(&mut self, name: &[u8], hash: &[u8], roles: &[&[u8]]) {
        self.run(Command::UserAdd, |out| {
            bytes_field(out, 1, name);
            bytes_field(out, 4, hash);
        });
        for role in roles {
            self.run(Command::UserGrantRole, |out| {
                bytes_field(out, 1, name);
                bytes_field(out, 2, role);
            });
        }
    }

    fn revision(&self) -> i64 {
        Meta::read(&self.store).revision
    }
}

/// The file that is written for a store.
fn file_of(store: &Store) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let written = write(&mut file, &store.version(), &BTreeMap::new()).expect("it can be written");
    assert_eq!(written.bytes, file.get_ref().len() as u64);
    file.into_inner()
}

fn imported(file: &Vec<u8>) -> Imported {
    read_from(file).expect("it can be read")
}

/// The objects of a store in one part, without the byte of the part.
fn part(store: &Store, part: u8) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (start, end) = ([part], [part + 1]);
    let objects = store.range(&start, Some(&end));
    objects.map(|(key, value)| (key[1..].to_vec(), value.to_vec())).collect()
}

/// Everything that can be asked for. What an entry says of one that is gone is left out.
fn contents(store: &Store) -> impl PartialEq + std::fmt::Debug + use<> {
    let mut meta = Meta::read(store);
    let mut swept = Store::from_version(&store.version());
    while crate::compact::sweep(&mut swept, &mut meta, &mut Vec::new()) {}
    let entries: BTreeMap<Vec<u8>, (bool, Option<Revision>, Vec<u8>)> = part(&swept, ENTRY)
        .into_iter()
        .map(|(key, bytes)| {
            let entry = Entry::decode(&bytes);
            let before = entry.before.filter(|before| swept.get(before.key().bytes()).is_some());
            (key, (entry.deletes, before, entry.message.to_vec()))
        })
        .collect();
    let parts = [HEAD, GONE, ATTACHED, USER, ROLE].map(|one| part(&swept, one));
    let leases: Vec<(i64, i64)> = lease::all(&swept).collect();
    let numbers = (meta.revision, meta.compacted, meta.auth_revision(), meta.is_guarded(), meta.has_alarms());
    (entries, parts, leases, numbers)
}

fn there_and_back(store: &Store) -> Store {
    let file = file_of(store);
    let found = imported(&file);
    assert_eq!(found.notes, Vec::<String>::new());
    let back = found.state(NOW);
    check_invariants(&back);
    assert_eq!(contents(&back), contents(store));
    assert!(file_of(&back) == file, "the same store has the same file");
    back
}

/// A command, of those that change something.
#[derive(Clone, Debug)]
enum Step {
    Put(u8, usize, u8),
    Delete(u8, u8),
    Txn(Vec<(u8, bool)>),
    Compact(u8),
    Grant(u8),
    Revoke(u8),
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..12_u8;
    let length = prop_oneof![6 => 0..30_usize, 1 => 3000..9000_usize];
    let step = prop_oneof![
        8 => (key(), length, 0..4_u8).prop_map(|(key, length, lease)| Step::Put(key, length, lease)),
        3 => (key(), 1..3_u8).prop_map(|(key, count)| Step::Delete(key, count)),
        2 => proptest::collection::btree_map(key(), any::<bool>(), 1..5)
            .prop_map(|changes| Step::Txn(changes.into_iter().collect())),
        1 => any::<u8>().prop_map(Step::Compact),
        1 => (1..4_u8).prop_map(Step::Grant),
        1 => (1..4_u8).prop_map(Step::Revoke),
    ];
    proptest::collection::vec(step, 0..most)
}

fn take(world: &mut World, step: &Step) {
    match step {
        Step::Put(key, length, lease) => world.put(&[b'k', *key], &vec![*key; *length], i64::from(*lease)),
        Step::Delete(key, count) => world.delete(&[b'k', *key], &[b'k', *key + count]),
        Step::Txn(changes) => {
            world.run(Command::Txn, |out| {
                for (key, puts) in changes {
                    let field = if *puts { 2 } else { 3 };
                    nested_field(out, 2, |out| {
                        nested_field(out, field, |out| bytes_field(out, 1, &[b'k', *key]));
                    });
                }
            });
        }
        Step::Compact(part) => {
            let revision = world.revision() * i64::from(*part) / 255;
            world.compact(revision);
        }
        Step::Grant(id) => {
            world.run(Command::LeaseGrant, |out| {
                int_field(out, 1, 100);
                int_field(out, 2, i64::from(*id));
            });
        }
        Step::Revoke(id) => {
            world.run(Command::LeaseRevoke, |out| int_field(out, 1, i64::from(*id)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_store_goes_there_and_back(before in steps(60), after in steps(20)) {
        let mut world = World::default();
        before.iter().for_each(|step| take(&mut world, step));
        let mut other = World { store: there_and_back(&world.store), ..World::default() };
        // From then on both do the same.
        for step in &after {
            take(&mut world, step);
            take(&mut other, step);
        }
        check_invariants(&other.store);
        prop_assert_eq!(contents(&other.store), contents(&world.store));
    }
}

#[test]
fn users_and_roles_go_there_and_back() {
    let mut world = World::default();
    world.run(Command::RoleAdd, |out| bytes_field(out, 1, b"some"));
    for (kind, key, end) in [(0, &b"c"[..], &b"d"[..]), (2, b"a", b""), (1, b"b", b"\0")] {
        world.run(Command::RoleGrantPermission, |out| {
            bytes_field(out, 1, b"some");
            let granted = Permission { kind, key: key.to_vec(), range_end: end.to_vec() };
            nested_field(out, 2, |out| granted.encode(out));
        });
    }
    world.user(b"root", &bcrypt::hash(b"top", &[1; 16], 4), &[b"root"]);
    world.user(b"ann", &bcrypt::hash(b"secret", &[2; 16], 4), &[b"some", b"root"]);
    world.run(Command::UserAdd, |out| {
        bytes_field(out, 1, b"ben");
        nested_field(out, 3, |out| int_field(out, 1, 1));
    });
    world.run(Command::AuthEnable, |_| {});
    let back = there_and_back(&world.store);
    assert!(Meta::read(&back).is_guarded());
    let ann = User::read(&back, b"ann").expect("ann is there");
    assert!(bcrypt::matches(b"secret", &ann.password) && ann.has(b"some") && ann.has(b"root"));
    assert_eq!(role(&back, b"some").map(|permissions| permissions.len()), Some(3));
}

#[test]
fn nobody_is_locked_out_by_passwords_that_etcd_can_not_compare() {
    let mut world = World::default();
    let ours = [&200_000_u32.to_be_bytes()[..], &[9; 48]].concat();
    world.user(b"root", &ours, &[b"root"]);
    world.user(b"ann", &ours, &[]);
    let export = |world: &World, passwords: &[(&[u8], &[u8])]| {
        let passwords = passwords.iter().map(|(name, password)| (name.to_vec(), password.to_vec())).collect();
        let mut file = Cursor::new(Vec::new());
        write(&mut file, &world.store.version(), &passwords).map(|written| (written.notes, file.into_inner()))
    };
    let (notes, _) = export(&world, &[]).expect("authentication is off");
    assert!(notes.len() == 1 && notes[0].contains("ann, root"), "{notes:?}");
    world.run(Command::AuthEnable, |_| {});
    assert!(matches!(export(&world, &[]), Err(ExportError::NoRoot)));
    assert!(matches!(export(&world, &[(b"eve", b"x")]), Err(ExportError::NoUser(_))));
    let (notes, file) = export(&world, &[(b"root", b"new")]).expect("root can log in");
    assert!(notes.len() == 1 && notes[0].contains("users, which were set here: ann."), "{notes:?}");
    let store = imported(&file).state(NOW);
    assert!(bcrypt::matches(b"new", &User::read(&store, b"root").expect("root").password));
    assert_eq!(User::read(&store, b"ann").expect("ann").password, ours, "for the way back");
}

#[test]
fn a_state_of_another_service_is_refused() {
    let mut store = Store::new();
    store.put(b"greeting", b"hello");
    let refused = write(Cursor::new(Vec::new()), &store.version(), &BTreeMap::new());
    assert!(matches!(refused, Err(ExportError::NotEtcd)));
    let refused = |part: u8, value: &[u8]| {
        let mut store = Store::new();
        store.put(&[part], value);
        write(Cursor::new(Vec::new()), &store.version(), &BTreeMap::new()).is_err()
    };
    assert!(refused(b'm', &[0x80]) && refused(b'r', b"xx"));
}

/// What a real etcd 3.6.16 saved. It was told, by etcdctl:
/// put a 1, put a 2, put b 1, del a, put c x, put a 3; a transaction: put t/1 one, put t/2 two, del b; put c y; compaction 5; a lease of 1000 s
/// and one of 77 s; put held yes and put held no with the first one; put big with 9000 times z; del c; the role some with permissions for t/
/// and a; the users root (top), ann (secret, with the role some) and ben (without a password); auth enable.
fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/etcd-3.6.db")
}

#[test]
fn what_a_real_etcd_saved_is_read() {
    let found = read(&fixture()).expect("it can be read");
    assert_eq!(found.notes, Vec::<String>::new());
    let counts = Counts {
        keys: 5,
        entries: 12,
        leases: 2,
        users: 3,
        roles: 1,
        revision: 13,
        compacted: 5,
        is_guarded: true,
    };
    assert_eq!(found.counts(), counts);
    let store = found.state(NOW);
    check_invariants(&store);
    let meta = Meta::read(&store);
    assert_eq!((meta.revision, meta.compacted, meta.auth_revision()), (13, 5, 9));
    let heads: Vec<(Vec<u8>, i64, i64)> = part(&store, HEAD)
        .iter()
        .map(|(key, bytes)| {
            let head = crate::space::Head::decode(bytes);
            (key.clone(), head.create, head.version)
        })
        .collect();
    let expected: [(&[u8], i64, i64); 5] =
        [(b"a", 7, 1), (b"big", 12, 1), (b"held", 10, 2), (b"t/1", 8, 1), (b"t/2", 8, 1)];
    assert_eq!(heads, expected.map(|(key, create, version)| (key.to_vec(), create, version)));
    let at = |main, sub| crate::space::entry_at(&store, Revision { main, sub }).expect("an entry");
    assert!(at(5, 0).deletes, "a deletion at the compacted revision stays");
    assert!(at(8, 2).deletes && at(8, 2).key() == b"b" && at(13, 0).key() == b"c");
    assert_eq!(KeyValue::decode(at(12, 0).message).value, vec![b'z'; 9000]);
    // The time of leases begins with the cluster.
    let ends: Vec<u64> = found.ends(NOW);
    assert_eq!(ends, [77, 1000].map(|ttl| NOW.plus(Span::from_secs(ttl)).nanos()));
    assert_eq!(part(&store, ATTACHED).len(), 1);
    let users: Vec<&[u8]> = names(&store, USER).map(|(name, _)| name).collect();
    assert_eq!(users, [&b"ann"[..], b"ben", b"root"]);
    let ann = User::read(&store, b"ann").expect("ann is there");
    assert!(bcrypt::matches(b"secret", &ann.password) && !bcrypt::matches(b"Secret", &ann.password));
    assert!(User::read(&store, b"ben").expect("ben is there").no_password);
    there_and_back(&store);
}

impl Imported {
    /// When the leases end, in that order.
    fn ends(&self, begins: AgreedTime) -> Vec<u64> {
        let store = self.state(begins);
        let ends = part(&store, crate::space::ENDING).into_keys();
        ends.map(|key| u64::from_be_bytes(*key.first_chunk().expect("a moment"))).collect()
    }
}

#[test]
fn damaged_and_cut_files_are_refused() {
    let bytes = std::fs::read(fixture()).expect("it is there");
    for at in (0..bytes.len()).filter(|at| at % 4096 < 64 || at % 61 == 0).chain([bytes.len() - 1]) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 4;
        assert!(matches!(read_from(&bytes), Err(ImportError::Sum)), "byte {at}");
    }
    for len in (0..bytes.len()).filter(|len| len % 512 < 2 || len % 512 == 32 || len % 97 == 0) {
        let cut = bytes[..len].to_vec();
        match read_from(&cut) {
            // As in the directory of an etcd.
            Ok(found) => assert!(len == bytes.len() - 32 && found.notes[0].contains("no SHA-256")),
            Err(why) => assert!(!why.to_string().is_empty()),
        }
    }
    // Damage that no check sum tells of ends in an error or in another state, and in nothing worse.
    let len = bytes.len() - 32;
    for at in (0..len).filter(|at| at % 4096 < 256 || at % 29 == 0) {
        let mut bytes = bytes[..len].to_vec();
        bytes[at] ^= 1 << (at % 8);
        if let Ok(found) = read_from(&bytes) {
            check_invariants(&found.state(NOW));
        }
    }
}

#[test]
fn what_is_no_file_of_etcd_is_refused() {
    let refused = |path: &Path| read(path).expect_err("it is refused").to_string();
    assert!(refused(Path::new("/nowhere")).contains("can not read it"));
    assert!(refused(Path::new(env!("CARGO_MANIFEST_DIR"))).contains("it is no file"));
    assert!(matches!(read_from(&b"hello".to_vec()), Err(ImportError::Length(5))));
    assert!(matches!(read_from(&vec![0; 8192]), Err(ImportError::Unreadable(BoltError::NoDatabase))));
    let other = made(&[("other", &[(b"a", b"b")])]);
    assert!(matches!(read_from(&other), Err(ImportError::NotEtcd)));
}

/// A bucket by its name, with keys and values.
type Made<'a> = (&'a str, &'a [(&'a [u8], &'a [u8])]);

/// A database without a check sum.
fn made(buckets: &[Made<'_>]) -> Vec<u8> {
    let mut writer = Writer::new(Cursor::new(Vec::new())).expect("memory");
    for (name, items) in buckets {
        let mut bucket = writer.bucket();
        items.iter().for_each(|(key, value)| bucket.put(key, value).expect("memory"));
        bucket.end(name).expect("memory");
    }
    let bytes = writer.finish().expect("memory").into_inner();
    assert_eq!(bytes.bytes().expect("memory") % 512, 0);
    bytes
}

fn at(main: i64, deletes: bool) -> Vec<u8> {
    layout::revision(Revision { main, sub: 0 }, deletes)
}

/// A `KeyValue` of a key that was put once.
fn put_at(key: &[u8], revision: i64, value: &[u8], lease: i64) -> Vec<u8> {
    let mut out = Vec::new();
    bytes_field(&mut out, 1, key);
    int_field(&mut out, 2, revision);
    int_field(&mut out, 3, revision);
    int_field(&mut out, 4, 1);
    bytes_field(&mut out, 5, value);
    int_field(&mut out, 6, lease);
    out
}

#[test]
fn what_etcd_began_to_compact_is_compacted() {
    let mut gone = Vec::new();
    bytes_field(&mut gone, 1, b"b");
    let entries: [(&[u8], &[u8]); 5] = [
        (&at(2, false), &put_at(b"a", 2, b"1", 0)),
        (&at(3, false), &put_at(b"b", 3, b"1", 0)),
        (&at(4, true), &gone),
        (&at(5, false), &put_at(b"c", 5, b"1", 0)),
        // As `etcdutl snapshot restore --bump-revision` does it.
        (&at(1000, false), b""),
    ];
    let meta: [(&[u8], &[u8]); 2] =
        [(b"finishedCompactRev", &at(2, false)), (b"scheduledCompactRev", &at(1000, false))];
    let found = imported(&made(&[("key", &entries), ("meta", &meta)]));
    let counts = Counts { keys: 2, entries: 2, revision: 1000, compacted: 1000, ..Counts::default() };
    assert_eq!(found.counts(), counts);
    let store = found.state(NOW);
    check_invariants(&store);
    assert!(part(&store, GONE).is_empty() && !Meta::read(&store).is_sweeping());
}

#[test]
fn leases_have_the_time_that_etcd_would_give_them() {
    let lease = |ttl, left| {
        let mut out = Vec::new();
        [5, ttl, left].iter().zip(1..).for_each(|(number, field)| int_field(&mut out, field, *number));
        made(&[
            ("key", &[(&at(2, false), &put_at(b"a", 2, b"", 5))]),
            ("lease", &[(&5_i64.to_be_bytes(), &out)]),
        ])
    };
    let left = |file: &Vec<u8>| {
        let ends = imported(file).ends(NOW);
        (ends[0] - NOW.nanos()) / Span::from_secs(1).nanos()
    };
    assert_eq!(left(&lease(100, 0)), 100, "all its time anew");
    assert_eq!(left(&lease(100, 30)), 30, "unless etcd noted what is left");
    assert_eq!(left(&lease(1, 0)), 2, "etcd makes short ones longer, too");
    let other = made(&[("key", &[]), ("lease", &[(&6_i64.to_be_bytes(), &[8, 5, 16, 9])])]);
    assert!(matches!(read_from(&other), Err(ImportError::Unfit("lease", _))));
}

#[test]
fn what_can_not_be_taken_over_is_said() {
    let entry = put_at(b"a", 2, b"", 77);
    let entries: [(&[u8], &[u8]); 1] = [(&at(2, false), &entry)];
    let alarm = |kind| [8, 1, 16, kind];
    let file = made(&[
        ("key", &entries),
        ("alarm", &[(&alarm(1), b""), (&alarm(2), b"")]),
        ("authUsers", &[(b"ann", b"\x12\x07$2a$31$\x1a\x04none")]),
        ("meta", &[(b"storageVersion", b"3.7.0")]),
        ("new", &[]),
    ]);
    let found = imported(&file);
    let notes = found.notes.join("\n");
    for part in [
        "3.7.0",
        "buckets new",
        "1 keys name a lease",
        "NOSPACE",
        "CORRUPT",
        "no more: none",
        "cost is above 16: ann",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    let store = found.state(NOW);
    check_invariants(&store);
    assert!(Meta::read(&store).is_alarmed(2) && !Meta::read(&store).is_alarmed(1));
    // The alarm goes along; etcd's own way to lift it works on it.
    let again = imported(&file_of(&store));
    assert!(again.notes.iter().any(|note| note.contains("CORRUPT")));
}

#[test]
fn entries_that_make_no_sense_are_refused() {
    let refused =
        |key: &[u8], value: &[u8]| read_from(&made(&[("key", &[(key, value)])])).expect_err("refused");
    let good = put_at(b"a", 2, b"", 0);
    assert!(read_from(&made(&[("key", &[(&at(2, false), &good)])])).is_ok());
    for (key, value) in [
        (&at(3, false)[..], &good[..]),
        (&at(0, false), &good),
        (&at(-1, false), &good),
        (&at(2, false)[..16], &good),
        (&[&at(2, false)[..], b"x"].concat(), &good),
        (&at(2, false), b"\xff"),
    ] {
        assert!(matches!(refused(key, value), ImportError::Unfit("key", _)), "{key:?}");
    }
    let large = put_at(b"a", 2, &vec![0; 3 << 19], 0);
    assert!(matches!(refused(&at(2, false), &large), ImportError::TooLarge(..)));
    let on = made(&[("key", &[]), ("auth", &[(b"authEnabled", b"\x01")])]);
    assert!(matches!(read_from(&on), Err(ImportError::NoRoot)));
    let mut role = Vec::new();
    message_field(&mut role, 2, b"\xff");
    assert!(matches!(
        read_from(&made(&[("key", &[]), ("authRoles", &[(b"r", &role)])])),
        Err(ImportError::Unfit("authRoles", _))
    ));
}

/// Numbers with which a replica would count from the beginning again, or read for ever.
#[test]
fn numbers_that_no_etcd_reaches_are_refused() {
    let unfit = |file: &Vec<u8>| matches!(read_from(file), Err(ImportError::Unfit(..)));
    let far = 1 << 62;
    assert!(unfit(&made(&[("key", &[(&at(far, false), &put_at(b"a", far, b"", 0))])])));
    let sub = layout::revision(Revision { main: 2, sub: u32::MAX }, false);
    assert!(unfit(&made(&[("key", &[(&sub, &put_at(b"a", 2, b"", 0))])])));
    assert!(unfit(&made(&[("key", &[]), ("meta", &[(b"finishedCompactRev", &at(far, false))])])));
    let mut often = Vec::new();
    bytes_field(&mut often, 1, b"a");
    [2, 2, i64::MAX].iter().zip(2..).for_each(|(number, field)| int_field(&mut often, field, *number));
    assert!(unfit(&made(&[("key", &[(&at(2, false), &often)])])));
    // A put and a deletion of one revision.
    let mut gone = Vec::new();
    bytes_field(&mut gone, 1, b"a");
    let twice: [(&[u8], &[u8]); 2] = [(&at(2, false), &put_at(b"a", 2, b"", 0)), (&at(2, true), &gone)];
    assert!(unfit(&made(&[("key", &twice)])));
}

#[test]
fn names_that_no_object_can_have_are_refused() {
    let long = |name: &[u8]| made(&[("key", &[(&at(2, false), &put_at(name, 2, b"", 0))])]);
    let refused = read_from(&long(&[b'\x1b'; 70_000])).expect_err("refused");
    assert!(matches!(refused, ImportError::LongName(..)));
    let said = refused.to_string();
    assert!(said.len() < 1000 && !said.contains('\x1b'), "{said}");
    assert!(read_from(&long(&[b'a'; (64 << 10) - 16])).is_ok());
}

#[test]
fn a_root_that_can_not_log_in_is_told_before() {
    let file = made(&[
        ("key", &[]),
        ("auth", &[(b"authEnabled", b"\x01")]),
        ("authUsers", &[(b"root", b"\x12\x07$2a$31$\x1a\x04root")]),
    ]);
    let refused = read_from(&file).expect_err("refused").to_string();
    assert!(refused.contains("--bcrypt-cost") && refused.contains("auth disable"), "{refused}");
}
