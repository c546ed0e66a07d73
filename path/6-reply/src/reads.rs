//! Reads that wait. A weak read waits until the state is as new as what the client has seen. A strong read waits until a leader confirmed a
//! seq for it and the state has reached that seq.
//!
//! Stage 6 (reply). A strong read is linearizable because its seq is asked for after the read arrived, and covers everything that was
//! decided before (ReadIndex: Ongaro, "Consensus: Bridging Theory and Practice", 2014, section 6.4). Strong reads that arrive in one turn
//! share one question; they are a group.
//!
//! Invariants: INV-READ-1 (a strong read runs only when everything up to its group's confirmed seq is executed, and any
//! read only when everything up to the seq that its client saw is), INV-READ-2 (a read ends once: it runs, or fails, or its
//! connection is gone), INV-READ-3 (waiting reads are bounded in number and bytes).
//! Tests: `reads/tests.rs`.

use quorate_types::{ConnId, Seq, Span, Time, planted};
use quorate_wire::{ReadConsistency, ReadRequest};
use std::collections::{BTreeMap, BTreeSet};

/// Limits of waiting reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// How many reads may wait at once. 65,536 by default.
    pub reads_max: usize,
    /// Bytes of their queries together. 64 MiB by default.
    pub bytes_max: usize,
    /// How long a read waits before it is told that there is no leader. 5 s by default.
    pub patience: Span,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { reads_max: 65_536, bytes_max: 64 << 20, patience: Span::from_secs(5) }
    }
}

/// What happens to a read that just arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Asked {
    /// Run it now.
    Now,
    /// The read waits.
    Waits,
    /// There is no room; it was not kept.
    Overloaded,
}

/// Which read it is: needed to answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadKey {
    /// The connection that asked.
    pub conn: ConnId,
    /// The client's number for the read.
    pub read: u64,
}

/// A read that may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read<'a> {
    /// Names the read.
    pub key: ReadKey,
    /// The query for the service.
    pub query: &'a [u8],
}

/// A strong read in a group; its query lies in the group's buffer.
#[derive(Debug)]
struct Member {
    key: ReadKey,
    seen: Seq,
    deadline: Time,
    start: usize,
    len: usize,
}

/// Strong reads that share a question, in the order of their deadlines.
#[derive(Debug, Default)]
struct Group {
    members: Vec<Member>,
    /// Members before this one are answered or gone.
    ended: usize,
    queries: Vec<u8>,
    confirmed: Option<Seq>,
}

/// A read that waits only for a seq.
#[derive(Debug)]
struct Waiting {
    key: ReadKey,
    deadline: Time,
    query: Box<[u8]>,
}

#[derive(Debug, Default)]
struct OfConn {
    reads: usize,
    closed: bool,
}

/// A group's buffers that are larger than this are not reused for the next group.
const QUERIES_KEPT: usize = 1 << 20;
const MEMBERS_KEPT: usize = 8192;

/// The waiting reads of one replica.
#[derive(Debug)]
pub struct ReadPath {
    limits: ReadLimits,
    gathering: Group,
    groups: BTreeMap<u64, Group>,
    last_group: u64,
    /// By the seq that a read waits for, then by arrival.
    waiting: BTreeMap<(Seq, u64), Waiting>,
    deadlines: BTreeSet<(Time, Seq, u64)>,
    last_waiting: u64,
    conns: BTreeMap<ConnId, OfConn>,
    spare: Vec<Group>,
    reads: usize,
    bytes: usize,
}

impl ReadPath {
    /// Without reads.
    pub fn new(limits: ReadLimits) -> Self {
        Self {
            limits,
            gathering: Group::default(),
            groups: BTreeMap::new(),
            last_group: 0,
            waiting: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            last_waiting: 0,
            conns: BTreeMap::new(),
            spare: Vec::new(),
            reads: 0,
            bytes: 0,
        }
    }

    /// A client reads. `executed` is the last seq that was executed here.
    pub fn ask(&mut self, now: Time, executed: Seq, conn: ConnId, read: &ReadRequest<'_>) -> Asked {
        let seen = if planted("session-read-goes-back") { Seq::ZERO } else { read.seen };
        if read.consistency == ReadConsistency::Weak && seen <= executed {
            return Asked::Now;
        }
        if self.reads >= self.limits.reads_max || read.query.len() > self.limits.bytes_max - self.bytes {
            return Asked::Overloaded;
        }
        self.reads += 1;
        self.bytes += read.query.len();
        self.conns.entry(conn).or_default().reads += 1;
        let deadline = now.plus(self.limits.patience);
        let key = ReadKey { conn, read: read.read };
        match read.consistency {
            ReadConsistency::Weak => self.wait(read.seen, key, deadline, read.query),
            ReadConsistency::Strong => {
                let start = self.gathering.queries.len();
                self.gathering.queries.extend_from_slice(read.query);
                let len = read.query.len();
                self.gathering.members.push(Member { key, seen: read.seen, deadline, start, len });
            }
        }
        Asked::Waits
    }

    fn wait(&mut self, seq: Seq, key: ReadKey, deadline: Time, query: &[u8]) {
        self.last_waiting += 1;
        self.waiting.insert((seq, self.last_waiting), Waiting { key, deadline, query: query.into() });
        self.deadlines.insert((deadline, seq, self.last_waiting));
    }

    /// Makes a group of the strong reads that came since the last call. Returns the group's number, which a leader is asked to confirm.
    /// Call it once a turn, after the turn's reads; later reads are in the next group.
    pub fn take_group(&mut self) -> Option<u64> {
        if self.gathering.members.is_empty() {
            return None;
        }
        let spare = self.spare.pop().unwrap_or_default();
        let group = std::mem::replace(&mut self.gathering, spare);
        self.last_group += 1;
        self.groups.insert(self.last_group, group);
        Some(self.last_group)
    }

    /// Once `seq` is executed, everything that was decided before the group was taken is executed.
    pub fn confirmed(&mut self, group: u64, seq: Seq) {
        let Some(group) = self.groups.get_mut(&group) else { return };
        if group.confirmed.is_none() {
            group.confirmed = Some(seq);
        }
    }

    /// Whether reads of this group still wait.
    pub fn waits(&self, group: u64) -> bool {
        self.groups.contains_key(&group)
    }

    /// No leader confirms this group. Its reads are handed to `fail`, to be answered that there is no leader.
    pub fn failed(&mut self, group: u64, mut fail: impl FnMut(ReadKey)) {
        let Some(group) = self.groups.remove(&group) else { return };
        for member in &group.members[group.ended..] {
            if self.end(member.key, member.len) {
                fail(member.key);
            }
        }
        self.recycle(group);
    }

    /// Hands to `run` every read that may run now that everything up to `executed` is executed. Of reads that run one after the other,
    /// `ahead` is shown the queries before, and says how many of them it has looked at: then it is called again.
    pub fn ready(
        &mut self,
        executed: Seq,
        mut ahead: impl FnMut(&mut dyn Iterator<Item = &[u8]>) -> usize,
        mut run: impl FnMut(Read<'_>),
    ) {
        while let Some(entry) = self.waiting.first_entry()
            && entry.key().0 <= executed
        {
            let ((seq, order), read) = entry.remove_entry();
            self.deadlines.remove(&(read.deadline, seq, order));
            if self.end(read.key, read.query.len()) {
                run(Read { key: read.key, query: &read.query });
            }
        }
        if self.groups.is_empty() {
            return;
        }
        let early = planted("read-before-executed");
        let is_ready = |group: &Group| group.confirmed.is_some_and(|seq| seq <= executed || early);
        let ready: Vec<u64> =
            self.groups.iter().filter(|(_, group)| is_ready(group)).map(|(number, _)| *number).collect();
        for number in ready {
            let Some(group) = self.groups.remove(&number) else { continue };
            self.run_group(group, executed, &mut ahead, &mut run);
        }
    }

    fn run_group(
        &mut self,
        group: Group,
        executed: Seq,
        ahead: &mut impl FnMut(&mut dyn Iterator<Item = &[u8]>) -> usize,
        run: &mut impl FnMut(Read<'_>),
    ) {
        let confirmed = group.confirmed.is_some_and(|seq| seq <= executed);
        assert!(
            confirmed || planted("read-before-executed"),
            "INV-READ-1: a strong read runs when its confirmed seq is executed"
        );
        let query_of = |member: &Member| &group.queries[member.start..member.start + member.len];
        let mut next_window = group.ended;
        for (at, member) in group.members.iter().enumerate().skip(group.ended) {
            if at == next_window {
                let seen = ahead(&mut group.members[at..].iter().map(query_of));
                next_window = at.saturating_add(seen.max(1));
            }
            let query = query_of(member);
            if member.seen > executed {
                // Rare: the client saw more than was confirmed, elsewhere and weakly. It is still owed no less.
                self.wait(member.seen, member.key, member.deadline, query);
            } else if self.end(member.key, member.len) {
                run(Read { key: member.key, query });
            }
        }
        self.recycle(group);
    }

    /// Ends the reads whose patience is over; `fail` answers them that there is no leader.
    pub fn expire(&mut self, now: Time, mut fail: impl FnMut(ReadKey)) {
        while let Some(&(deadline, seq, order)) = self.deadlines.first()
            && deadline <= now
        {
            self.deadlines.pop_first();
            let Some(read) = self.waiting.remove(&(seq, order)) else { continue };
            if self.end(read.key, read.query.len()) {
                fail(read.key);
            }
        }
        let mut gathering = std::mem::take(&mut self.gathering);
        self.expire_group(&mut gathering, now, &mut fail);
        if gathering.ended == gathering.members.len() {
            gathering.clear();
        }
        self.gathering = gathering;
        let mut groups = std::mem::take(&mut self.groups);
        groups.retain(|_, group| {
            self.expire_group(group, now, &mut fail);
            group.ended < group.members.len()
        });
        self.groups = groups;
    }

    fn expire_group(&mut self, group: &mut Group, now: Time, fail: &mut impl FnMut(ReadKey)) {
        while let Some(member) = group.members.get(group.ended)
            && member.deadline <= now
        {
            group.ended += 1;
            if self.end(member.key, member.len) {
                fail(member.key);
            }
        }
    }

    /// Removes a read from the counts. Returns whether its connection still waits for the answer.
    fn end(&mut self, key: ReadKey, len: usize) -> bool {
        assert!(self.reads >= 1 && self.bytes >= len, "INV-READ-2: a read ends once");
        self.reads -= 1;
        self.bytes -= len;
        let Some(of_conn) = self.conns.get_mut(&key.conn) else { return false };
        of_conn.reads -= 1;
        let wanted = !of_conn.closed;
        if of_conn.reads == 0 {
            self.conns.remove(&key.conn);
        }
        wanted
    }

    /// The connection is gone, so its reads never run. They keep their room until their turn or their deadline comes, so that closing a
    /// connection needs no search.
    pub fn drop_conn(&mut self, conn: ConnId) {
        if let Some(of_conn) = self.conns.get_mut(&conn) {
            of_conn.closed = true;
        }
    }

    /// When to call [`Self::expire`], if nothing else happens.
    pub fn deadline(&self) -> Option<Time> {
        let first = |group: &Group| group.members.get(group.ended).map(|member| member.deadline);
        let groups = self.groups.values().chain([&self.gathering]).filter_map(first).min();
        let waiting = self.deadlines.first().map(|(deadline, _, _)| *deadline);
        groups.into_iter().chain(waiting).min()
    }

    /// How many reads wait, with those of closed connections.
    pub fn len(&self) -> usize {
        self.reads
    }
    /// Whether no read waits.
    pub fn is_empty(&self) -> bool {
        self.reads == 0
    }
    /// Bytes of the waiting queries.
    pub fn byte_len(&self) -> usize {
        self.bytes
    }

    fn recycle(&mut self, mut group: Group) {
        let small = group.queries.capacity() <= QUERIES_KEPT && group.members.capacity() <= MEMBERS_KEPT;
        if small && self.spare.len() < 4 {
            group.clear();
            self.spare.push(group);
        }
    }

    /// Panics with the name of the invariant that does not hold. `thorough` counts all reads.
    pub fn invariants(&self, thorough: bool) {
        let within = self.reads <= self.limits.reads_max && self.bytes <= self.limits.bytes_max;
        assert!(within, "INV-READ-3: waiting reads are bounded");
        if !thorough {
            return;
        }
        let groups = || self.groups.values().chain([&self.gathering]);
        let members = || groups().flat_map(|group| &group.members[group.ended..]);
        let reads = members().count() + self.waiting.len();
        let bytes = members().map(|member| member.len).sum::<usize>()
            + self.waiting.values().map(|read| read.query.len()).sum::<usize>();
        assert_eq!((reads, bytes), (self.reads, self.bytes), "INV-READ-3: waiting reads are counted");
        let of_conns: usize = self.conns.values().map(|of_conn| of_conn.reads).sum();
        assert_eq!(of_conns, self.reads, "INV-READ-2: every read has its connection");
        assert_eq!(self.deadlines.len(), self.waiting.len(), "INV-READ-2: every waiting read has a deadline");
    }
}

impl Group {
    fn clear(&mut self) {
        self.members.clear();
        self.queries.clear();
        self.ended = 0;
        self.confirmed = None;
    }
}

#[cfg(test)]
mod tests;
