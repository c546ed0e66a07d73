//! The pillars of a replica on its lanes, and links that move between lanes at random moments.
//!
//! As in host/runtime/src/lane/{pillars,side,sides,placement}.rs: the connections of a link stand on one lane, with the pillars of its
//! instances. A pillar takes frames that come in on its lane; the rest goes to the main lane. The main lane, which is lane 0, may have
//! links, too. Whether a frame overtakes an earlier one of its connection is checked across all lanes here (INV-NODE-12).

use super::lanes::Word;
use super::process::Arrival;
use super::{MS, Processes};
use crate::queue::Event;
use crate::timeline::Timeline;
use crate::trace::Level;
use crate::work::spread;
use quorate_node::{Bridge, Bridges, Effect, Effects, Inbox, Input, Mail, OwnLane, Reports, link_of};
use quorate_types::{ConnId, InstanceId, Time};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of a pillar.
pub(super) struct Post {
    id: InstanceId,
    inner: Mutex<Inner>,
}

struct Inner {
    pillar: OwnLane,
    mail: Mail,
    reports: Reports,
    /// Its lane was asked for a turn and had none since.
    asked: bool,
    held: bool,
    over: bool,
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Post({})", self.id)
    }
}

impl Post {
    /// Whether its lane must give it a turn.
    fn needs(&self, now: Time) -> bool {
        let inner = lock(&self.inner);
        inner.asked || inner.pillar.deadline().is_some_and(|at| at <= now)
    }

    /// A turn on its lane. Whether there is a report.
    fn turn(&self, now: Time, inbox: &mut Inbox, out: &mut Effects) -> bool {
        let mut inner = lock(&self.inner);
        inner.asked = false;
        !inner.held && !inner.over && inner.turn(now, inbox, out)
    }

    fn due(&self) -> Option<Time> {
        let inner = lock(&self.inner);
        inner.pillar.deadline().filter(|_| !inner.held && !inner.over)
    }

    fn is_over(&self) -> bool {
        lock(&self.inner).over
    }
}

impl Inner {
    fn turn(&mut self, now: Time, inbox: &mut Inbox, out: &mut Effects) -> bool {
        let report = self.pillar.turn(now, std::mem::take(&mut self.mail), inbox, out);
        let any = report.is_some();
        if let Some(report) = report {
            self.reports.append(report);
        }
        any
    }
}

/// Makes posts, which wait there for their lanes.
#[derive(Clone, Debug, Default)]
struct News(Arc<Mutex<Vec<Arc<Post>>>>);

impl Bridges for News {
    fn build(&mut self, id: InstanceId, pillar: OwnLane) -> Box<dyn Bridge> {
        let (mail, reports) = (Mail::default(), Reports::default());
        let inner = Inner { pillar, mail, reports, asked: true, held: false, over: false };
        let post = Arc::new(Post { id, inner: Mutex::new(inner) });
        lock(&self.0).push(post.clone());
        Box::new(ToPost { post, news: self.clone() })
    }
}

/// The main lane's end.
#[derive(Debug)]
struct ToPost {
    post: Arc<Post>,
    news: News,
}

impl Bridge for ToPost {
    fn send(&mut self, mail: Mail) {
        lock(&self.post.inner).mail.append(mail);
    }

    fn ask(&mut self) -> bool {
        !std::mem::replace(&mut lock(&self.post.inner).asked, true)
    }

    fn turn(&mut self, now: Time, inbox: &mut Inbox, out: &mut Effects) {
        lock(&self.post.inner).turn(now, inbox, out);
        // Its next turn may be due at another time.
        lock(&self.news.0).push(self.post.clone());
    }

    fn hold(&mut self, held: bool) {
        lock(&self.post.inner).held = held;
    }

    fn rest(&mut self, rests: bool) {
        lock(&self.post.inner).over = rests;
        if !rests {
            lock(&self.news.0).push(self.post.clone());
        }
    }

    fn hear(&mut self) -> Reports {
        std::mem::take(&mut lock(&self.post.inner).reports)
    }

    fn look(&self, look: &mut dyn FnMut(&OwnLane)) {
        look(&lock(&self.post.inner).pillar);
    }

    fn wanted(&self) -> Option<Time> {
        let inner = lock(&self.post.inner);
        inner.reports.woke().into_iter().chain(inner.pillar.deadline()).min()
    }

    fn deadline(&self) -> Option<Time> {
        None
    }
}

impl Drop for ToPost {
    fn drop(&mut self) {
        lock(&self.post.inner).over = true;
    }
}

/// The pillars of one lane, and what came in there.
#[derive(Debug, Default)]
pub(super) struct OnLane {
    posts: Vec<Arc<Post>>,
    inbox: Inbox,
    /// The connections of what was passed on to the main lane, as far as that has not heard it.
    passed: VecDeque<Option<ConnId>>,
    /// How much the main lane has heard, with the mail that follows from it.
    heard: u64,
    /// The virtual time of its timer.
    timer: Option<u64>,
}

impl OnLane {
    fn add(&mut self, post: Arc<Post>) {
        self.posts.retain(|known| !Arc::ptr_eq(known, &post) && !known.is_over());
        self.posts.push(post);
    }

    fn remove(&mut self, post: &Arc<Post>) {
        self.posts.retain(|known| !Arc::ptr_eq(known, post));
    }

    fn due(&self) -> Option<Time> {
        self.posts.iter().filter_map(|post| post.due()).min()
    }

    pub(super) fn put(&mut self, input: Input) {
        self.inbox.put(input);
    }
}

/// Which lane has which link.
#[derive(Debug)]
pub(super) struct Standing {
    news: News,
    known: Vec<Arc<Post>>,
    /// The lane of each link; link 0 is the first one.
    links: Vec<u16>,
    lanes: u16,
    /// The links of connections.
    of: BTreeMap<ConnId, u16>,
    /// The pillars of the main lane.
    own: OnLane,
    /// For each connection: how many of its frames the main lane has not heard, whichever lane passed them on.
    unheard: BTreeMap<ConnId, u64>,
    /// How much of each lane the main lane has heard in this turn.
    hearing: Vec<(u16, u64)>,
    /// The longest time until another link moves.
    every: u64,
}

/// Lanes with pillars.
impl Processes {
    /// The pillars of this life of a replica stand on so many lanes, and move.
    pub fn stand_on_lanes(
        &mut self,
        who: usize,
        (links, lanes): (u16, u16),
        every: u64,
        time: &mut Timeline,
    ) -> Box<dyn Bridges> {
        let news = News::default();
        let mut place = |link| if link == 0 { 0 } else { time.rng().below(u64::from(lanes)) as u16 };
        let links = match self.has_cores(who) {
            true => spread(links, lanes),
            false => (0..links).map(&mut place).collect(),
        };
        self.list[who].lanes.standing = Some(Standing {
            news: news.clone(),
            known: Vec::new(),
            links,
            lanes,
            of: BTreeMap::new(),
            own: OnLane::default(),
            unheard: BTreeMap::new(),
            hearing: Vec::new(),
            every,
        });
        if !self.has_cores(who) {
            self.move_soon(who, time);
        }
        Box::new(news)
    }

    fn move_soon(&mut self, who: usize, time: &mut Timeline) {
        let Some(standing) = &self.list[who].lanes.standing else { return };
        let wait = time.rng().spread(MS / 10, standing.every);
        time.after(wait, Event::MoveLink { who, life: self.list[who].life });
    }

    /// A link of a replica moves to another lane.
    pub fn move_a_link(&mut self, who: usize, life: u32, goes_on: bool, time: &mut Timeline) {
        if !self.lives(who, life) {
            return;
        }
        if let Some(standing) = &self.list[who].lanes.standing
            && standing.links.len() > 1
            && !self.is_paused(who)
        {
            let link = 1 + time.rng().below(standing.links.len() as u64 - 1) as u16;
            let lane = time.rng().below(u64::from(standing.lanes)) as u16;
            self.move_link(who, link, lane, time);
        }
        if goes_on {
            self.move_soon(who, time);
        }
    }

    fn move_link(&mut self, who: usize, link: u16, lane: u16, time: &mut Timeline) {
        self.place_pillars(who, time);
        let Some(standing) = &mut self.list[who].lanes.standing else { return };
        let old = std::mem::replace(&mut standing.links[usize::from(link)], lane);
        time.note(Level::Events, Some(who), "link", || {
            format!("{link} from lane {} to {}", old + 1, lane + 1)
        });
        let count = standing.links.len() as u16;
        let posts: Vec<Arc<Post>> =
            standing.known.iter().filter(|post| link_of(post.id, count) == link).cloned().collect();
        let conns: Vec<ConnId> =
            standing.of.iter().filter(|(_, of)| **of == link).map(|(conn, _)| *conn).collect();
        for post in posts {
            match old {
                0 => standing_of(self, who).own.remove(&post),
                old => self.tell(who, old, Word::Without(post.clone()), time),
            }
            self.place(who, post, time);
        }
        conns.into_iter().for_each(|conn| self.move_to_lane(who, conn, lane, time));
        self.wake(who, time);
    }

    fn place(&mut self, who: usize, post: Arc<Post>, time: &mut Timeline) {
        let standing = standing_of(self, who);
        match standing.links[usize::from(link_of(post.id, standing.links.len() as u16))] {
            0 => standing.own.add(post),
            lane => self.tell(who, lane, Word::Pillar(post), time),
        }
    }

    /// Tells the lanes of new pillars, and of those that must look at their time again.
    pub fn place_pillars(&mut self, who: usize, time: &mut Timeline) {
        let Some(standing) = &mut self.list[who].lanes.standing else { return };
        let news = std::mem::take(&mut *lock(&standing.news.0));
        for post in news {
            let standing = standing_of(self, who);
            standing.known.retain(|known| !Arc::ptr_eq(known, &post) && !known.is_over());
            standing.known.push(post.clone());
            self.place(who, post, time);
        }
    }

    /// Something waits for the pillar of an instance. Whether its lane sees to that.
    pub fn ask_pillar(&mut self, who: usize, id: InstanceId, time: &mut Timeline) -> bool {
        self.place_pillars(who, time);
        let Some(standing) = &self.list[who].lanes.standing else { return false };
        match standing.links[usize::from(link_of(id, standing.links.len() as u16))] {
            0 => self.wake(who, time),
            lane => self.schedule_lane(who, lane, time),
        }
        true
    }

    /// A connection belongs to a link from now on.
    pub fn belongs(&mut self, who: usize, conn: ConnId, link: u16, time: &mut Timeline) {
        let lane = match &mut self.list[who].lanes.standing {
            None => link,
            Some(standing) => {
                standing.of.insert(conn, link);
                standing.links[usize::from(link)]
            }
        };
        self.move_to_lane(who, conn, lane, time);
    }

    /// The pillars of the main lane have their turns, if they need any. Whether there is something to hear.
    pub fn turn_own_pillars(&mut self, who: usize, now: Time, out: &mut Effects) -> bool {
        let Some(standing) = &mut self.list[who].lanes.standing else { return false };
        let mut any = false;
        for post in &standing.own.posts {
            any |= post.needs(now) && post.turn(now, &mut Inbox::default(), out);
        }
        any
    }

    /// When a pillar of the main lane must have its turn.
    pub fn own_due(&self, who: usize) -> Option<Time> {
        self.list[who].lanes.standing.as_ref().and_then(|standing| standing.own.due())
    }

    /// The main lane has heard so much of a lane.
    pub fn hears(&mut self, who: usize, lane: u16, count: u64) {
        standing_of(self, who).hearing.push((lane, count));
    }

    /// The main lane's turn is over: the mail is sent that follows from what it heard.
    pub fn mail_is_sent(&mut self, who: usize) {
        let Some(standing) = &mut self.list[who].lanes.standing else { return };
        let hearing = std::mem::take(&mut standing.hearing);
        for (lane, count) in hearing {
            let Some(on) = self.list[who].lanes.on_lane(lane) else { continue };
            on.heard += count;
            let conns: Vec<_> = on.passed.drain(..count as usize).flatten().collect();
            let unheard = &mut standing_of(self, who).unheard;
            for conn in conns {
                if let Some(left) = unheard.get_mut(&conn) {
                    *left -= 1;
                }
            }
            unheard.retain(|_, left| *left > 0);
        }
    }

    /// A pillar comes to a lane, or leaves it.
    pub(super) fn post_moves(&mut self, who: usize, lane: u16, word: Word, time: &mut Timeline) {
        let Some(on) = self.list[who].lanes.on_lane(lane) else { return };
        match word {
            Word::Pillar(post) => on.add(post),
            Word::Without(post) => {
                on.remove(&post);
                // Its next turn may be due at another time than its new lane knows.
                self.arrive_at_main(who, Arrival::Without(post.id), time);
            }
            _ => {}
        }
    }

    /// The pillars of a lane have their turns; what they leave goes to the main lane.
    pub(super) fn turn_pillars(&mut self, who: usize, lane: u16, time: &mut Timeline) {
        let now = self.local(who, time);
        let Some(mut on) = self.list[who].lanes.on_lane(lane).map(std::mem::take) else { return };
        on.inbox.heard(on.heard);
        let (mut out, mut reports) = (Effects::new(), false);
        for post in &on.posts {
            if post.needs(now) || !on.inbox.is_empty() {
                let before = on.inbox.frames();
                reports |= post.turn(now, &mut on.inbox, &mut out);
                self.check_taken(who, &before, &on.inbox.frames());
            }
        }
        let mut count = 0;
        for input in on.inbox.pass_on() {
            count += 1;
            let (conn, arrival) = match input {
                Input::Frame { conn, frame } => (Some(conn), Arrival::Frame(conn, frame)),
                Input::Closed(conn) => (None, Arrival::End(conn)),
                other => unreachable!("no lane reads {other:?}"),
            };
            on.passed.push_back(conn);
            if let Some(conn) = conn {
                *standing_of(self, who).unheard.entry(conn).or_default() += 1;
            }
            self.arrive_at_main(who, arrival, time);
        }
        if count > 0 {
            self.arrive_at_main(who, Arrival::Heard(lane, count), time);
        }
        if reports {
            self.pay(who, lane, time.now(), |work| work.prices.hand);
            self.pay(who, 0, time.now(), |work| work.prices.hand);
            self.arrive_at_main(who, Arrival::Run(quorate_node::Part::Main), time);
        }
        if let Some(due) = on.due().map(|due| self.when(who, due, time)).filter(|at| on.timer != Some(*at)) {
            on.timer = Some(due);
            time.at(due.max(time.now()), Event::Lane { who, life: self.list[who].life, lane });
        }
        self.list[who].lanes.put_on_lane(lane, on);
        for effect in out.drain() {
            let Effect::Send { conn, frame } = effect else { continue };
            if self.list[who].lanes.is_on(conn, lane) {
                self.send_at_once((who, lane), conn, &frame.to_vec(), time);
            } else {
                self.arrive_at_main(who, Arrival::Send(conn, frame.to_vec().into()), time);
            }
        }
    }

    /// INV-NODE-12 across lanes: a pillar took frames only of connections of which the main lane has heard everything.
    fn check_taken(&self, who: usize, before: &BTreeMap<ConnId, usize>, after: &BTreeMap<ConnId, usize>) {
        let Some(standing) = &self.list[who].lanes.standing else { return };
        for (conn, count) in before {
            assert!(
                after.get(conn) == Some(count) || !standing.unheard.contains_key(conn),
                "INV-NODE-12 a pillar of r{} takes a frame of {conn} while the main lane may have an earlier one",
                who + 1
            );
        }
    }
}

/// That of a replica whose pillars stand on lanes.
fn standing_of(processes: &mut Processes, who: usize) -> &mut Standing {
    processes.list[who].lanes.standing.as_mut().expect("its pillars stand on lanes")
}
