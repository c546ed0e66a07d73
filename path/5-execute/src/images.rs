//! The objects of an image: how the state of each kind of service becomes a version of a store, and is restored from one.
//!
//! Stage 5 (execute). A service in the store has the version itself. For the others the engine keeps a shadow, a store of its own:
//! - A tracked service is copied in pieces between batches while it changes. At the first border the changes that it remembered complete
//!   the copy. From then on only changes are copied, at borders.
//! - A plain service writes its whole stream at each border, on the lane, and execution waits for it: stop-and-copy. The stream is cut into
//!   pieces, and unchanged pieces are not written again. So later steps (digests, differences, files, transfers) handle only changes. If
//!   the stream grows near its beginning, all later pieces change.
//!
//! Source: Distler, "Resource-Aware System Software for Replicated Services", section 5.2: deterministic fuzzy checkpoints
//! (state capture, then completion).
//! Deviation: services in the store need no capture; their version is the state at its border at once.
//!
//! Invariants: INV-EXEC-5 (the objects of an image follow from the service's state at that seq, whatever was copied when),
//! INV-EXEC-6 (between borders the shadow of a whole image does not change). Tests: `tests/all/images.rs`, `tests/all/kinds.rs`.

use crate::checkpoint::CheckpointError;
use crate::pieces;
use crate::service::Service;
use crate::tracked::Tracked;
use quorate_state::store::{KEY_BYTES_MAX, Store, VALUE_BYTES_MAX, Version};
use quorate_types::planted;

/// The state after a batch: the executor's own part, and the service's objects.
#[derive(Clone)]
pub struct ImageParts {
    /// The executor's part: `magic (8) | seq u64 | agreed time u64 | feature level u32 | sessions`. Equal for equal histories.
    pub system: Vec<u8>,
    /// The service's objects, as they were at that seq.
    pub objects: Version,
}

/// The copy of a service that is not in the store.
pub(crate) struct Shadow {
    store: Store,
    copied: Copied,
    /// Whether the store holds the state at the last border, and not a part of it.
    whole: bool,
}

/// How far a tracked service's objects are copied.
enum Copied {
    Nothing,
    Until(Vec<u8>),
    All,
}

impl Shadow {
    pub(crate) fn new() -> Self {
        Self { store: Store::new(), copied: Copied::Nothing, whole: false }
    }

    /// Copies about this many bytes ahead of the border, if the service is a tracked one. Returns whether nothing is left to copy.
    pub(crate) fn prepare(&mut self, service: &mut dyn Service, bytes: usize) -> bool {
        if service.store().is_some() {
            return true;
        }
        match service.tracked() {
            // An error comes again at the border, where it is reported.
            Some(tracked) => self.advance(tracked, bytes).unwrap_or(true),
            None => true,
        }
    }

    /// The service's present objects.
    pub(crate) fn image(&mut self, service: &mut dyn Service) -> Result<Version, CheckpointError> {
        if let Some(store) = service.store() {
            return Ok(store.version());
        }
        if let Some(tracked) = service.tracked() {
            while !self.advance(tracked, usize::MAX)? {}
            self.complete(tracked)?;
        } else {
            self.whole = false;
            pieces::cut(service, &mut self.store)?;
        }
        self.whole = true;
        Ok(self.store.version())
    }

    /// The present objects of a service in the store; else those at the last border, if the shadow still has them.
    pub(crate) fn objects(&self, service: &dyn Service) -> Option<Version> {
        match service.store() {
            Some(store) => Some(store.version()),
            None => self.whole.then(|| self.store.version()),
        }
    }

    /// Replaces the service's state, and tells the service.
    pub(crate) fn restore(
        &mut self,
        service: &mut dyn Service,
        objects: &Version,
    ) -> Result<(), CheckpointError> {
        self.replace(service, objects)?;
        service.restored();
        Ok(())
    }

    fn replace(&mut self, service: &mut dyn Service, objects: &Version) -> Result<(), CheckpointError> {
        if let Some(store) = service.store_mut() {
            *store = Store::from_version(objects);
            return Ok(());
        }
        *self = Self::new();
        if let Some(tracked) = service.tracked() {
            tracked.load(&mut objects.range(b"", None))?;
            tracked.track();
            self.copied = Copied::All;
        } else {
            pieces::check(objects)?;
            service.restore(&mut pieces::Joined::new(objects))?;
        }
        self.store = Store::from_version(objects);
        self.whole = true;
        Ok(())
    }

    /// Copies the next piece of a tracked service. Returns whether it was the last. The service remembers objects that change after their
    /// copy.
    fn advance(&mut self, tracked: &mut dyn Tracked, bytes: usize) -> Result<bool, CheckpointError> {
        // After any error below, the next attempt begins anew.
        let after = match std::mem::replace(&mut self.copied, Copied::Nothing) {
            Copied::All => {
                self.copied = Copied::All;
                return Ok(true);
            }
            Copied::Nothing => {
                tracked.track();
                self.store = Store::new();
                None
            }
            Copied::Until(key) => Some(key),
        };
        let (store, mut last, mut wrong) = (&mut self.store, None::<Vec<u8>>, None);
        let more = tracked.copy(after.as_deref(), bytes, &mut |key, value| {
            if last.as_deref().or(after.as_deref()).is_some_and(|before| before >= key) {
                wrong = Some("the order of a service's objects");
            }
            match fits(key, value) {
                true => _ = store.put(key, value),
                false => wrong = Some(TOO_LARGE),
            }
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
        });
        if more && last.is_none() {
            wrong = Some("a service's copy that does not go on");
        }
        if let Some(wrong) = wrong {
            return Err(CheckpointError::Malformed(wrong));
        }
        self.copied = last.filter(|_| more).map_or(Copied::All, Copied::Until);
        Ok(!more)
    }

    /// Copies, at a border, the changes since tracking began, or since the last border.
    fn complete(&mut self, tracked: &mut dyn Tracked) -> Result<(), CheckpointError> {
        let forgotten = planted("change-not-recorded") && !self.whole;
        let (store, mut all_fit) = (&mut self.store, true);
        tracked.changes(&mut |key, value| {
            let value_fits = fits(key, value.unwrap_or_default());
            all_fit &= value_fits;
            match value {
                _ if forgotten || !value_fits => (),
                Some(value) => _ = store.put(key, value),
                None => _ = store.remove(key),
            }
        });
        if all_fit {
            return Ok(());
        }
        // The service does not report these changes again, so only a new copy can be whole.
        *self = Self::new();
        Err(CheckpointError::Malformed(TOO_LARGE))
    }
}

const TOO_LARGE: &str = "an object over the store's limits";

fn fits(key: &[u8], value: &[u8]) -> bool {
    key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX
}
