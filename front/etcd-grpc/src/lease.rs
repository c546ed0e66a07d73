//! Keep-alives: a stream of requests, each answered by an ordered command; many commands share a request to the cluster.

use crate::errors::Refusal;
use crate::framing::{Messages, Requests};
use crate::kv::Unary;
use quorate_etcd::Command;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// How many requests of a stream may be under way at once.
const AT_ONCE: usize = 256;

/// Answers a call; a task of its own serves it.
pub(crate) fn keep_alive(unary: &Unary, mut requests: impl Requests) -> Messages {
    let (sender, receiver) = mpsc::channel(AT_ONCE);
    let unary = unary.clone();
    tokio::spawn(async move {
        let permits = Arc::new(Semaphore::new(AT_ONCE));
        loop {
            let message = tokio::select! {
                message = requests.next() => message,
                () = sender.closed() => return,
            };
            let message = match message {
                Ok(Some(message)) => message,
                Ok(None) => return,
                Err(refusal) => return drop(sender.send(Err(refusal)).await),
            };
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            let (unary, sender) = (unary.clone(), sender.clone());
            tokio::spawn(async move {
                let done = unary.backend.order(Command::LeaseKeepAlive, message).await;
                let response: Result<_, Refusal> = done.map(|done| unary.respond(&done).into());
                let _ = sender.send(response).await;
                drop(permit);
            });
        }
    });
    receiver
}
