use super::{ANSWER_BYTES, Answers};

/// Takes as much as it may, in answers of this size.
fn take(answers: &mut Answers, owner: u64, bytes: usize) -> usize {
    let before = answers.byte_len();
    while answers.has_room(owner) {
        answers.answered(owner, bytes);
    }
    answers.byte_len() - before
}

#[test]
fn whoever_asks_for_much_leaves_room_for_others() {
    let mut answers = Answers::default();
    let piece = 64 << 10;
    assert_eq!(take(&mut answers, 1, piece), ANSWER_BYTES / 2);
    assert_eq!(take(&mut answers, 2, piece), ANSWER_BYTES / 4);
    assert_eq!(take(&mut answers, 1, piece), 0);
    assert!(answers.has_room(3));
    // In all no more than there is room for, but for the last one.
    let all: usize = (3..100).map(|owner| take(&mut answers, owner, piece)).sum();
    assert!(all <= ANSWER_BYTES / 4 + piece, "{all}");
}
