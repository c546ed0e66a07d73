//! What takes long, beside the thread that serves.

use std::sync::Arc;
use tokio::sync::Semaphore;

/// Does such work one at a time: whoever asks for much of it waits, and others do not. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Worker(Arc<Semaphore>);

impl Default for Worker {
    fn default() -> Self {
        Self::new()
    }
}

impl Worker {
    /// One that has nothing to do.
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }

    /// What it came to; nothing when the front is being stopped, or the work panicked.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let _one = self.0.acquire().await.ok()?;
        tokio::task::spawn_blocking(work).await.ok()
    }
}
