//! The network: connections as pairs of byte streams, with delays, cuts and damage.
//!
//! The bytes of one direction of one connection stay in order; there is no order between connections. While a direction is cut, bytes wait,
//! as with TCP, or the connection times out.

use crate::queue::Event;
use crate::random::Rng;
use crate::timeline::Timeline;
use bytes::Bytes;
use quorate_types::ConnId;
use quorate_wire::FrameReader;
use std::collections::{BTreeMap, VecDeque};

/// One end of a connection.
#[derive(Debug)]
pub struct End {
    /// The process.
    pub who: usize,
    /// The number that this process uses for the connection.
    pub id: ConnId,
    /// Whether the process still has it.
    pub open: bool,
    /// Cuts what arrives here into frames.
    pub reader: FrameReader,
}

/// What travels in one direction.
#[derive(Debug, Default)]
pub struct Pipe {
    chunks: VecDeque<Chunk>,
    last_at: u64,
    free_at: u64,
    scheduled: bool,
    stalled: bool,
    /// Bytes on their way.
    pub bytes: usize,
    /// Whether the next bytes will be damaged.
    damage: bool,
}

/// Something on its way.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// When it arrives, if nothing delays it.
    pub at: u64,
    /// When it was sent.
    pub sent: u64,
    /// The bytes; none for the end of the stream.
    pub bytes: Option<Bytes>,
}

/// A connection.
#[derive(Debug)]
pub struct Conn {
    /// Its two ends; end 0 dialed.
    pub ends: [End; 2],
    /// The bytes that travel from each end to the other.
    pub pipes: [Pipe; 2],
}

/// The state of one direction between two processes.
#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    /// How many cuts are in force.
    cuts: u32,
    /// The least delay in nanoseconds, and its spread.
    delay: u64,
    jitter: u64,
    /// The delay that a fault adds.
    slow: u64,
}

/// A connection that is being made.
#[derive(Clone, Copy, Debug)]
pub struct Dial {
    /// The process that dials, and its life.
    pub from: (usize, u32),
    /// The number that it uses for the connection.
    pub id: ConnId,
    /// The process that is dialed.
    pub to: usize,
    /// Which link it is to be, if the dialer is a replica.
    pub link: u16,
    /// When the attempt fails.
    pub until: u64,
}

/// What the plan says about the network.
#[derive(Clone, Debug)]
pub struct NetPlan {
    /// The least delay of every direction is between these, in nanoseconds.
    pub delay: (u64, u64),
    /// The most that is added to a delay.
    pub jitter: u64,
    /// Bytes per millisecond in one direction; none: no limit.
    pub bandwidth: Option<u64>,
    /// In this many of 1000 cases a frame is cut in two on its way.
    pub split: u64,
    /// In this many of 1000 cases something is delayed for long.
    pub spike: u64,
}

/// The whole network.
#[derive(Debug)]
pub struct Net {
    plan: NetPlan,
    conns: BTreeMap<u64, Conn>,
    dials: BTreeMap<u64, Dial>,
    next: u64,
    links: Vec<Direction>,
    size: usize,
    rng: Rng,
    /// Whether faults are over, so that there are no delays beyond the usual.
    healed: bool,
}

impl Net {
    /// A network between `size` processes.
    pub fn new(plan: NetPlan, size: usize, mut rng: Rng) -> Self {
        let link = |rng: &mut Rng| Direction {
            cuts: 0,
            delay: rng.range(plan.delay.0, plan.delay.1),
            jitter: plan.jitter,
            slow: 0,
        };
        let links = (0..size * size).map(|_| link(&mut rng)).collect();
        Self {
            plan,
            conns: BTreeMap::new(),
            dials: BTreeMap::new(),
            next: 1,
            links,
            size,
            rng,
            healed: false,
        }
    }

    /// Whether faults are over.
    pub fn is_healed(&self) -> bool {
        self.healed
    }

    fn link(&mut self, from: usize, to: usize) -> &mut Direction {
        &mut self.links[from * self.size + to]
    }

    /// Whether nothing gets from one process to the other.
    pub fn is_cut(&self, from: usize, to: usize) -> bool {
        self.links[from * self.size + to].cuts > 0
    }

    fn delay(&mut self, from: usize, to: usize) -> u64 {
        let link = *self.link(from, to);
        let spike = !self.healed && self.rng.chance(self.plan.spike);
        let spike = if spike { self.rng.spread(1_000_000, 200_000_000) } else { 0 };
        link.delay + link.slow + self.rng.below(link.jitter + 1) + spike
    }

    /// A process begins to make a connection.
    pub fn dial(&mut self, dial: Dial, time: &mut Timeline) {
        let number = self.next;
        self.next += 1;
        let wait = self.delay(dial.from.0, dial.to) + self.delay(dial.to, dial.from.0);
        self.dials.insert(number, dial);
        time.after(wait, Event::Dial { dial: number });
    }

    /// The attempt, taken out of the list of attempts.
    pub fn take_dial(&mut self, dial: u64) -> Option<Dial> {
        self.dials.remove(&dial)
    }

    /// The direction is cut, so the attempt is repeated later.
    pub fn dial_again(&mut self, number: u64, dial: Dial, time: &mut Timeline) {
        self.dials.insert(number, dial);
        let wait = self.rng.range(20_000_000, 300_000_000);
        time.after(wait, Event::Dial { dial: number });
    }

    /// A connection exists.
    pub fn connect(&mut self, from: (usize, ConnId), to: (usize, ConnId)) -> u64 {
        let number = self.next;
        self.next += 1;
        let end = |(who, id)| End { who, id, open: true, reader: FrameReader::new(0) };
        let conn = Conn { ends: [end(from), end(to)], pipes: [Pipe::default(), Pipe::default()] };
        self.conns.insert(number, conn);
        number
    }

    /// The connection with this number.
    pub fn conn(&mut self, conn: u64) -> Option<&mut Conn> {
        self.conns.get_mut(&conn)
    }

    /// The end at which a process has a connection.
    pub fn side(&self, conn: u64, who: usize, id: ConnId) -> Option<usize> {
        let conn = self.conns.get(&conn)?;
        conn.ends.iter().position(|end| end.who == who && end.id == id && end.open)
    }

    /// Sends bytes, at this time or later.
    pub fn send(&mut self, conn: u64, from: usize, (bytes, at): (&[u8], u64), time: &mut Timeline) {
        let Some(found) = self.conns.get(&conn) else { return };
        if !found.ends[1 - from].open {
            return;
        }
        let split = self.rng.chance(self.plan.split) && bytes.len() > 1;
        let cut = if split { self.rng.range(1, bytes.len() as u64 - 1) as usize } else { bytes.len() };
        for part in [&bytes[..cut], &bytes[cut..]] {
            if !part.is_empty() {
                self.put(conn, from, (Some(Bytes::copy_from_slice(part)), at), time);
            }
        }
    }

    fn put(&mut self, number: u64, from: usize, (bytes, sent): (Option<Bytes>, u64), time: &mut Timeline) {
        let Some(conn) = self.conns.get(&number) else { return };
        let (a, b) = (conn.ends[from].who, conn.ends[1 - from].who);
        let delay = self.delay(a, b);
        let flip = self.rng.number();
        let bandwidth = self.plan.bandwidth;
        let Some(conn) = self.conns.get_mut(&number) else { return };
        let pipe = &mut conn.pipes[from];
        let len = bytes.as_ref().map_or(0, Bytes::len);
        let transmit = bandwidth.map_or(0, |rate| len as u64 * 1_000_000 / rate.max(1));
        pipe.free_at = pipe.free_at.max(sent) + transmit;
        let at = pipe.last_at.max(pipe.free_at + delay);
        pipe.last_at = at;
        pipe.bytes += len;
        let bytes = match bytes {
            Some(bytes) if pipe.damage && !bytes.is_empty() => {
                pipe.damage = false;
                let mut damaged = bytes.to_vec();
                let bit = (flip % (damaged.len() as u64 * 8)) as usize;
                damaged[bit / 8] ^= 1 << (bit % 8);
                Some(damaged.into())
            }
            other => other,
        };
        pipe.chunks.push_back(Chunk { at, sent: time.now(), bytes });
        if !pipe.scheduled && !pipe.stalled {
            pipe.scheduled = true;
            time.at(at, Event::Deliver { conn: number, from });
        }
    }

    /// What now arrives from this end at the other one; nothing while the direction is cut.
    pub fn deliver(&mut self, number: u64, from: usize, time: &mut Timeline) -> Vec<Chunk> {
        let Some(conn) = self.conns.get(&number) else { return Vec::new() };
        let cut = self.is_cut(conn.ends[from].who, conn.ends[1 - from].who);
        let Some(conn) = self.conns.get_mut(&number) else { return Vec::new() };
        let pipe = &mut conn.pipes[from];
        pipe.scheduled = false;
        if cut {
            pipe.stalled = true;
            return Vec::new();
        }
        let mut arrived = Vec::new();
        while pipe.chunks.front().is_some_and(|chunk| chunk.at <= time.now()) {
            if let Some(chunk) = pipe.chunks.pop_front() {
                pipe.bytes -= chunk.bytes.as_ref().map_or(0, Bytes::len);
                arrived.push(chunk);
            }
        }
        if let Some(next) = pipe.chunks.front() {
            pipe.scheduled = true;
            time.at(next.at, Event::Deliver { conn: number, from });
        }
        arrived
    }

    /// A process ends its side of a connection: bytes that it sent still arrive, then the end of the stream.
    pub fn close(&mut self, number: u64, side: usize, time: &mut Timeline) {
        let Some(conn) = self.conns.get_mut(&number) else { return };
        conn.ends[side].open = false;
        if conn.ends[1 - side].open {
            self.put(number, side, (None, time.now()), time);
        } else {
            self.conns.remove(&number);
        }
    }

    /// The other side learns of the end after `wait`; bytes on their way are lost.
    pub fn vanish(&mut self, number: u64, side: usize, wait: u64, time: &mut Timeline) {
        if let Some(conn) = self.conns.get_mut(&number) {
            let pipe = &mut conn.pipes[side];
            pipe.chunks.clear();
            pipe.bytes = 0;
            pipe.last_at = pipe.last_at.max(time.now() + wait);
        }
        self.close(number, side, time);
    }

    /// Takes a connection away from both ends. Returns those that still had it.
    pub fn break_up(&mut self, number: u64) -> Vec<(usize, ConnId)> {
        let Some(conn) = self.conns.remove(&number) else { return Vec::new() };
        conn.ends.iter().filter(|end| end.open).map(|end| (end.who, end.id)).collect()
    }

    /// All connections between two processes.
    pub fn between(&self, a: usize, b: usize) -> Vec<u64> {
        let joins = |conn: &Conn| {
            let ends = (conn.ends[0].who, conn.ends[1].who);
            ends == (a, b) || ends == (b, a)
        };
        self.conns.iter().filter(|(_, conn)| joins(conn)).map(|(number, _)| *number).collect()
    }

    /// All connections.
    pub fn all(&self) -> Vec<u64> {
        self.conns.keys().copied().collect()
    }

    /// The most bytes on their way in one direction of one connection, among those that these processes sent.
    pub fn bytes_max(&self, of: impl Fn(usize) -> bool) -> usize {
        let directions = self.conns.values().flat_map(|conn| conn.ends.iter().zip(&conn.pipes));
        directions.filter(|(end, _)| of(end.who)).map(|(_, pipe)| pipe.bytes).max().unwrap_or(0)
    }

    /// Nothing gets from one to the other from now on.
    pub fn cut(&mut self, from: usize, to: usize) {
        self.link(from, to).cuts += 1;
    }

    /// One cut ends.
    pub fn join(&mut self, from: usize, to: usize, time: &mut Timeline) {
        let link = self.link(from, to);
        link.cuts = link.cuts.saturating_sub(1);
        if link.cuts > 0 {
            return;
        }
        for number in self.between(from, to) {
            // TCP sends again after a while that depends on how long it was cut off.
            let wait = self.rng.spread(100_000, 50_000_000);
            let Some(conn) = self.conns.get_mut(&number) else { continue };
            for side in 0..2 {
                if conn.ends[side].who == from && conn.pipes[side].stalled {
                    conn.pipes[side].stalled = false;
                    conn.pipes[side].scheduled = true;
                    time.after(wait, Event::Deliver { conn: number, from: side });
                }
            }
        }
    }

    /// Everything from one process to the other takes this much longer.
    pub fn slow(&mut self, from: usize, to: usize, by: u64) {
        self.link(from, to).slow = by;
    }

    /// The next bytes from one to the other are damaged, on every connection.
    pub fn damage(&mut self, from: usize, to: usize) {
        for number in self.between(from, to) {
            let Some(conn) = self.conns.get_mut(&number) else { continue };
            for side in 0..2 {
                if conn.ends[side].who == from {
                    conn.pipes[side].damage = true;
                }
            }
        }
    }

    /// All directions work as usual.
    pub fn heal(&mut self, time: &mut Timeline) {
        self.healed = true;
        for from in 0..self.size {
            for to in 0..self.size {
                self.link(from, to).slow = 0;
                if self.is_cut(from, to) {
                    self.link(from, to).cuts = 1;
                    self.join(from, to, time);
                }
            }
        }
    }
}
