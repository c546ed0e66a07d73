//! One answer for one waiting caller: a future that any runtime can poll, and that a thread can wait for.

use super::Error;
use super::driver::Handle;
use quorate_client::Completion;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

pub(crate) type Outcome = Result<Completion, Error>;

/// Where the driver puts the answer.
#[derive(Debug, Default)]
pub(crate) struct Shot {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
    /// The caller waits no more.
    gone: bool,
}

impl Shot {
    /// Puts the answer there; gives it back if the caller waits no more.
    pub(crate) fn deliver(&self, outcome: Outcome) -> Option<Outcome> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.gone {
            return Some(outcome);
        }
        state.outcome = Some(outcome);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        None
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Outcome> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outcome) = state.outcome.take() {
            state.gone = true;
            return Poll::Ready(outcome);
        }
        if state.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    fn leave(&self) -> Option<Outcome> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.gone = true;
        state.outcome.take()
    }
}

/// Waits for an answer. Dropping it withdraws nothing that was sent: the commands may still run.
#[derive(Debug)]
pub(crate) struct Waiting {
    shot: Arc<Shot>,
    handle: Arc<Handle>,
}

impl Waiting {
    pub(crate) fn new(handle: Arc<Handle>) -> (Self, Arc<Shot>) {
        let shot = Arc::new(Shot::default());
        (Self { shot: Arc::clone(&shot), handle }, shot)
    }
}

impl Future for Waiting {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        self.shot.poll(cx)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // A session that opened for nobody is closed, or it would hold its place until it expires.
        if let Some(Ok(Completion::Opened(session, _))) = self.shot.leave() {
            self.handle.close_unwatched(session);
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread until the future is done.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
        std::thread::park();
    }
}
