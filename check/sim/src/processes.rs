//! The processes of a run, replicas first, then clients: their lives, clocks and turns, and the connections between them.
//!
//! `processes/lanes.rs` has the lanes of a replica other than the main one; `processes/cores.rs` decides when a process has a core.

mod cores;
mod lanes;
mod pillars;
mod process;
mod unread;

use crate::clock::Clock;
use crate::net::{Dial, End, Net};
use crate::plan::Plan;
use crate::queue::Event;
use crate::random::Rng;
use crate::timeline::Timeline;
use crate::work::{Core, Work};
use process::Process;
use quorate_types::{ConnId, ReplicaId, Time};
use quorate_wire::{Frame, FrameReader};

pub use process::Arrival;
pub use unread::{Part, Unread};

const MS: u64 = 1_000_000;

/// All of them, and the network.
#[derive(Debug)]
pub struct Processes {
    list: Vec<Process>,
    net: Net,
    /// How many of them are replicas, and how many of those founders.
    replicas: usize,
    founders: usize,
    /// With so many of these something may be decided.
    enough: usize,
    /// If set, replicas have a core for so long out of every so long.
    starved: Option<(u64, u64)>,
    /// What work costs, if it does; and the cores of all lanes of each replica.
    work: Option<Work>,
    cores: Vec<Vec<Core>>,
}

impl Processes {
    /// As planned; no process runs yet.
    pub fn new(plan: &Plan) -> Self {
        let size = plan.replicas + plan.clients;
        let mut rng = Rng::of(plan.seed, 2);
        let mut process = |_| {
            let local = rng.spread(1, 1_000_000 * MS);
            Process::new(Clock::new(local, 0, plan.draw_drift(&mut rng)))
        };
        Self {
            list: (0..size).map(&mut process).collect(),
            net: Net::new(plan.net.clone(), size, Rng::of(plan.seed, 4)),
            replicas: plan.replicas,
            founders: plan.founders,
            enough: plan.enough(),
            starved: plan.starved,
            work: plan.work,
            cores: cores::cores(plan),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// The number of its present life.
    pub fn life(&self, who: usize) -> u32 {
        self.list[who].life
    }

    /// Whether it runs, or would run if no fault kept it from it.
    pub fn is_up(&self, who: usize) -> bool {
        self.list[who].up
    }

    /// Whether it is up in this life.
    pub fn lives(&self, who: usize, life: u32) -> bool {
        self.list[who].life == life && self.list[who].up
    }

    /// Whether a fault keeps it from doing anything.
    pub fn is_paused(&self, who: usize) -> bool {
        self.list[who].pauses > 0
    }

    /// Whether it does something when it is woken.
    pub fn runs(&self, who: usize) -> bool {
        self.list[who].runs()
    }

    /// Whether enough founders run to decide something.
    pub fn can_agree(&self) -> bool {
        let runs = |process: &&Process| process.up && !process.away;
        self.list[..self.founders].iter().filter(runs).count() >= self.enough
    }

    /// What its clock shows.
    pub fn local(&self, who: usize, time: &Timeline) -> Time {
        self.list[who].clock.read(time.now())
    }

    /// The virtual time at which its clock will show that.
    pub fn when(&self, who: usize, local: Time, time: &Timeline) -> u64 {
        self.list[who].clock.when(time.now(), local)
    }

    /// Another life begins, with this clock.
    pub fn start(&mut self, who: usize, clock: Clock) {
        self.list[who].start(clock);
    }

    /// Another life of a client begins; it keeps its clock.
    pub fn start_client(&mut self, who: usize, time: &mut Timeline) {
        let clock = self.list[who].clock.clone();
        self.start(who, clock);
        self.wake(who, time);
    }

    /// Its life ends. With `machine`, its peers are not told that connections end.
    pub fn end(&mut self, who: usize, machine: bool, time: &mut Timeline) {
        self.list[who].up = false;
        self.list[who].pauses = 0;
        self.list[who].waits = false;
        self.list[who].inbox.clear();
        for (id, conn) in std::mem::take(&mut self.list[who].conns) {
            let Some(side) = self.net.side(conn, who, id) else { continue };
            if machine {
                let wait = time.rng().spread(MS, 3_000 * MS);
                self.net.vanish(conn, side, wait, time);
            } else if time.rng().chance(500) {
                self.net.vanish(conn, side, 0, time);
            } else {
                self.net.close(conn, side, time);
            }
        }
    }

    /// It will have a turn soon.
    pub fn wake(&mut self, who: usize, time: &mut Timeline) {
        let process = &mut self.list[who];
        if process.turn || !process.runs() {
            return;
        }
        process.turn = true;
        let at = process.busy.max(time.now() + 1_000 + time.rng().below(20_000));
        let life = process.life;
        let at = at.max(self.works_until(who, 0));
        time.at(self.has_core(who, at), Event::Turn { who, life });
    }

    /// Its timer fires: it is time for a turn.
    pub fn timer(&mut self, who: usize, life: u32, time: &mut Timeline) {
        let process = &mut self.list[who];
        if process.life == life && process.wake == Some(time.now()) {
            process.wake = None;
            self.wake(who, time);
        }
    }

    /// It is time for its turn. Returns whether it can have it.
    pub fn has_turn(&mut self, who: usize, life: u32) -> bool {
        if self.list[who].life != life {
            return false;
        }
        self.list[who].turn = false;
        self.list[who].runs()
    }

    /// It takes what arrived.
    pub fn take_arrived(&mut self, who: usize, time: &mut Timeline) -> Vec<Arrival> {
        let arrived: Vec<Arrival> = self.list[who].inbox.drain(..).collect();
        if !self.has_cores(who) {
            self.works(who, 2_000 + 1_000 * arrived.len() as u64, time);
        }
        time.mix(&[who as u64, arrived.len() as u64]);
        arrived
    }

    /// It takes this in its next turn, which is not long after this one.
    pub fn put_back(&mut self, who: usize, rest: impl DoubleEndedIterator<Item = Arrival>) {
        rest.rev().for_each(|arrival| self.list[who].inbox.push_front(arrival));
    }

    /// Its turn is over. It wants the next one at that time, if at all.
    pub fn sleep(&mut self, who: usize, deadline: Option<u64>, time: &mut Timeline) {
        let process = &mut self.list[who];
        match deadline {
            Some(at) if at <= time.now() => self.wake(who, time),
            Some(at) if process.up && process.wake != Some(at) => {
                process.wake = Some(at);
                time.at(at, Event::Wake { who, life: process.life });
            }
            Some(_) => {}
            None => process.wake = None,
        }
    }

    /// What it has not read yet, where messages cost time.
    pub fn unread(&mut self, who: usize) -> &mut Unread {
        &mut self.list[who].unread
    }

    /// Sets whether it waits for another thread of its own. Returns the value before.
    pub fn set_waits(&mut self, who: usize, waits: bool) -> bool {
        std::mem::replace(&mut self.list[who].waits, waits)
    }

    /// Whether it runs, and nothing keeps it from doing anything.
    pub fn does_something(&self, who: usize) -> bool {
        self.list[who].runs()
    }

    /// Whether it waits for another thread of its own.
    pub fn waits(&self, who: usize) -> bool {
        self.list[who].waits
    }

    /// Something arrived at a process.
    pub fn arrive(&mut self, who: usize, arrival: Arrival, time: &mut Timeline) {
        if self.list[who].up
            && let Some(arrival) = self.arrives_at_lane(who, arrival, time)
        {
            self.arrive_at_main(who, arrival, time);
        }
    }

    /// A part of a replica has its turn, if it is still the life in which it was to have one.
    pub fn run_part(&mut self, who: usize, life: u32, part: quorate_node::Part, time: &mut Timeline) {
        if self.list[who].up && self.list[who].life == life {
            self.arrive_at_main(who, Arrival::Run(part), time);
        }
    }

    fn arrive_at_main(&mut self, who: usize, arrival: Arrival, time: &mut Timeline) {
        self.list[who].inbox.push_back(arrival);
        self.wake(who, time);
    }
}

/// Connections.
impl Processes {
    /// A replica dials another one. Returns the number that it uses for the connection.
    pub fn new_conn(&mut self, who: usize) -> ConnId {
        self.list[who].conn()
    }

    /// A process dials a replica.
    pub fn dial(&mut self, who: usize, id: ConnId, (replica, link): (ReplicaId, u16), time: &mut Timeline) {
        let to = usize::from(replica.number()) - 1;
        let until = time.now() + time.rng().spread(200 * MS, 10_000 * MS);
        self.net.dial(Dial { from: (who, self.list[who].life), id, to, link, until }, time);
    }

    /// The outcome of an attempt to connect.
    pub fn dialed(&mut self, number: u64, time: &mut Timeline) {
        let Some(dial) = self.net.take_dial(number) else { return };
        let (from, life) = dial.from;
        if !self.lives(from, life) {
            return;
        }
        let replica = ReplicaId::new(dial.to as u16 + 1);
        let cut = self.net.is_cut(from, dial.to) || self.net.is_cut(dial.to, from);
        if cut && time.now() < dial.until {
            return self.net.dial_again(number, dial, time);
        }
        if cut || !self.list[dial.to].up {
            return self.arrive(from, Arrival::DialFailed(dial.id, replica, dial.link), time);
        }
        let there = self.list[dial.to].conn();
        let conn = self.net.connect((from, dial.id), (dial.to, there));
        self.list[from].conns.insert(dial.id, conn);
        self.list[dial.to].conns.insert(there, conn);
        self.arrive(dial.to, Arrival::Accepted(there), time);
        self.arrive(from, Arrival::Dialed(dial.id, replica, dial.link), time);
    }

    /// Bytes reach the other end of a connection.
    pub fn deliver(&mut self, number: u64, from: usize, time: &mut Timeline) {
        let arrived = self.net.deliver(number, from, time);
        let Some(conn) = self.net.conn(number) else { return };
        let of = |end: &End| (end.who, end.id, end.open);
        let (sender, sender_id, sender_open) = of(&conn.ends[from]);
        let (receiver, id, open) = of(&conn.ends[1 - from]);
        for chunk in arrived {
            let Some(bytes) = chunk.bytes else {
                if open {
                    self.arrive(receiver, Arrival::End(id), time);
                }
                return;
            };
            time.mix(&[number << 1 | from as u64, u64::from(crc32c::crc32c(&bytes))]);
            let len = bytes.len();
            time.arrow((chunk.sent, sender), receiver, len);
            if open {
                self.arrive(receiver, Arrival::Bytes(id, bytes), time);
            }
            if sender_open && sender >= self.replicas {
                self.arrive(sender, Arrival::Left(sender_id, len), time);
            }
        }
    }

    /// A connection ends at both sides without notice.
    pub fn time_out(&mut self, conn: u64, time: &mut Timeline) {
        for (who, id) in self.net.break_up(conn) {
            self.arrive(who, Arrival::End(id), time);
        }
    }

    /// Whether a process has this connection.
    pub fn has_conn(&self, who: usize, id: ConnId) -> bool {
        self.list[who].conns.contains_key(&id)
    }

    /// Whether a lane other than the main one reads it.
    pub fn is_at_lane(&self, who: usize, id: ConnId) -> bool {
        self.list[who].lanes.has(id)
    }

    /// The network's number for a connection of a process, and the process's end of it.
    fn end_of(&self, who: usize, id: ConnId) -> Option<(u64, usize)> {
        let conn = *self.list[who].conns.get(&id)?;
        Some((conn, self.net.side(conn, who, id)?))
    }

    /// Which process is at the other end of a connection.
    pub fn other_end(&mut self, who: usize, id: ConnId) -> Option<usize> {
        let (conn, side) = self.end_of(who, id)?;
        Some(self.net.conn(conn)?.ends[1 - side].who)
    }

    /// Cuts what arrives on a connection into frames.
    pub fn reader(&mut self, who: usize, id: ConnId) -> Option<&mut FrameReader> {
        let (conn, side) = self.end_of(who, id)?;
        Some(&mut self.net.conn(conn)?.ends[side].reader)
    }

    /// Frames that arrive on a connection have at most this many bytes.
    pub fn set_frame_limit(&mut self, who: usize, id: ConnId, bytes: u32) {
        if let Some(reader) = self.reader(who, id) {
            reader.set_limit(bytes);
        }
    }

    /// The frames that are complete with these bytes, and whether damaged bytes follow.
    pub fn read(&mut self, who: usize, id: ConnId, bytes: &[u8]) -> Option<(Vec<Frame>, bool)> {
        let reader = self.reader(who, id)?;
        reader.push(bytes);
        let mut frames = Vec::new();
        loop {
            match reader.frame() {
                Ok(None) => return Some((frames, false)),
                Err(_) => return Some((frames, true)),
                Ok(Some(frame)) => frames.push(frame),
            }
        }
    }

    /// A process ends its side of a connection.
    pub fn hang_up(&mut self, who: usize, id: ConnId, time: &mut Timeline) {
        let end = self.end_of(who, id);
        self.list[who].conns.remove(&id);
        if let Some((conn, side)) = end {
            self.net.close(conn, side, time);
        }
    }

    /// The main lane ends a connection, through the lane that has it.
    pub fn close(&mut self, who: usize, id: ConnId, time: &mut Timeline) {
        if !self.close_by_lane(who, id, time) {
            self.hang_up(who, id, time);
        }
    }

    /// A connection ended, whichever lane has it.
    pub fn ended(&mut self, who: usize, id: ConnId, time: &mut Timeline) {
        self.hang_up(who, id, time);
        self.forget_at_lane(who, id);
    }

    /// The main lane sends bytes, through the lane that has the connection.
    pub fn send(&mut self, who: usize, id: ConnId, bytes: &[u8], time: &mut Timeline) {
        if !self.send_by_lane(who, id, bytes, time) {
            self.send_at_once((who, 0), id, bytes, time);
        }
    }

    /// A lane of a process sends bytes, once it has done the work before.
    fn send_at_once(&mut self, (who, lane): (usize, u16), id: ConnId, bytes: &[u8], time: &mut Timeline) {
        if let Some((conn, side)) = self.end_of(who, id) {
            self.pay(who, lane, time.now(), |work| work.prices.frame);
            let at = self.works_until(who, lane).max(time.now());
            self.net.send(conn, side, (bytes, at), time);
        }
    }

    /// The most bytes on their way on one connection, among those that these processes sent.
    pub fn bytes_max(&self, of: impl Fn(usize) -> bool) -> usize {
        self.net.bytes_max(of)
    }
}

/// What faults do to them.
impl Processes {
    /// A process does nothing for a while. `long`: whether the pause is a long one.
    pub fn pause(&mut self, who: usize, long: bool, time: &Timeline) {
        let process = &mut self.list[who];
        process.pauses += 1;
        process.away |= long;
        // Half of the time the pause comes right after it read its clock.
        if time.now().is_multiple_of(2) && process.glimpse.is_none() {
            process.glimpse = Some(process.clock.read(time.now()));
        }
    }

    /// The time that its clock showed when it was paused right after reading it.
    pub fn take_glimpse(&mut self, who: usize) -> Option<Time> {
        self.list[who].glimpse.take()
    }

    /// One pause is over. The caller must wake the process.
    pub fn go_on(&mut self, who: usize) {
        let process = &mut self.list[who];
        process.pauses = process.pauses.saturating_sub(1);
        process.away &= process.pauses > 0;
    }

    /// Its machine is suspended.
    pub fn suspend(&mut self, who: usize, time: &Timeline) {
        self.list[who].pauses += 1;
        self.list[who].clock.stop(time.now());
    }

    /// Its machine's clock goes on.
    pub fn clock_goes_on(&mut self, who: usize, time: &Timeline) {
        self.list[who].clock.go(time.now());
    }

    /// Its clock jumps ahead.
    pub fn jump(&mut self, who: usize, by: u64, time: &mut Timeline) {
        self.list[who].clock.jump(time.now(), by);
        self.list[who].wake = None;
        self.wake(who, time);
    }

    /// Its clock runs at another rate.
    pub fn drift(&mut self, who: usize, rate: i64, time: &mut Timeline) {
        self.list[who].clock.set_drift(time.now(), rate);
        self.list[who].wake = None;
        self.wake(who, time);
    }

    /// Connections between two processes break; with `perhaps_one`, perhaps only one of them.
    pub fn reset(&mut self, a: usize, b: usize, perhaps_one: bool, time: &mut Timeline) {
        let mut conns = self.net.between(a, b);
        if perhaps_one && !conns.is_empty() && time.rng().chance(500) {
            conns = vec![time.rng().pick(&conns)];
        }
        conns.into_iter().for_each(|conn| self.time_out(conn, time));
    }

    /// The next bytes from one to the other are damaged.
    pub fn damage(&mut self, from: usize, to: usize) {
        self.net.damage(from, to);
    }

    /// Everything from one to the other takes this much longer.
    pub fn slow(&mut self, from: usize, to: usize, by: u64) {
        self.net.slow(from, to, by);
    }

    /// Nothing gets from one to the other from now on.
    pub fn cut(&mut self, from: usize, to: usize, time: &mut Timeline) {
        self.net.cut(from, to);
        for conn in self.net.between(from, to) {
            // Some connections time out while nothing gets through; the others wait for better times.
            if time.rng().chance(300) {
                let wait = time.rng().spread(10 * MS, 10_000 * MS);
                time.after(wait, Event::TimeOut { conn });
            }
        }
    }

    /// A cut is over.
    pub fn join(&mut self, from: usize, to: usize, time: &mut Timeline) {
        self.net.join(from, to, time);
    }

    /// Nothing gets into this group, or out of it, any more.
    pub fn cut_off(&mut self, group: u64, time: &mut Timeline) {
        self.across(group).into_iter().for_each(|(from, to)| self.cut(from, to, time));
    }

    /// The group is connected again.
    pub fn join_again(&mut self, group: u64, time: &mut Timeline) {
        self.across(group).into_iter().for_each(|(from, to)| self.join(from, to, time));
    }

    fn across(&self, group: u64) -> Vec<(usize, usize)> {
        let size = self.list.len();
        let inside = |who: usize| group >> who & 1 == 1;
        (0..size * size)
            .map(|pair| (pair / size, pair % size))
            .filter(|(from, to)| inside(*from) != inside(*to))
            .collect()
    }

    /// Faults are over.
    pub fn heal(&mut self, time: &mut Timeline) {
        self.net.heal(time);
        self.list.iter_mut().for_each(|process| (process.pauses, process.away) = (0, false));
    }

    /// Its clock goes on, whatever kept it.
    pub fn clock_goes_on_at_last(&mut self, who: usize, time: &Timeline) {
        self.list[who].clock.go_at_last(time.now());
    }
}
