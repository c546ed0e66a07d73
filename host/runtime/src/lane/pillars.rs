//! Pillars of instances that stand on other lanes: where the main lane and a pillar's lane meet.
//!
//! A post has a pillar, the mail for it, and the reports of its turns. Its lane gives it turns; for a few rare operations the main lane does
//! so itself, or holds the pillar. Whoever gives a turn has the pillar's lock meanwhile, and takes the mail and adds the report under it, so
//! both stay in order. Mail and reports have locks of their own, so that neither lane waits for a turn only to leave something.
//! Tests: host/runtime/tests/all/lanes.rs.

use quorate_node::{Bridge, Bridges, Effects, Inbox, Mail, OwnLane, Reports};
use quorate_types::{InstanceId, Time};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Locks. A lane that panicked ends the process's replica anyway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of a pillar; see the module.
pub(super) struct Post {
    pub(super) id: InstanceId,
    pillar: Mutex<OwnLane>,
    mail: Mutex<Mail>,
    /// The lane was asked for a turn and had none since.
    asked: AtomicBool,
    reports: Mutex<Reports>,
    /// The bytes of frames that the pillar took itself and of which the main lane has not heard.
    unheard: AtomicUsize,
    /// When the next turn is due, in nanoseconds of the clock; `u64::MAX` if none is.
    due: AtomicU64,
    /// The pillar's own lane gives it no turn. Changed under the pillar's lock.
    held: AtomicBool,
    /// The main lane needs the pillar no more, or not now.
    over: AtomicBool,
}

impl Post {
    /// A turn of the pillar's own lane. Whether there is a report, and when the next turn is due.
    pub(super) fn turn(&self, now: Time, inbox: &mut Inbox, out: &mut Effects) -> (bool, Option<Time>) {
        let mut pillar = lock(&self.pillar);
        // Before the mail is taken: what comes later asks again.
        self.asked.swap(false, Ordering::AcqRel);
        if self.held.load(Ordering::Acquire) || self.is_over() {
            return (false, None);
        }
        (self.give_turn(&mut pillar, now, inbox, out), pillar.deadline())
    }

    fn give_turn(&self, pillar: &mut OwnLane, now: Time, inbox: &mut Inbox, out: &mut Effects) -> bool {
        let mail = std::mem::take(&mut *lock(&self.mail));
        let report = pillar.turn(now, mail, inbox, out);
        let any = report.is_some();
        if let Some(report) = report {
            let mut reports = lock(&self.reports);
            self.unheard.fetch_add(report.bytes(), Ordering::Relaxed);
            reports.append(report);
        }
        // After the report: whoever sees the new deadline sees what the turn says of the one before.
        self.due.store(pillar.deadline().map_or(u64::MAX, Time::nanos), Ordering::Release);
        any
    }

    /// Whether the main lane needs the pillar no more.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// News for the lanes of pillars, which the main lane passes on.
#[derive(Default)]
pub(super) struct News {
    /// Posts that their lanes do not know yet.
    pub(super) posts: Vec<Arc<Post>>,
    /// Pillars to which the main lane gave a turn: their next one may be due at another time.
    pub(super) stirred: Vec<InstanceId>,
}

/// Makes posts.
#[derive(Clone, Default)]
pub(super) struct Posts(Arc<Mutex<News>>);

impl Posts {
    /// Takes the news since the last call.
    pub(super) fn news(&self) -> News {
        std::mem::take(&mut *lock(&self.0))
    }
}

impl Bridges for Posts {
    fn build(&mut self, id: InstanceId, pillar: OwnLane) -> Box<dyn Bridge> {
        let post = Arc::new(Post {
            id,
            pillar: Mutex::new(pillar),
            mail: Mutex::default(),
            asked: AtomicBool::new(false),
            reports: Mutex::default(),
            unheard: AtomicUsize::new(0),
            due: AtomicU64::new(u64::MAX),
            held: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        lock(&self.0).posts.push(post.clone());
        Box::new(ToPost { post, posts: self.clone() })
    }
}

/// The main lane's end.
struct ToPost {
    post: Arc<Post>,
    posts: Posts,
}

impl fmt::Debug for ToPost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToPost({})", self.post.id)
    }
}

impl Bridge for ToPost {
    fn send(&mut self, mail: Mail) {
        lock(&self.post.mail).append(mail);
    }

    fn ask(&mut self) -> bool {
        !self.post.asked.swap(true, Ordering::AcqRel)
    }

    fn turn(&mut self, now: Time, inbox: &mut Inbox, out: &mut Effects) {
        self.post.give_turn(&mut lock(&self.post.pillar), now, inbox, out);
        lock(&self.posts.0).stirred.push(self.post.id);
    }

    fn hold(&mut self, held: bool) {
        let _pillar = lock(&self.post.pillar);
        self.post.held.store(held, Ordering::Release);
    }

    fn rest(&mut self, rests: bool) {
        let _pillar = lock(&self.post.pillar);
        self.post.over.store(rests, Ordering::Release);
        if !rests {
            lock(&self.posts.0).posts.push(self.post.clone());
        }
    }

    fn hear(&mut self) -> Reports {
        let mut reports = lock(&self.post.reports);
        self.post.unheard.store(0, Ordering::Relaxed);
        std::mem::take(&mut *reports)
    }

    fn look(&self, look: &mut dyn FnMut(&OwnLane)) {
        look(&lock(&self.post.pillar));
    }

    fn wanted(&self) -> Option<Time> {
        let due = Some(self.post.due.load(Ordering::Acquire)).filter(|due| *due != u64::MAX);
        lock(&self.post.reports).woke().into_iter().chain(due.map(Time::from_nanos)).min()
    }

    fn deadline(&self) -> Option<Time> {
        None
    }
}

impl Drop for ToPost {
    fn drop(&mut self) {
        self.post.over.store(true, Ordering::Release);
    }
}

/// The pillars of a lane.
#[derive(Default)]
pub(super) struct Pillars {
    list: Vec<OnLane>,
    pub(super) effects: Effects,
}

/// A pillar on this lane.
struct OnLane {
    post: Arc<Post>,
    /// The main lane asks for a turn.
    asked: bool,
    /// When a turn is due anyway.
    due: Option<Time>,
}

impl Pillars {
    /// A pillar comes to this lane.
    pub(super) fn add(&mut self, post: Arc<Post>) {
        self.list.retain(|known| !Arc::ptr_eq(&known.post, &post));
        self.list.push(OnLane { post, asked: true, due: None });
    }

    /// A pillar goes to another lane.
    pub(super) fn remove(&mut self, post: &Arc<Post>) {
        self.list.retain(|known| !Arc::ptr_eq(&known.post, post));
    }

    /// Whether a pillar needs a turn that nothing else announces.
    pub(super) fn are_asked(&self) -> bool {
        self.list.iter().any(|known| known.asked)
    }

    /// The main lane asks for a turn of an instance's pillars.
    pub(super) fn ask(&mut self, id: InstanceId) {
        self.list.iter_mut().filter(|known| known.post.id == id).for_each(|known| known.asked = true);
    }

    /// When the next turn is due.
    pub(super) fn due(&self) -> Option<Time> {
        self.list.iter().filter_map(|known| known.due).min()
    }

    /// The bytes of frames that pillars took and of which the main lane has not heard.
    pub(super) fn unheard(&self) -> usize {
        self.list.iter().map(|known| known.post.unheard.load(Ordering::Relaxed)).sum()
    }

    /// Gives a turn to each pillar that needs one; they take what they may of the inbox. Whether there are reports; [`Self::effects`] has what
    /// to send.
    pub(super) fn turn(&mut self, now: Time, inbox: &mut Inbox) -> bool {
        let mut any = false;
        self.list.retain(|known| !known.post.is_over());
        for known in &mut self.list {
            let needs = known.asked || known.due.is_some_and(|at| at <= now) || !inbox.is_empty();
            if !needs {
                continue;
            }
            known.asked = false;
            let (reports, due) = known.post.turn(now, inbox, &mut self.effects);
            known.due = due;
            any |= reports;
        }
        any
    }
}
