//! The service: hands commands and queries to the parts of the store, and writes replies.
//!
//! A command or query is one byte and etcd's request message; where etcd has no message, a form of its own. A reply is 0, the newest
//! revision and the response's fields, or the number of an error (docs/formats/etcd.md). The numbers of the store are read once for all
//! commands of a request, and written once. A put allocates nothing. Tests: `tests/`.

use crate::alarms;
use crate::auth::guard::{Access, Guard};
use crate::auth::manage::{self, AuthQuery};
use crate::auth::{Caller, Who, token};
use crate::check;
use crate::compact;
use crate::error::EtcdError;
use crate::events::{self, EventsQuery, Heard, LiveEvents, LiveWriter, Observer, Wants};
use crate::hash::{self, HashQuery};
use crate::lease;
use crate::proto;
use crate::range::{self, RangeQuery};
use crate::request::{DeleteRequest, PutRequest, RangeRequest, TxnRequest, numbers};
use crate::size::SizeNow;
use crate::space::{self, Meta};
use crate::txn;
use crate::write::{Buffers, Writer, check_put_alone};
use quorate_execute::{BatchReplies, Context, Events, ObjectService, ReplySink, Store, Tells};
use quorate_types::{AgreedTime, Items, planted};

/// The limits of requests. They must be the same in all replicas of a cluster, since replies depend on them; they are no part of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdConfig {
    /// The longest request. 1.5 MiB by default, as in etcd.
    pub request_bytes_max: usize,
    /// The most compares, or operations of one branch, in a transaction. 128 by default, as in etcd.
    pub txn_ops_max: usize,
    /// The shortest lease, in seconds. 2 by default, as in etcd with its usual election time-out.
    pub lease_ttl_min_s: i64,
}

impl Default for EtcdConfig {
    fn default() -> Self {
        Self { request_bytes_max: 3 << 19, txn_ops_max: 128, lease_ttl_min_s: 2 }
    }
}

/// The commands, which are ordered. Each carries the message of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Command {
    /// `PutRequest`.
    Put = 129,
    /// `DeleteRangeRequest`.
    DeleteRange = 130,
    /// `TxnRequest`.
    Txn = 131,
    /// `CompactionRequest`.
    Compact = 132,
    /// `LeaseGrantRequest`.
    LeaseGrant = 133,
    /// `LeaseRevokeRequest`.
    LeaseRevoke = 134,
    /// `LeaseKeepAliveRequest`.
    LeaseKeepAlive = 135,
    /// `LeaseTimeToLiveRequest`. It is ordered, because the time left depends on the agreed time.
    LeaseTimeToLive = 136,
    /// The addresses where a member listens for clients: its number in field 1, the addresses in fields 2.
    Announce = 137,
    /// `AlarmRequest` that sets or clears an alarm.
    Alarm = 138,
    /// What a member does by itself: field 1 has a revision to compact at, field 2 the number of a member whose quota is used up. Either may
    /// be left out.
    Upkeep = 139,
    /// `AuthEnableRequest`.
    AuthEnable = 140,
    /// `AuthDisableRequest`.
    AuthDisable = 141,
    /// A password was compared: field 1 has the user's name, field 2 the revision of users and roles, field 3 the digest of the new token.
    Authenticate = 142,
    /// `AuthUserAddRequest`, with the password's hash in field 4.
    UserAdd = 143,
    /// `AuthUserDeleteRequest`.
    UserDelete = 144,
    /// `AuthUserChangePasswordRequest`, with the password's hash in field 3.
    UserChangePassword = 145,
    /// `AuthUserGrantRoleRequest`.
    UserGrantRole = 146,
    /// `AuthUserRevokeRoleRequest`.
    UserRevokeRole = 147,
    /// `AuthRoleAddRequest`.
    RoleAdd = 148,
    /// `AuthRoleDeleteRequest`.
    RoleDelete = 149,
    /// `AuthRoleGrantPermissionRequest`.
    RoleGrantPermission = 150,
    /// `AuthRoleRevokePermissionRequest`.
    RoleRevokePermission = 151,
}

impl Command {
    const ALL: [Self; 23] = [
        Self::Put,
        Self::DeleteRange,
        Self::Txn,
        Self::Compact,
        Self::LeaseGrant,
        Self::LeaseRevoke,
        Self::LeaseKeepAlive,
        Self::LeaseTimeToLive,
        Self::Announce,
        Self::Alarm,
        Self::Upkeep,
        Self::AuthEnable,
        Self::AuthDisable,
        Self::Authenticate,
        Self::UserAdd,
        Self::UserDelete,
        Self::UserChangePassword,
        Self::UserGrantRole,
        Self::UserRevokeRole,
        Self::RoleAdd,
        Self::RoleDelete,
        Self::RoleGrantPermission,
        Self::RoleRevokePermission,
    ];

    fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (first, message) = bytes.split_first()?;
        let command = Self::ALL.into_iter().find(|command| *command as u8 == *first)?;
        Some((command, message))
    }

    /// The bytes of a command before its message.
    pub fn head(self) -> &'static [u8] {
        static NUMBERS: [u8; 256] = {
            let mut numbers = [0; 256];
            let mut at = 0;
            while at < 256 {
                numbers[at] = at as u8;
                at += 1;
            }
            numbers
        };
        let at = usize::from(self as u8);
        &NUMBERS[at..=at]
    }

    /// Appends the command with this message.
    pub fn encode(self, message: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(self.head());
        out.extend_from_slice(message);
    }

    /// Whether the reply is short whatever the store holds, so that many such commands can share a request.
    pub fn answers_little(self, message: &[u8]) -> bool {
        match self {
            Self::Put => PutRequest::decode(message).is_ok_and(|request| !request.prev_kv),
            Self::DeleteRange => DeleteRequest::decode(message).is_ok_and(|request| !request.prev_kv),
            Self::Txn | Self::LeaseTimeToLive => false,
            _ => true,
        }
    }

    /// Whether this is a transaction that changes nothing, which can be sent as a query.
    pub fn only_reads(self, message: &[u8]) -> bool {
        self == Self::Txn && TxnRequest::decode(message).is_ok_and(|txn| txn.reads_only())
    }
}

/// The queries, which read and are not ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query<'a> {
    /// A range, or its next page.
    Range(RangeQuery<'a>),
    /// A `TxnRequest` that changes nothing.
    Txn(&'a [u8]),
    /// Past events.
    Events(EventsQuery<'a>),
    /// `LeaseLeasesRequest`.
    Leases,
    /// The hash of the store, or its next page.
    Hash(HashQuery),
    /// The size of the store: see [`SizeNow`].
    Size,
    /// The announcements of members: the messages, each as field 1.
    Announced,
    /// Several queries, encoded, that are answered at one moment. The answer has their replies, each as a string.
    Many(&'a [Vec<u8>]),
    /// Alarms that clients set.
    Alarms,
    /// A query about users and roles.
    Auth(AuthQuery<'a>),
}

impl<'a> Query<'a> {
    /// Appends the query.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Range(query) => {
                out.push(193);
                query.encode(out);
            }
            Self::Txn(message) => {
                out.push(194);
                out.extend_from_slice(message);
            }
            Self::Events(query) => {
                out.push(195);
                query.encode(out);
            }
            Self::Leases => out.push(196),
            Self::Hash(query) => {
                out.push(197);
                query.encode(out);
            }
            Self::Size => out.push(198),
            Self::Announced => out.push(199),
            Self::Many(queries) => {
                out.push(MANY);
                queries.iter().for_each(|query| proto::string(out, query));
            }
            Self::Alarms => out.push(210),
            Self::Auth(query) => query.encode(out),
        }
    }

    fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        match kind {
            193 => RangeQuery::decode(rest).map(Self::Range),
            194 => Some(Self::Txn(rest)),
            195 => EventsQuery::decode(rest).map(Self::Events),
            196 => Some(Self::Leases),
            197 => HashQuery::decode(rest).map(Self::Hash),
            198 => Some(Self::Size),
            199 => Some(Self::Announced),
            210 => Some(Self::Alarms),
            kind => AuthQuery::decode(*kind, rest).map(Self::Auth),
        }
    }
}

/// The first byte of a [`Query::Many`].
const MANY: u8 = 200;

/// The result of a command or query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done<'a> {
    /// The revision for the response's header.
    pub revision: i64,
    /// The response's fields without the header; for queries that etcd does not have, the form that they define.
    pub body: &'a [u8],
}

/// Decodes replies.
#[derive(Clone, Copy, Debug)]
pub struct Reply;

impl Reply {
    /// Decodes a reply.
    ///
    /// # Errors
    /// The error that the reply names; [`EtcdError::Malformed`] when it is no reply.
    pub fn decode(reply: &[u8]) -> Result<Done<'_>, EtcdError> {
        match reply.split_first() {
            Some((0, mut rest)) => {
                let revision = proto::read_number(&mut rest).ok_or(EtcdError::Malformed)?;
                Ok(Done { revision: revision as i64, body: rest })
            }
            Some((number, [])) => Err(EtcdError::from_number(*number).unwrap_or(EtcdError::Malformed)),
            _ => Err(EtcdError::Malformed),
        }
    }
}

/// How many bytes of its room a reply leaves free for what stands before the fields.
const HEAD_BYTES: usize = 16;

/// The service, to be run [`InStore`](quorate_execute::InStore).
#[derive(Default)]
pub struct Etcd {
    config: EtcdConfig,
    /// Says which changes are wanted.
    observer: Option<Box<dyn Observer>>,
    /// The same observer, in the form that the engine takes; `None` once it was taken.
    heard: Option<Heard>,
    /// Changes that the engine did not fetch yet.
    changes: Vec<LiveEvents>,
    /// The last revision that was given to the observer.
    told: i64,
    buffers: Buffers,
    live: LiveWriter,
}

impl Etcd {
    /// The service with these limits.
    pub fn new(config: EtcdConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Adds an observer, which is told what commands changed once that is final. All clones of it act as one.
    #[must_use]
    pub fn observed(self, observer: impl Observer + Clone + 'static) -> Self {
        let heard = Some(Heard(Box::new(observer.clone())));
        Self { observer: Some(Box::new(observer)), heard, ..self }
    }

    fn wants(&self) -> Wants {
        self.observer.as_ref().map_or(Wants::Nothing, |observer| observer.wants())
    }

    /// Writes the store's numbers, and notes the changes for the observer.
    fn finish(&mut self, store: &mut Store, before: &Meta, meta: &Meta) {
        if before == meta {
            return;
        }
        meta.write(store, &mut self.buffers.value);
        if self.observer.is_some() {
            self.told = meta.revision;
            let change = self.live.take(before, meta);
            if !self.changes.last_mut().is_some_and(|last| last.goes_on(&change)) {
                self.changes.push(change);
            }
        }
    }

    /// Runs one command and writes its reply.
    fn run(
        &mut self,
        store: &mut Store,
        meta: &mut Meta,
        command: &[u8],
        ctx: &Context,
        reply: &mut ReplySink<'_>,
    ) {
        let mut body = std::mem::take(&mut self.buffers.body);
        body.clear();
        let split = Who::split(command).and_then(|(who, rest)| Some((who, Command::split(rest)?)));
        let done = match split {
            None => Err(EtcdError::Malformed),
            Some((_, (_, message))) if message.len() > self.config.request_bytes_max => {
                Err(EtcdError::RequestTooLarge)
            }
            Some((who, (command, message))) => {
                let room = reply.room().saturating_sub(HEAD_BYTES);
                let caller = Caller::find(store, meta, who, ctx.time());
                if let (Who::Token(digest), Caller::Named(..)) = (who, &caller) {
                    token::used(store, digest, ctx.time());
                }
                self.dispatch(store, meta, &caller, command, message, ctx, room, &mut body)
            }
        };
        write_reply(done.map(|()| meta.revision), &body, reply);
        self.buffers.body = body;
    }

    #[allow(clippy::too_many_arguments)]
    fn dispatch(
        &mut self,
        store: &mut Store,
        meta: &mut Meta,
        caller: &Caller,
        command: Command,
        message: &[u8],
        ctx: &Context,
        room: usize,
        body: &mut Vec<u8>,
    ) -> Result<(), EtcdError> {
        alarms::refuse(meta, command, message, self.config.txn_ops_max)?;
        if !caller.is_anybody() {
            allow(store, caller, command, message, self.config.txn_ops_max)?;
        }
        let writer = Writer::new(store, meta, &mut self.buffers, &mut self.live);
        match command {
            Command::Put => put(writer, &PutRequest::decode(message)?, room, body),
            Command::DeleteRange => delete(writer, &DeleteRequest::decode(message)?, room, body),
            Command::Txn => {
                let request = TxnRequest::decode(message)?;
                check::txn(&request, self.config.txn_ops_max)?;
                run_txn(writer, &request, room, body)
            }
            Command::Compact => compact::compact(meta, numbers(message)?.0),
            Command::LeaseGrant => {
                lease::grant(store, ctx, self.config.lease_ttl_min_s, numbers(message)?, body)
            }
            Command::LeaseRevoke => {
                let mut writer = writer;
                lease::revoke(&mut writer, numbers(message)?.0)?;
                writer.finish();
                Ok(())
            }
            Command::LeaseKeepAlive => {
                lease::keep_alive(store, ctx, numbers(message)?.0, body);
                Ok(())
            }
            Command::Announce => space::announce(store, message),
            Command::Alarm => alarms::change(store, meta, message, body),
            Command::Upkeep => upkeep(store, meta, message),
            Command::LeaseTimeToLive => {
                let (id, with_keys) = numbers(message)?;
                lease::time_to_live(store, ctx.time(), id, with_keys != 0, body);
                if body.len() > room { Err(EtcdError::ResponseTooLarge) } else { Ok(()) }
            }
            _ => manage::run(store, meta, caller, command, message, ctx.time()),
        }
    }

    fn answer(
        &self,
        store: &Store,
        meta: &Meta,
        query: &[u8],
        ctx: &Context,
        room: usize,
        body: &mut Vec<u8>,
    ) -> Result<(), EtcdError> {
        if let Some((&MANY, queries)) = query.split_first() {
            return self.answer_many(store, meta, queries, ctx, room, body);
        }
        let (who, query) = Who::split(query).ok_or(EtcdError::Malformed)?;
        let query = Query::decode(query).ok_or(EtcdError::Malformed)?;
        let caller = Caller::find(store, meta, who, ctx.time());
        match query {
            Query::Range(query) => {
                if !caller.is_anybody() {
                    let request = RangeRequest::decode(query.request)?;
                    if request.key.is_empty() {
                        return Err(EtcdError::EmptyKey);
                    }
                    Guard::new(&caller, store).may(Access::Read, request.key, request.range_end)?;
                }
                range::query(store, meta, &query, room, body)
            }
            Query::Txn(message) => {
                let request = TxnRequest::decode(message)?;
                check::txn(&request, self.config.txn_ops_max)?;
                if !caller.is_anybody() {
                    Guard::new(&caller, store).txn(&request)?;
                }
                // What changes something is ordered.
                if request.reads_only() {
                    txn::read(store, meta, &request, room, body)
                } else {
                    Err(EtcdError::Malformed)
                }
            }
            Query::Events(query) => events::page(store, meta, &query, room, body),
            Query::Leases => {
                caller.is_named()?;
                Guard::new(&caller, store).all_leases()?;
                lease::list(store, body);
                if body.len() > room { Err(EtcdError::ResponseTooLarge) } else { Ok(()) }
            }
            Query::Hash(query) => {
                hash::page(store, meta, &query)?.encode(body);
                Ok(())
            }
            Query::Announced => {
                space::announced(store, body);
                if body.len() > room { Err(EtcdError::ResponseTooLarge) } else { Ok(()) }
            }
            Query::Alarms => alarms::list(store, room, body),
            // They are taken apart before.
            Query::Many(_) => Err(EtcdError::Malformed),
            Query::Size => {
                SizeNow::of(store, meta).encode(body);
                Ok(())
            }
            Query::Auth(query) => {
                manage::ask(store, meta, &caller, query, body)?;
                if body.len() > room { Err(EtcdError::ResponseTooLarge) } else { Ok(()) }
            }
        }
    }

    /// Answers several queries. Each answer has the room that the earlier ones left. A query whose answer does not fit is refused, and can
    /// be sent alone.
    fn answer_many(
        &self,
        store: &Store,
        meta: &Meta,
        mut queries: &[u8],
        ctx: &Context,
        room: usize,
        body: &mut Vec<u8>,
    ) -> Result<(), EtcdError> {
        let (mut answer, mut reply) = (Vec::new(), Vec::new());
        while !queries.is_empty() {
            let query = proto::read_string(&mut queries).ok_or(EtcdError::Malformed)?;
            answer.clear();
            reply.clear();
            let left = room.saturating_sub(body.len() + 2 * HEAD_BYTES);
            let is_one = query.first().is_none_or(|first| *first != MANY);
            let done = if is_one {
                self.answer(store, meta, query, ctx, left, &mut answer)
            } else {
                Err(EtcdError::Malformed)
            };
            let mut sink = ReplySink::new(&mut reply, left + HEAD_BYTES);
            write_reply(done.map(|()| meta.revision), &answer, &mut sink);
            if body.len() + reply.len() + HEAD_BYTES > room {
                return Err(EtcdError::ResponseTooLarge);
            }
            proto::string(body, &reply);
        }
        Ok(())
    }
}

/// Whether the caller may send this command. As in etcd a request that is malformed or breaks a limit is refused for that reason first.
fn allow(
    store: &Store,
    caller: &Caller,
    command: Command,
    message: &[u8],
    ops_max: usize,
) -> Result<(), EtcdError> {
    let guard = Guard::new(caller, store);
    match command {
        Command::Put => {
            let request = PutRequest::decode(message)?;
            check::put(&request)?;
            guard.put(&request)
        }
        Command::DeleteRange => {
            let request = DeleteRequest::decode(message)?;
            check::delete(&request)?;
            guard.delete(&request)
        }
        Command::Txn => {
            let request = TxnRequest::decode(message)?;
            check::txn(&request, ops_max)?;
            guard.txn(&request)
        }
        Command::Compact | Command::Alarm => caller.is_root(),
        Command::LeaseGrant => caller.is_named(),
        Command::LeaseRevoke | Command::LeaseKeepAlive => {
            caller.is_named()?;
            guard.lease(Access::Write, numbers(message)?.0)
        }
        Command::LeaseTimeToLive => {
            caller.is_named()?;
            let (id, with_keys) = numbers(message)?;
            if with_keys == 0 { Ok(()) } else { guard.lease(Access::Read, id) }
        }
        // Members announce themselves and keep the store in order; commands about users and roles check their own rights.
        _ => Ok(()),
    }
}

/// Runs the command `Upkeep`.
fn upkeep(store: &mut Store, meta: &mut Meta, message: &[u8]) -> Result<(), EtcdError> {
    let (revision, member) = numbers(message)?;
    if member != 0 {
        alarms::out_of_space(store, meta, member as u64);
    }
    if revision == 0 { Ok(()) } else { compact::compact(meta, revision) }
}

fn put(
    mut writer: Writer<'_>,
    request: &PutRequest<'_>,
    room: usize,
    body: &mut Vec<u8>,
) -> Result<(), EtcdError> {
    check::put(request)?;
    check_put_alone(writer.store, request)?;
    let before = request.prev_kv.then(|| writer.store.version());
    writer.put(request, body);
    finish(writer, before, room, body)
}

fn delete(
    mut writer: Writer<'_>,
    request: &DeleteRequest<'_>,
    room: usize,
    body: &mut Vec<u8>,
) -> Result<(), EtcdError> {
    check::delete(request)?;
    let before = request.prev_kv.then(|| writer.store.version());
    writer.delete_range(request, body);
    finish(writer, before, room, body)
}

fn run_txn(
    mut writer: Writer<'_>,
    request: &TxnRequest<'_>,
    room: usize,
    body: &mut Vec<u8>,
) -> Result<(), EtcdError> {
    let path = txn::plan(writer.store, writer.meta(), request)?;
    let before = txn::may_answer_much(request, &path).then(|| writer.store.version());
    match (txn::run(&mut writer, request, &path, room, body), before) {
        (Ok(()), before) => finish(writer, before, room, body),
        (Err(error), Some(before)) => {
            writer.undo(&before);
            Err(error)
        }
        (Err(error), None) => {
            // Without ranges and entries from before, a response is shorter than its request.
            writer.finish();
            Err(error)
        }
    }
}

/// Keeps the changes if the response fits.
fn finish(
    writer: Writer<'_>,
    before: Option<quorate_execute::Version>,
    room: usize,
    body: &[u8],
) -> Result<(), EtcdError> {
    match before {
        Some(before) if body.len() > room => {
            writer.undo(&before);
            Err(EtcdError::ResponseTooLarge)
        }
        _ => {
            writer.finish();
            Ok(())
        }
    }
}

fn write_reply(done: Result<i64, EtcdError>, body: &[u8], reply: &mut ReplySink<'_>) {
    match done {
        Ok(revision) => {
            let mut head = [0; HEAD_BYTES];
            let mut len = 1;
            let mut left = revision as u64;
            while left >= 0x80 {
                head[len] = left as u8 | 0x80;
                (len, left) = (len + 1, left >> 7);
            }
            head[len] = left as u8;
            reply.write(&head[..=len]);
            reply.write(body);
        }
        Err(error) => reply.write(&[error.number()]),
    }
}

impl ObjectService for Etcd {
    fn execute(&mut self, store: &mut Store, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        let before = Meta::read(store);
        let mut meta = before;
        self.live.begin(self.wants());
        self.run(store, &mut meta, command, ctx, reply);
        self.finish(store, &before, &meta);
    }

    fn execute_batch(
        &mut self,
        store: &mut Store,
        commands: Items<'_>,
        ctx: &Context,
        replies: &mut BatchReplies,
    ) {
        let before = Meta::read(store);
        let mut meta = before;
        self.live.begin(self.wants());
        for (index, command) in commands.iter().enumerate() {
            let ctx = ctx.with_command(index as u32);
            replies.push_with(|reply| self.run(store, &mut meta, command, &ctx, reply));
        }
        self.finish(store, &before, &meta);
    }

    fn query(&self, store: &Store, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        let meta = Meta::read(store);
        let mut body = Vec::new();
        let room = reply.room().saturating_sub(HEAD_BYTES);
        let done = self.answer(store, &meta, query, ctx, room, &mut body);
        write_reply(done.map(|()| meta.revision), &body, reply);
    }

    /// Deletes, compaction and the end of leases free space.
    fn frees(&self, command: &[u8]) -> bool {
        matches!(
            Who::split(command).and_then(|(_, command)| Command::split(command)),
            Some((Command::DeleteRange | Command::Compact | Command::LeaseRevoke | Command::Upkeep, _))
        )
    }

    /// Now, as long as there is something to sweep; else the end of the next lease.
    fn next_deadline(&self, store: &Store) -> Option<AgreedTime> {
        if Meta::read(store).is_sweeping() { Some(AgreedTime::ZERO) } else { lease::next_end(store) }
    }

    fn deadline_reached(&mut self, store: &mut Store, ctx: &Context) {
        let before = Meta::read(store);
        let mut meta = before;
        self.live.begin(self.wants());
        let mut keys = 0;
        loop {
            let mut writer = Writer::new(store, &mut meta, &mut self.buffers, &mut self.live);
            if !lease::end_next(&mut writer, ctx.time(), &mut keys) {
                break;
            }
            writer.finish();
        }
        compact::sweep(store, &mut meta, &mut self.buffers.key);
        self.finish(store, &before, &meta);
    }

    /// Tells the observer at once, and not at the next command: watches must read what the checkpoint skipped.
    fn restored(&mut self, store: &Store) {
        if self.observer.is_none() || planted("jump-untold") {
            return;
        }
        let meta = Meta::read(store);
        let before = std::mem::replace(&mut self.told, meta.revision);
        self.changes.push(LiveEvents::jump(before, &meta));
    }

    fn tells(&mut self) -> Option<&mut dyn Tells> {
        Some(self)
    }
}

impl Tells for Etcd {
    fn observer(&mut self) -> Option<Box<dyn quorate_execute::Observer>> {
        Some(Box::new(self.heard.take()?))
    }

    fn take_events(&mut self) -> Option<Events> {
        (!self.changes.is_empty()).then(|| Events::new(std::mem::take(&mut self.changes)))
    }
}

/// Checks the whole store.
///
/// # Panics
/// With the name of an invariant that does not hold.
pub fn check_invariants(store: &Store) {
    crate::space::invariants(store);
    lease::invariants(store);
    crate::auth::invariants(store, &Meta::read(store));
}
