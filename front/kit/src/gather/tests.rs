//! Which bytes reach the other end, in how many writes, and what happens when the other end does not read.

use super::{WAITING_MAX, together};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, duplex};

/// Notes each write.
#[derive(Clone, Default)]
struct Noted(Arc<Mutex<Vec<Vec<u8>>>>);

impl AsyncWrite for Noted {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap().push(bytes.to_vec());
        Poll::Ready(Ok(bytes.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn writes_of_a_turn_go_together_and_before_it_sleeps() {
    let noted = Noted::default();
    together(noted.clone(), async |mut stream| {
        for part in ["one", "two", "three"] {
            stream.write_all(part.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
        }
        assert!(noted.0.lock().unwrap().is_empty(), "nothing goes within a turn");
        tokio::task::yield_now().await;
        assert_eq!(*noted.0.lock().unwrap(), [b"onetwothree".to_vec()]);
        stream.write_all(b"four").await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(noted.0.lock().unwrap().len(), 2, "the end sends the rest");
    })
    .await;
}

#[tokio::test]
async fn what_is_long_goes_at_once_and_in_order() {
    let noted = Noted::default();
    together(noted.clone(), async |mut stream| {
        stream.write_all(b"short").await.unwrap();
        stream.write_all(&vec![7; WAITING_MAX + 1]).await.unwrap();
        let lens: Vec<usize> = noted.0.lock().unwrap().iter().map(Vec::len).collect();
        assert_eq!(lens, [5, WAITING_MAX + 1]);
    })
    .await;
}

#[tokio::test]
async fn a_reader_that_is_slow_gets_everything_in_order() {
    let (near, mut far) = duplex(1000);
    let wanted: Vec<u8> = (0..1_000_000u32).map(|number| number as u8).collect();
    let sent = wanted.clone();
    let write = together(near, async move |mut stream| {
        for (number, part) in sent.chunks(777).enumerate() {
            stream.write_all(part).await.unwrap();
            if number % 3 == 0 {
                tokio::task::yield_now().await;
            }
        }
        stream.shutdown().await.unwrap();
    });
    let read = async {
        let mut all = Vec::new();
        far.read_to_end(&mut all).await.unwrap();
        all
    };
    let ((), all) = tokio::join!(write, read);
    assert!(all == wanted);
}

#[tokio::test]
async fn who_writes_waits_while_nobody_reads() {
    let (near, _far) = duplex(10);
    let mut taken = 0;
    let write = together(near, async |mut stream| {
        loop {
            taken += stream.write(&[0; 1000]).await.unwrap();
        }
    });
    let long = std::time::Duration::from_millis(50);
    let _: Result<(), _> = tokio::time::timeout(long, write).await;
    assert!(taken > 0 && taken <= WAITING_MAX, "{taken} bytes wait");
}

#[tokio::test]
async fn who_writes_learns_that_the_other_end_is_gone() {
    let (near, far) = duplex(10);
    drop(far);
    together(near, async |mut stream| {
        stream.write_all(b"lost").await.unwrap();
        tokio::task::yield_now().await;
        let why = stream.write(b"more").await.unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::BrokenPipe);
    })
    .await;
}
