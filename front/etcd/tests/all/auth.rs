//! Users, roles, permissions and tokens: who may do what, in the order of the log.

use crate::support::{CompareReq, DeleteReq, OpReq, PutReq, ROOM, RangeReq, Subject, TxnReq};
use quorate_etcd::proto::{
    bytes_field, flag_field, int_field, message_field, nested_field, read_number, string,
};
use quorate_etcd::{
    AuthQuery, Command, EtcdError, Query, RangeQuery, Reply, TOKEN_BYTES, Who, check_invariants,
};
use quorate_types::Span;

type Outcome = Result<(), EtcdError>;

const ROOT: Who<'static> = Who::Named(b"root");
const ANN: Who<'static> = Who::Named(b"ann");
const ALL: &[u8] = &[0];

/// A store, and requests on somebody's behalf.
struct World(Subject);

impl World {
    fn run_as(&mut self, who: Who<'_>, command: Command, message: &[u8]) -> Result<Vec<u8>, EtcdError> {
        let mut bytes = Vec::new();
        who.encode(&mut bytes);
        command.encode(message, &mut bytes);
        let reply = self.0.raw(&bytes, ROOM);
        check_invariants(self.0.service.objects());
        Reply::decode(&reply).map(|done| done.body.to_vec())
    }

    fn ask_as(&self, who: Who<'_>, query: &Query<'_>) -> Result<Vec<u8>, EtcdError> {
        let mut bytes = Vec::new();
        who.encode(&mut bytes);
        query.encode(&mut bytes);
        Reply::decode(&self.0.ask_raw(&bytes, ROOM)).map(|done| done.body.to_vec())
    }

    /// A command with these strings in fields 1, 2 and 3.
    fn say(&mut self, who: Who<'_>, command: Command, texts: [&[u8]; 3]) -> Outcome {
        let mut message = Vec::new();
        (1..).zip(texts).for_each(|(field, text)| bytes_field(&mut message, field, text));
        self.run_as(who, command, &message).map(drop)
    }

    fn user(&mut self, name: &[u8]) -> Outcome {
        let mut message = Vec::new();
        bytes_field(&mut message, 1, name);
        bytes_field(&mut message, 4, b"hash");
        self.run_as(ROOT, Command::UserAdd, &message).map(drop)
    }

    fn grant(&mut self, role: &[u8], kind: i64, key: &[u8], end: &[u8]) -> Outcome {
        let mut message = Vec::new();
        bytes_field(&mut message, 1, role);
        nested_field(&mut message, 2, |out| {
            int_field(out, 1, kind);
            bytes_field(out, 2, key);
            bytes_field(out, 3, end);
        });
        self.run_as(ROOT, Command::RoleGrantPermission, &message).map(drop)
    }

    fn put(&mut self, who: Who<'_>, request: &PutReq) -> Outcome {
        let mut message = Vec::new();
        request.encode(&mut message);
        self.run_as(who, Command::Put, &message).map(drop)
    }

    fn delete(&mut self, who: Who<'_>, key: &[u8], end: &[u8], prev_kv: bool) -> Outcome {
        let mut message = Vec::new();
        DeleteReq { key: key.to_vec(), end: end.to_vec(), prev_kv }.encode(&mut message);
        self.run_as(who, Command::DeleteRange, &message).map(drop)
    }

    fn txn(&mut self, who: Who<'_>, request: &TxnReq) -> Outcome {
        let mut message = Vec::new();
        request.encode(&mut message);
        self.run_as(who, Command::Txn, &message).map(drop)
    }

    fn range(&self, who: Who<'_>, key: &[u8], end: &[u8]) -> Outcome {
        let mut message = Vec::new();
        RangeReq { key: key.to_vec(), end: end.to_vec(), ..RangeReq::default() }.encode(&mut message);
        let query = Query::Range(RangeQuery { continued: false, skip: 0, request: &message });
        self.ask_as(who, &query).map(drop)
    }

    fn auth(&self, who: Who<'_>, query: AuthQuery<'_>) -> Result<Vec<u8>, EtcdError> {
        self.ask_as(who, &Query::Auth(query))
    }

    /// Root and ann, who may read `[b, d)` and write `[c, e)`.
    fn guarded() -> Self {
        let mut world = Self(Subject::new());
        world.user(b"root").expect("done");
        world.user(b"ann").expect("done");
        world.say(ROOT, Command::RoleAdd, [b"some", b"", b""]).expect("done");
        world.grant(b"some", 0, b"b", b"d").expect("done");
        world.grant(b"some", 1, b"c", b"e").expect("done");
        world.say(ROOT, Command::UserGrantRole, [b"ann", b"some", b""]).expect("done");
        assert_eq!(world.say(ROOT, Command::AuthEnable, [b""; 3]), Err(EtcdError::RootRoleNotExist));
        world.say(ROOT, Command::UserGrantRole, [b"root", b"root", b""]).expect("done");
        world.say(ROOT, Command::AuthEnable, [b""; 3]).expect("done");
        world
    }

    fn revision(&self) -> u64 {
        read_number(&mut self.auth(ROOT, AuthQuery::Password(b"ann")).expect("there").as_slice())
            .expect("a number")
    }

    fn authenticate(&mut self, name: &[u8], revision: u64, digest: &[u8]) -> Outcome {
        let mut message = Vec::new();
        bytes_field(&mut message, 1, name);
        int_field(&mut message, 2, revision as i64);
        bytes_field(&mut message, 3, digest);
        self.run_as(Who::Nobody, Command::Authenticate, &message).map(drop)
    }
}

const DENIED: Outcome = Err(EtcdError::PermissionDenied);

#[test]
fn while_it_is_off_everybody_may_do_everything() {
    let mut world = World(Subject::new());
    for who in [Who::Nobody, ANN, Who::Token(&[7; TOKEN_BYTES])] {
        assert_eq!(world.put(who, &PutReq::new(b"a", b"1")), Ok(()));
        assert_eq!(world.range(who, b"a", b""), Ok(()));
    }
    assert_eq!(world.say(Who::Nobody, Command::AuthEnable, [b""; 3]), Err(EtcdError::RootUserNotExist));
    assert_eq!(world.authenticate(b"root", 1, &[1; TOKEN_BYTES]), Err(EtcdError::AuthNotEnabled));
    // Not on, at revision 1.
    let status = world.auth(Who::Nobody, AuthQuery::Status).expect("there");
    assert_eq!(status, [3 << 3, 1]);
}

/// What a member vouches for at one revision of users and roles is worth nothing at another one.
#[test]
fn a_signed_name_holds_for_one_revision() {
    let mut world = World::guarded();
    let status = world.auth(ROOT, AuthQuery::Status).expect("there");
    let revision = u64::from(status[status.len() - 1]);
    assert_eq!(world.put(Who::Signed(b"root", revision), &PutReq::new(b"a", b"1")), Ok(()));
    for other in [0, 1, revision - 1, revision + 1, u64::MAX] {
        let refused = world.put(Who::Signed(b"root", other), &PutReq::new(b"a", b"2"));
        assert_eq!(refused, Err(EtcdError::InvalidAuthToken), "revision {other}");
    }
    assert_eq!(world.put(Who::Signed(b"none", revision), &PutReq::new(b"a", b"1")), DENIED);
    world.say(ROOT, Command::RoleAdd, [b"more", b"", b""]).expect("done");
    let refused = world.range(Who::Signed(b"root", revision), b"a", b"");
    assert_eq!(refused, Err(EtcdError::InvalidAuthToken));
    assert_eq!(world.range(Who::Signed(b"root", revision + 1), b"a", b""), Ok(()));
}

#[test]
fn permissions_say_which_keys_may_be_read_and_written() {
    let mut world = World::guarded();
    assert_eq!(world.put(Who::Nobody, &PutReq::new(b"c", b"1")), Err(EtcdError::UserEmpty));
    assert_eq!(world.range(Who::Nobody, b"c", b""), Err(EtcdError::UserEmpty));
    assert_eq!(world.put(Who::Named(b"none"), &PutReq::new(b"c", b"1")), DENIED);
    assert_eq!(world.put(ROOT, &PutReq::new(b"a", b"1")), Ok(()));
    for (key, reads, writes) in [
        (&b"a"[..], DENIED, DENIED),
        (b"b", Ok(()), DENIED),
        (b"c", Ok(()), Ok(())),
        (b"czz", Ok(()), Ok(())),
        (b"d", DENIED, Ok(())),
        (b"e", DENIED, DENIED),
    ] {
        assert_eq!(world.range(ANN, key, b""), reads, "{key:?}");
        assert_eq!(world.put(ANN, &PutReq::new(key, b"1")), writes, "{key:?}");
        // What was there may be seen only by who may read it.
        let shown = PutReq { prev_kv: true, ..PutReq::new(key, b"1") };
        assert_eq!(world.put(ANN, &shown), writes.and(reads), "{key:?}");
        assert_eq!(world.delete(ANN, key, b"", true), writes.and(reads), "{key:?}");
    }
    assert_eq!(world.range(ANN, b"b", b"d"), Ok(()));
    assert_eq!(world.range(ANN, b"b", b"da"), DENIED);
    assert_eq!(world.range(ANN, b"b", ALL), DENIED);
    assert_eq!(world.delete(ANN, b"c", b"e", false), Ok(()));
    assert_eq!(world.delete(ANN, b"c", ALL, false), DENIED);
    assert_eq!(world.put(ANN, &PutReq::new(b"", b"1")), Err(EtcdError::EmptyKey));
}

#[test]
fn permissions_are_put_together() {
    let mut world = World::guarded();
    world.grant(b"some", 2, b"d", b"").expect("done");
    assert_eq!(world.range(ANN, b"b", b"d\0"), Ok(()));
    assert_eq!(world.range(ANN, b"b", b"d\0\0"), DENIED);
    world.grant(b"some", 0, b"d", ALL).expect("done");
    assert_eq!(world.range(ANN, b"b", ALL), Ok(()));
    assert_eq!(world.range(ANN, b"a", ALL), DENIED);
    // Granted again, it is replaced.
    world.grant(b"some", 1, b"d", ALL).expect("done");
    assert_eq!(world.range(ANN, b"b", ALL), DENIED);
    assert_eq!(world.delete(ANN, b"c", ALL, false), Ok(()));
    world.say(ROOT, Command::RoleRevokePermission, [b"some", b"d", ALL]).expect("done");
    assert_eq!(world.delete(ANN, b"c", ALL, false), DENIED);
    let again = world.say(ROOT, Command::RoleRevokePermission, [b"some", b"d", ALL]);
    assert_eq!(again, Err(EtcdError::PermissionNotGranted));
}

#[test]
fn transactions_are_checked_on_both_branches() {
    let mut world = World::guarded();
    let put = |key: &[u8]| OpReq::Put(PutReq::new(key, b"1"));
    let read = |key: &[u8]| OpReq::Range(RangeReq { key: key.to_vec(), ..RangeReq::default() });
    let compare = |key: &[u8]| CompareReq {
        relation: 0,
        target: 0,
        key: key.to_vec(),
        end: vec![],
        number: 0,
        value: vec![],
    };
    let txn = |compares: Vec<CompareReq>, success, failure| TxnReq { compare: compares, success, failure };
    assert_eq!(world.txn(ANN, &txn(vec![compare(b"b")], vec![put(b"c")], vec![read(b"b")])), Ok(()));
    assert_eq!(world.txn(ANN, &txn(vec![compare(b"d")], vec![put(b"c")], vec![])), DENIED);
    assert_eq!(world.txn(ANN, &txn(vec![], vec![put(b"c")], vec![put(b"b")])), DENIED);
    let inner = OpReq::Txn(txn(vec![], vec![], vec![read(b"a")]));
    assert_eq!(world.txn(ANN, &txn(vec![], vec![put(b"c"), inner], vec![])), DENIED);
    let mut message = Vec::new();
    txn(vec![compare(b"a")], vec![read(b"b")], vec![]).encode(&mut message);
    assert_eq!(world.ask_as(ANN, &Query::Txn(&message)).map(drop), DENIED);
    assert_eq!(world.ask_as(ROOT, &Query::Txn(&message)).map(drop), Ok(()));
}

#[test]
fn a_lease_is_guarded_by_its_keys() {
    let mut world = World::guarded();
    let lease = |id: i64, keys: bool| {
        let mut message = Vec::new();
        int_field(&mut message, 1, id);
        flag_field(&mut message, 2, keys);
        message
    };
    let grant = |id: i64| [&[8, 100, 16][..], &[id as u8]].concat();
    assert_eq!(world.run_as(Who::Nobody, Command::LeaseGrant, &grant(1)), Err(EtcdError::UserEmpty));
    for id in [1, 2] {
        world.run_as(ANN, Command::LeaseGrant, &grant(id)).expect("done");
    }
    let put = |key: &[u8], lease| PutReq { lease, ..PutReq::new(key, b"1") };
    assert_eq!(world.put(ANN, &put(b"c", 1)), Ok(()));
    assert_eq!(world.put(ROOT, &put(b"a", 2)), Ok(()));
    assert_eq!(world.put(ANN, &put(b"c", 2)), DENIED);
    for command in [Command::LeaseKeepAlive, Command::LeaseRevoke] {
        assert_eq!(world.run_as(ANN, command, &lease(2, false)).map(drop), DENIED);
        assert_eq!(world.run_as(Who::Nobody, command, &lease(1, false)), Err(EtcdError::UserEmpty));
    }
    assert_eq!(world.run_as(ANN, Command::LeaseTimeToLive, &lease(2, false)).map(drop), Ok(()));
    assert_eq!(world.run_as(ANN, Command::LeaseTimeToLive, &lease(2, true)).map(drop), DENIED);
    assert_eq!(world.ask_as(ANN, &Query::Leases).map(drop), DENIED);
    assert_eq!(world.ask_as(ROOT, &Query::Leases).map(drop), Ok(()));
    assert_eq!(world.run_as(ANN, Command::LeaseRevoke, &lease(1, false)).map(drop), Ok(()));
}

#[test]
fn only_root_manages_and_root_can_not_be_lost() {
    let mut world = World::guarded();
    assert_eq!(world.say(ANN, Command::RoleAdd, [b"more", b"", b""]), DENIED);
    assert_eq!(world.say(Who::Nobody, Command::RoleAdd, [b"more", b"", b""]), Err(EtcdError::UserEmpty));
    assert_eq!(world.say(Who::Named(b"none"), Command::AuthDisable, [b""; 3]), Err(EtcdError::UserNotFound));
    assert_eq!(world.run_as(ANN, Command::Compact, &[8, 1]).map(drop), DENIED);
    assert_eq!(world.run_as(ROOT, Command::Compact, &[8, 1]).map(drop), Ok(()));
    let lost = Err(EtcdError::InvalidAuthMgmt);
    assert_eq!(world.say(ROOT, Command::UserDelete, [b"root", b"", b""]), lost);
    assert_eq!(world.say(ROOT, Command::UserRevokeRole, [b"root", b"root", b""]), lost);
    assert_eq!(world.say(ROOT, Command::RoleDelete, [b"root", b"", b""]), lost);
    assert_eq!(world.user(b"ann"), Err(EtcdError::UserAlreadyExist));
    assert_eq!(world.user(b""), Err(EtcdError::UserEmpty));
    assert_eq!(world.grant(b"some", 0, b"", b""), lost);
    assert_eq!(world.grant(b"some", 0, b"b", b"a"), lost);
    assert_eq!(world.grant(b"none", 0, b"b", b""), Err(EtcdError::RoleNotFound));
    assert_eq!(
        world.say(ROOT, Command::RoleGrantPermission, [b"some", b"", b""]),
        Err(EtcdError::PermissionNotGiven)
    );
    assert_eq!(world.say(ROOT, Command::UserGrantRole, [b"ann", b"none", b""]), Err(EtcdError::RoleNotFound));
    assert_eq!(
        world.say(ROOT, Command::UserRevokeRole, [b"ann", b"none", b""]),
        Err(EtcdError::RoleNotGranted)
    );
    // A role that goes is taken from who has it.
    assert_eq!(world.say(ROOT, Command::RoleDelete, [b"some", b"", b""]), Ok(()));
    assert_eq!(world.put(ANN, &PutReq::new(b"c", b"1")), DENIED);
    assert_eq!(world.say(ROOT, Command::AuthDisable, [b""; 3]), Ok(()));
    assert_eq!(world.put(Who::Nobody, &PutReq::new(b"c", b"1")), Ok(()));
}

#[test]
fn what_somebody_may_ask_about_themselves() {
    let world = World::guarded();
    let named = |name: &[u8]| {
        let mut message = Vec::new();
        bytes_field(&mut message, 1, name);
        message
    };
    let mut roles = Vec::new();
    message_field(&mut roles, 2, b"some");
    assert_eq!(world.auth(ANN, AuthQuery::UserGet(&named(b"ann"))), Ok(roles.clone()));
    assert_eq!(world.auth(ROOT, AuthQuery::RoleList), Ok(roles));
    assert_eq!(world.auth(ANN, AuthQuery::UserGet(&named(b"root"))).map(drop), DENIED);
    assert_eq!(world.auth(ANN, AuthQuery::RoleGet(&named(b"root"))).map(drop), DENIED);
    assert!(world.auth(ANN, AuthQuery::RoleGet(&named(b"some"))).is_ok());
    assert_eq!(world.auth(ANN, AuthQuery::UserList).map(drop), DENIED);
    assert_eq!(world.auth(ANN, AuthQuery::Status).map(drop), DENIED);
    assert_eq!(world.auth(ANN, AuthQuery::IsRoot).map(drop), DENIED);
    assert_eq!(world.auth(ANN, AuthQuery::IsNamed), Ok(vec![]));
    assert_eq!(world.auth(Who::Nobody, AuthQuery::IsNamed), Err(EtcdError::UserEmpty));
    let range = |key: &[u8], end: &[u8]| {
        let mut range = Vec::new();
        string(&mut range, key);
        string(&mut range, end);
        range
    };
    assert_eq!(world.auth(ANN, AuthQuery::MayRead(&range(b"b", b"d"))), Ok(vec![]));
    assert_eq!(world.auth(ANN, AuthQuery::MayRead(&range(b"b", b"e"))).map(drop), DENIED);
}

#[test]
fn a_token_stands_for_its_user_until_it_ends() {
    let mut world = World::guarded();
    let digest = [5; TOKEN_BYTES];
    let token = Who::Token(&digest);
    assert_eq!(world.put(token, &PutReq::new(b"c", b"1")), Err(EtcdError::InvalidAuthToken));
    let revision = world.revision();
    assert_eq!(world.authenticate(b"none", revision, &digest), Err(EtcdError::AuthFailed));
    assert_eq!(world.authenticate(b"ann", revision - 1, &digest), Err(EtcdError::AuthOldRevision));
    assert_eq!(world.authenticate(b"ann", revision, &[1]), Err(EtcdError::Malformed));
    assert_eq!(world.authenticate(b"ann", revision, &digest), Ok(()));
    assert_eq!(world.put(token, &PutReq::new(b"c", b"1")), Ok(()));
    assert_eq!(world.put(token, &PutReq::new(b"a", b"1")), DENIED);
    // Used now and then, it lasts.
    for _ in 0..5 {
        world.0.pass(Span::from_secs(200), 0);
        assert_eq!(world.put(token, &PutReq::new(b"c", b"1")), Ok(()));
    }
    world.0.pass(Span::from_secs(301), 0);
    assert_eq!(world.put(token, &PutReq::new(b"c", b"1")), Err(EtcdError::InvalidAuthToken));
    // What ended goes when others come.
    assert_eq!(world.authenticate(b"ann", revision, &digest), Ok(()));
    assert_eq!(world.range(token, b"c", b""), Ok(()));
    // A new password ends what was got with the old one.
    world.say(ROOT, Command::UserChangePassword, [b"ann", b"", b"other"]).expect("done");
    assert_eq!(world.range(token, b"c", b""), Err(EtcdError::InvalidAuthToken));
    let revision = world.revision();
    assert_eq!(world.authenticate(b"ann", revision, &digest), Ok(()));
    world.say(ROOT, Command::UserDelete, [b"ann", b"", b""]).expect("done");
    assert_eq!(world.range(token, b"c", b""), Err(EtcdError::InvalidAuthToken));
    assert_eq!(world.auth(ROOT, AuthQuery::Password(b"ann")), Err(EtcdError::AuthFailed));
}

#[test]
fn whoever_has_no_password_can_not_show_one() {
    let mut world = World::guarded();
    let mut message = Vec::new();
    bytes_field(&mut message, 1, b"ben");
    nested_field(&mut message, 3, |out| flag_field(out, 1, true));
    world.run_as(ROOT, Command::UserAdd, &message).expect("done");
    assert_eq!(world.auth(ROOT, AuthQuery::Password(b"ben")), Err(EtcdError::NoPasswordUser));
    let revision = world.revision();
    assert_eq!(world.authenticate(b"ben", revision, &[1; TOKEN_BYTES]), Err(EtcdError::AuthFailed));
}

/// Names, and what one user or role holds, have limits: each is one object of the store.
#[test]
fn what_fits_no_object_is_refused() {
    let mut world = World(Subject::new());
    let long = vec![b'n'; 70_000];
    assert_eq!(world.user(&long), Err(EtcdError::RequestTooLarge));
    assert_eq!(world.say(ROOT, Command::RoleAdd, [&long[..], b"", b""]), Err(EtcdError::RequestTooLarge));
    world.say(ROOT, Command::RoleAdd, [b"large" as &[u8], b"", b""]).expect("done");
    let granted = (0..40_u8)
        .map(|number| world.grant(b"large", 2, &[&[number + 1][..], &long[..60_000]].concat(), b""));
    let refused = granted.filter(|granted| *granted == Err(EtcdError::RequestTooLarge)).count();
    assert!((20..30).contains(&refused), "a role has a mebibyte: {refused} of 40 are refused");
    assert_eq!(world.grant(b"large", 3, b"", b""), Err(EtcdError::InvalidAuthMgmt), "and all goes on");
    world.user(b"many").expect("done");
    let mut refused = 0;
    for number in 0..40_u8 {
        let name = [&[number + 1][..], &long[..60_000]].concat();
        world.say(ROOT, Command::RoleAdd, [&name[..], b"", b""]).expect("done");
        let granted = world.say(ROOT, Command::UserGrantRole, [b"many" as &[u8], &name[..], b""]);
        refused += usize::from(granted == Err(EtcdError::RequestTooLarge));
    }
    assert!((20..30).contains(&refused), "a user has a mebibyte: {refused} of 40 are refused");
}
