//! The way from the replica to its server: what commands told, in order.
//!
//! The lane appends, and never waits. If the server takes nothing for long, what waits is dropped, and the server learns that something
//! is missing. Tests: tests/all/feed.rs.

use crate::service::Told;
use quorate_execute::{Events, Observer};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bytes above which what waits is dropped.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// What commands told. All clones act as one.
#[derive(Clone, Default)]
pub struct Feed(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    /// Whether a server listens. Otherwise nothing is kept.
    listens: bool,
    list: VecDeque<Told>,
    bytes: usize,
    gap: Option<i64>,
}

/// What was told since the last time.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// What was told, in order.
    pub list: Vec<Told>,
    /// If something before it is missing: the last transaction of what is.
    pub gap: Option<i64>,
}

impl Feed {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, what is told is kept for [`Self::take`].
    pub fn listen(&self) {
        self.lock().listens = true;
    }

    /// What was told since the last call.
    pub fn take(&self) -> Heard {
        let mut waiting = self.lock();
        waiting.bytes = 0;
        let gap = waiting.gap.take();
        Heard { list: waiting.list.drain(..).collect(), gap }
    }

    fn tell(&self, told: Told) {
        let mut waiting = self.lock();
        if !waiting.listens {
            return;
        }
        waiting.bytes += bytes(&told);
        waiting.list.push_back(told);
        if waiting.bytes > WAITING_BYTES_MAX {
            waiting.gap = waiting.list.back().map(|told| told.zxid);
            waiting.list.clear();
            waiting.bytes = 0;
        }
    }
}

/// About how much memory it takes.
fn bytes(told: &Told) -> usize {
    size_of::<Told>()
        + told.what.events().iter().map(|event| 80 + event.path.len() + event.acl.len()).sum::<usize>()
}

impl Observer for Feed {
    fn told(&mut self, events: Events) {
        for told in events.of::<Vec<Box<dyn Any + Send>>>().into_iter().flatten() {
            if let Ok(told) = told.downcast::<Told>() {
                self.tell(*told);
            }
        }
    }
}
