//! Threads that use TLS, in a program that may end while they run.

use crate::credentials::provider;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};

/// Starts a thread with this name that uses TLS. Returns once the thread has a source of random numbers.
///
/// After that it is safe to leave `main` while the thread runs. When a program ends, aws-lc takes the sources of random numbers away from
/// all threads. A thread that uses its source afterwards sleeps until the process is gone. But a thread that asks for its first source then
/// waits for a lock that it holds itself, and aborts the process: a command that succeeded would end by SIGABRT (aws-lc 0.47, `rand.c`,
/// `thread_local_list_add_node`).
///
/// # Errors
/// The error of the operating system, as in [`Builder::spawn`].
pub fn start_thread<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    let (ready, is_ready) = mpsc::channel();
    let thread = Builder::new().name(name.to_owned()).spawn(move || {
        // Without random numbers no session begins, and its user gets the error; there is nothing to report here.
        let _ = provider().secure_random.fill(&mut [0]);
        drop::<mpsc::Sender<()>>(ready);
        run()
    })?;
    // Ends when the other end is dropped.
    let _ = is_ready.recv();
    Ok(thread)
}
