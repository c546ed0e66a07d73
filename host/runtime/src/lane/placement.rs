//! Which lane has which link. The connections of a link, to members and of clients, stand on one lane, and so do the pillars of its
//! instances if pillars have lanes. A link can move while the replica works: its pillars and its connections follow one by one, and each
//! frame reaches its pillar, over the main lane where the two are apart for a moment.
//!
//! Lane 0 is the main one. It has the first link, and further ones only with pillars on lanes: otherwise it has all pillars already.
//!
//! In a staged replica each step of the work has a lane: lane 0 executes, lane 1 has all pillars, and the others share the connections,
//! by their numbers. Nothing moves there.
//! Tests: `placement/tests.rs`, host/runtime/tests/all/lanes.rs, check/sim.

use quorate_node::link_of;
use quorate_types::{ConnId, InstanceId, Span, Time};

/// How long a link stays on its lane at least, unless an operator moves it.
const STAY: Span = Span::from_secs(5);
/// A lane has too much work above this many thousandths of its time.
const BUSY: u64 = 700;
/// By how many thousandths of its time the busiest lane must be relieved at least, after all that comes to the other one.
const GAIN: u64 = 150;
/// What merging and executing costs the main lane for each link, in hundredths of what a link costs a lane on average: measured with
/// commands of 16 bytes, 64 in a call.
const ENGINE: u64 = 32;
const LINK: u64 = 100;

/// A lane that is measured: its number, and the thousandths of its time in which it worked lately.
pub(super) type Busy = (u16, u64);

/// The lane of the pillars in a staged replica, and the first of the lanes with connections.
const AGREES: u16 = 1;
const CONNECTS: u16 = 2;

/// Which one of this many lanes with connections has a connection, in a staged replica: for lanes that must agree on it without a word.
pub(super) fn reader_of(conn: ConnId, lanes: usize) -> usize {
    // The result is smaller than the number of lanes.
    (conn.number() % lanes.max(1) as u64) as usize
}

/// Which lane has which link; see the module.
#[derive(Debug)]
pub(super) struct Placement {
    /// The lane of each link, and since when.
    links: Vec<(u16, Time)>,
    /// How many lanes there are.
    lanes: u16,
    /// The first lane that may have further links.
    first: u16,
    /// Whether an operator placed links: then none moves by itself.
    pinned: bool,
    /// Each step of the work has a lane.
    staged: bool,
}

impl Placement {
    /// Spreads links over lanes. `pillars`: the pillars stand on lanes.
    pub(super) fn spread(links: u16, lanes: u16, pillars: bool) -> Self {
        let first = u16::from(lanes > 1 && !pillars);
        let mut load = vec![0; usize::from(lanes)];
        load[0] = ENGINE * u64::from(links.saturating_sub(1));
        let mut placed = vec![(0, Time::ZERO)];
        for _ in 1..links.max(1) {
            // The main lane is the last of equal ones.
            let lane = (first..lanes).min_by_key(|lane| (load[usize::from(*lane)], *lane == 0));
            let lane = lane.unwrap_or(0);
            load[usize::from(lane)] += LINK;
            placed.push((lane, Time::ZERO));
        }
        Self { links: placed, lanes, first, pinned: false, staged: false }
    }

    /// Gives each step of the work a lane.
    pub(super) fn staged(links: u16, lanes: u16) -> Self {
        let mut placed = vec![(AGREES, Time::ZERO); usize::from(links.max(1))];
        placed[0] = (0, Time::ZERO);
        Self { links: placed, lanes, first: AGREES, pinned: false, staged: true }
    }

    /// Whether each step of the work has a lane.
    pub(super) fn is_staged(&self) -> bool {
        self.staged
    }

    /// The step of the work that a lane does, if it does one.
    pub(super) fn step(&self, lane: u16) -> Option<&'static str> {
        self.staged.then_some(match lane {
            0 => "execution",
            AGREES => "agreement",
            _ => "connections",
        })
    }

    /// The number of links.
    pub(super) fn links(&self) -> u16 {
        self.links.len() as u16
    }

    /// The lane of a link.
    pub(super) fn of(&self, link: u16) -> u16 {
        self.links.get(usize::from(link)).map_or(0, |(lane, _)| *lane)
    }

    /// The lane of a connection of a link.
    pub(super) fn of_connection(&self, conn: ConnId, link: u16) -> u16 {
        if !self.staged {
            return self.of(link);
        }
        CONNECTS + reader_of(conn, usize::from(self.lanes.saturating_sub(CONNECTS))) as u16
    }

    /// The lane of an instance.
    pub(super) fn of_instance(&self, id: InstanceId) -> u16 {
        self.of(link_of(id, self.links()))
    }

    /// The further links on a lane.
    pub(super) fn on(&self, lane: u16) -> impl Iterator<Item = u16> + '_ {
        (1..self.links()).filter(move |link| self.of(*link) == lane)
    }

    /// A link stands on this lane from now on.
    pub(super) fn put(&mut self, now: Time, link: u16, lane: u16) {
        if let Some(place) = self.links.get_mut(usize::from(link)) {
            *place = (lane, now);
        }
    }

    /// An operator wants instances on these lanes; or, if there are none, that links move by themselves again. `instances`: how many there
    /// are. Gives the links to move, and their lanes.
    ///
    /// # Errors
    /// What is wrong with the wish, for the operator.
    pub(super) fn wish(
        &mut self,
        wish: &[(InstanceId, u16)],
        instances: u16,
    ) -> Result<Vec<(u16, u16)>, String> {
        if self.staged {
            let why = "it is staged, so each lane has one step of the work and nothing moves: for lanes with instances \
                       remove `placement` from its configuration, and restart it";
            return Err(why.into());
        }
        if wish.is_empty() {
            self.pinned = false;
            return Ok(Vec::new());
        }
        if self.lanes == 1 {
            return Err("it has one lane: set `lanes` or `cores` in its configuration, and restart it".into());
        }
        let mut moves: Vec<(u16, u16)> = Vec::new();
        for (id, lane) in wish {
            if !(self.first..self.lanes).contains(lane) {
                let why =
                    if *lane == 0 { "; lane 1 has instances only with pillars = \"lanes\"" } else { "" };
                return Err(format!("it has lanes {} to {}{why}", self.first + 1, self.lanes));
            }
            if id.number() > instances {
                return Err(format!("there are instances 1 to {instances}"));
            }
            let link = link_of(*id, self.links());
            if moves.iter().any(|(other, at)| *other == link && at != lane) {
                return Err(format!(
                    "instance {} shares its connections with another of these: they stand together",
                    id.number()
                ));
            }
            moves.push((link, *lane));
        }
        self.pinned = true;
        moves.retain(|(link, lane)| self.of(*link) != *lane);
        Ok(moves)
    }

    /// Whether clients may move to other lanes than that of their link: where pillars stand on lanes, their frames would take a detour.
    pub(super) fn clients_move(&self) -> bool {
        self.first > 0 && !self.pinned && !self.staged
    }

    /// The link to move, and where, if a lane has too much work while another has time. Moving must pay even if the link brings as much
    /// work as the busy lane's links have on average. The busiest lane that a link can relieve counts.
    pub(super) fn wanted(&self, now: Time, busy: &[Busy]) -> Option<(u16, u16)> {
        let able = busy.iter().filter(|(lane, _)| *lane >= self.first);
        let least = *able.clone().min_by_key(|(_, busy)| *busy)?;
        let mut most: Vec<Busy> = able.filter(|(_, busy)| *busy >= BUSY).copied().collect();
        most.sort_by_key(|(_, busy)| std::cmp::Reverse(*busy));
        let link = most.into_iter().find_map(|most| self.relief(now, most, least))?;
        (!self.pinned && !self.staged).then_some((link, least.0))
    }

    /// The link that relieves a lane if it moves to another one: the one that has stood there for longest.
    fn relief(&self, now: Time, most: Busy, least: Busy) -> Option<u16> {
        let settled = |link: u16| {
            let since = self.links[usize::from(link)].1;
            since == Time::ZERO || now.since(since) >= STAY
        };
        // One that moved lately shows in what was measured only later.
        if !self.on(most.0).chain(self.on(least.0)).all(settled) {
            return None;
        }
        let engine = if most.0 == 0 { ENGINE * u64::from(self.links() - 1) } else { 0 };
        let work = LINK * self.on(most.0).count() as u64 + engine;
        let share = (most.1 * LINK).checked_div(work)?;
        let pays = work > LINK && least.1 + share + GAIN <= most.1;
        self.on(most.0).min_by_key(|link| self.links[usize::from(*link)].1).filter(|_| pays)
    }
}

#[cfg(test)]
mod tests;
