use super::*;
use crate::agree::message::{self, Expected};
use crate::tag::Key;

fn expected() -> Expected {
    Expected {
        replicas: 4,
        from: 0,
        to: 1,
        key: Key::of(0, 1),
        leads: true,
        batch_max: 64,
        command_bytes: 16,
    }
}

fn fill(proposals: &mut Proposals, bytes: &[u8]) {
    proposals.unfilled()[..bytes.len()].copy_from_slice(bytes);
    proposals.filled(bytes.len());
}

/// A command that arrives in pieces is in exactly one batch, whole.
#[test]
fn a_command_cut_by_a_read_goes_whole_into_the_next_batch() {
    let (mut p, leader) = (Proposals::new(4, 64, 16), Sender::new(0, 4));
    let stream: Vec<u8> = (0..48).collect();
    fill(&mut p, &stream[..10]);
    assert!(!p.is_due() && p.seal(0, &leader).is_none());
    fill(&mut p, &stream[10..40]);
    let (first, digest) = p.seal(0, &leader).unwrap();
    let (heard, _) = message::split(first.sealed(), &expected()).unwrap().unwrap();
    assert_eq!((heard.slot, heard.digest, heard.batch), (0, &digest, &stream[..32]));
    assert_eq!(first.sealed_batch(), &stream[..32]);
    fill(&mut p, &stream[40..]);
    let (second, _) = p.seal(1, &leader).unwrap();
    let (heard, _) = message::split(second.sealed(), &expected()).unwrap().unwrap();
    assert_eq!((heard.slot, heard.batch), (1, &stream[32..]));
    assert!(!p.is_due());
}

#[test]
fn a_full_batch_takes_nothing_more() {
    let (mut p, leader) = (Proposals::new(4, 64, 16), Sender::new(0, 4));
    fill(&mut p, &[1; 64]);
    assert!(!p.takes_commands() && p.unfilled().is_empty());
    assert!(p.seal(0, &leader).is_some());
    assert!(p.takes_commands());
}

/// What is kept for those who lag is bounded, and used again when nobody needs it.
#[test]
fn proposals_kept_are_bounded_and_used_again() {
    let (mut p, leader) = (Proposals::new(4, 1 << 20, 16), Sender::new(0, 4));
    let mut lagging = Vec::new();
    loop {
        fill(&mut p, &[0; 16]);
        let Some(sealed) = p.seal(lagging.len() as u64, &leader) else { break };
        lagging.push(sealed);
        assert!(lagging.len() < 100);
    }
    assert!(lagging.len() << 20 <= KEPT_BYTES_MAX);
    lagging.drain(..2);
    assert!(p.seal(9, &leader).is_some());
    assert_eq!(p.free.len(), 1, "of two that came back one is being filled");
}
