use super::*;

fn fill(backlog: &mut Backlog, bytes: &[u8]) -> Option<Arc<Frame>> {
    backlog.unfilled()[..bytes.len()].copy_from_slice(bytes);
    backlog.filled(bytes.len(), 16)
}

/// A command that arrives in pieces is in exactly one frame, whole.
#[test]
fn a_command_cut_by_a_read_goes_whole_into_the_next_frame() {
    let mut backlog = Backlog::new(64);
    let stream: Vec<u8> = (0..48).collect();
    assert!(fill(&mut backlog, &stream[..10]).is_none());
    let first = fill(&mut backlog, &stream[10..40]).unwrap();
    assert_eq!(frame::split(first.sealed(), 64, 0).unwrap().unwrap().0, &stream[..32]);
    let second = fill(&mut backlog, &stream[40..]).unwrap();
    assert_eq!(frame::split(second.sealed(), 64, 2).unwrap().unwrap().0, &stream[32..]);
    assert_eq!((backlog.commands, backlog.end), (3, 2 * 16 + 48));
    assert_eq!(backlog.sum, frame::touch(&stream));
}

#[test]
fn only_frames_that_lie_whole_below_the_commit_are_answered() {
    let mut backlog = Backlog::new(64);
    fill(&mut backlog, &[1; 32]);
    fill(&mut backlog, &[2; 16]);
    assert_eq!(backlog.commit(47), None);
    assert_eq!(backlog.commit(48), Some(2));
    assert_eq!(backlog.commit(48), None, "told once");
    assert_eq!(backlog.commit(80), Some(3));
}

/// A frame is kept until every follower was sent it and the disk has it; then its memory is used again.
#[test]
fn a_frame_is_kept_until_nobody_needs_it() {
    let mut backlog = Backlog::new(64);
    for _ in 0..3 {
        fill(&mut backlog, &[1; 16]);
    }
    backlog.forget(3, 32);
    assert_eq!((backlog.first, backlog.frames.len(), backlog.free.len()), (1, 2, 1), "the disk has one");
    backlog.forget(2, 96);
    assert_eq!(
        (backlog.first, backlog.frames.len(), backlog.free.len()),
        (2, 1, 2),
        "a follower was sent two"
    );
    assert_eq!(backlog.from(2).count(), 1);
    let memory = backlog.free.len();
    fill(&mut backlog, &[1; 16]);
    assert_eq!(backlog.free.len(), memory - 1);
}

#[test]
fn the_log_kept_is_bounded() {
    let mut backlog = Backlog::new(1 << 20);
    let mut n = 0;
    while backlog.has_room() {
        fill(&mut backlog, &[0; 16]);
        n += 1;
        assert!(n < 100);
    }
    assert!(n * (1 << 20) <= LOG_BYTES_MAX);
    backlog.forget(1, u64::MAX);
    assert!(backlog.has_room());
}
