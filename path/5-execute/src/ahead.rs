//! Reading ahead: the memory of the objects that the next commands or queries use is read before they run. A large store does not fit in the processor's
//! caches, and one command after the other would wait for memory alone. Nothing but speed depends on it. Tests: ahead/tests.rs.

use crate::service::Service;
use quorate_state::store::{READ_AHEAD, Store};
use quorate_types::Items;
use quorate_wire::{RequestKind, Requests};

/// Smaller stores mostly lie in the caches anyway.
const STORE_BYTES_MIN: u64 = 2 << 20;
/// The most requests that are looked at for one window; commands may name nothing.
const REQUESTS_MAX: usize = 4 * READ_AHEAD;
/// A request with at least this many commands reads ahead for itself ([`of_commands`]).
pub(crate) const MANY: usize = 4;
/// Room for the keys of a window; longer ones are left out.
const KEY_BYTES: usize = 1024;

/// The keys of the objects that a window of commands will use.
struct Window {
    bytes: [u8; KEY_BYTES],
    ends: [u16; READ_AHEAD],
    len: usize,
}

impl Window {
    const fn new() -> Self {
        Self { bytes: [0; KEY_BYTES], ends: [0; READ_AHEAD], len: 0 }
    }

    fn start(&self, at: usize) -> usize {
        if at == 0 { 0 } else { usize::from(self.ends[at - 1]) }
    }

    fn push(&mut self, key: &[u8]) {
        let start = self.start(self.len);
        if self.is_full() || key.len() > KEY_BYTES - start {
            return;
        }
        self.bytes[start..start + key.len()].copy_from_slice(key);
        self.ends[self.len] = (start + key.len()) as u16;
        self.len += 1;
    }

    const fn is_full(&self) -> bool {
        self.len == READ_AHEAD
    }

    /// A single object is read when it is used.
    fn read(&self, store: &Store) {
        if self.len < 2 {
            return;
        }
        store.read_ahead((0..self.len).map(|at| &self.bytes[self.start(at)..usize::from(self.ends[at])]));
    }
}

/// Whether reading ahead pays for this store.
pub(crate) fn pays(store: &Store) -> bool {
    store.bytes() >= STORE_BYTES_MIN
}

/// Reads ahead for the requests of a batch that come next. Gives how many of them it was.
pub(crate) fn of_requests(service: &dyn Service, requests: Requests<'_>) -> usize {
    let Some(store) = service.store().filter(|store| pays(store)) else { return usize::MAX };
    let (mut window, mut count) = (Window::new(), 0);
    for (header, body, _) in requests.flatten() {
        count += 1;
        if header.kind == RequestKind::Commands
            && let Ok(commands) = Items::parse(body)
            && commands.len() < MANY
        {
            commands.iter().for_each(|command| {
                service.objects(command, false, &mut |key| window.push(key));
            });
        }
        if window.is_full() || count == REQUESTS_MAX {
            break;
        }
    }
    window.read(store);
    count
}

/// Reads ahead for the next commands of a request. Gives how many of them it was.
pub(crate) fn of_commands<'c>(
    store: &Store,
    commands: impl Iterator<Item = &'c [u8]>,
    objects: impl Fn(&[u8], &mut dyn FnMut(&[u8])),
) -> usize {
    let (mut window, mut count) = (Window::new(), 0);
    for command in commands.take(REQUESTS_MAX) {
        count += 1;
        objects(command, &mut |key| window.push(key));
        if window.is_full() {
            break;
        }
    }
    window.read(store);
    count
}

/// Reads ahead for the next queries. Gives how many of them it was.
pub(crate) fn of_queries<'q>(service: &dyn Service, queries: impl Iterator<Item = &'q [u8]>) -> usize {
    match service.store().filter(|store| pays(store)) {
        Some(store) => of_commands(store, queries, |query, each| service.objects(query, true, each)),
        None => usize::MAX,
    }
}

#[cfg(test)]
mod tests;
