//! Does long work on a thread other than the one that serves.

use std::sync::Arc;
use tokio::sync::Semaphore;

/// Does one piece of long work at a time. So only those who ask for such work wait for each other. All clones act as one.
#[derive(Clone, Debug)]
pub struct Worker(Arc<Semaphore>);

impl Default for Worker {
    fn default() -> Self {
        Self::new()
    }
}

impl Worker {
    /// A worker without work.
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }

    /// Does the work and returns its result; nothing when the front is being stopped, or the work panicked.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let one = self.0.clone().acquire_owned().await.ok()?;
        // The work goes on although whoever asked for it leaves: until then nothing else begins.
        let work = move || {
            let done = work();
            drop(one);
            done
        };
        tokio::task::spawn_blocking(work).await.ok()
    }
}
