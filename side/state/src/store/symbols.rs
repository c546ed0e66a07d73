//! Keys as sequences of symbols: 16 half bytes, and "ends here", which comes before them.
//!
//! Inside the tree a symbol is its place in that order: 0 for "ends here", n + 1 for half byte n.

/// The place of "a key ends here".
pub(super) const END_PLACE: u32 = 0;

/// The place of a key's symbol at `at`: its half bytes, the high one of each byte first, then "ends here". Not defined beyond that.
#[inline]
pub(super) fn place_of(key: &[u8], at: usize) -> u32 {
    match key.get(at / 2) {
        None => END_PLACE,
        Some(byte) => u32::from(byte >> (4 * (at + 1) % 8) & 15) + 1,
    }
}

/// The half byte at `at`, which the key must have.
pub(super) fn nibble_of(key: &[u8], at: usize) -> u8 {
    if at.is_multiple_of(2) { key[at / 2] >> 4 } else { key[at / 2] & 15 }
}

/// How many symbols two different keys have in common at their beginning; for equal ones, how many half bytes they have.
pub(super) fn common(one: &[u8], other: &[u8]) -> usize {
    let shorter = one.len().min(other.len());
    let (mut at, (ours, theirs)) = (0, (&one[..shorter], &other[..shorter]));
    for (ours, theirs) in ours.as_chunks::<8>().0.iter().zip(theirs.as_chunks::<8>().0) {
        if ours != theirs {
            break;
        }
        at += 8;
    }
    while at < shorter && ours[at] == theirs[at] {
        at += 1;
    }
    2 * at + usize::from(at < shorter && ours[at] >> 4 == theirs[at] >> 4)
}

/// How many of these half bytes a key has from `at` on.
#[inline]
pub(super) fn agreeing(skip: &[u8], key: &[u8], at: usize) -> usize {
    let agrees = |(index, &nibble): (usize, &u8)| place_of(key, at + index) == u32::from(nibble) + 1;
    skip.iter().enumerate().take_while(|&pair| agrees(pair)).count()
}

/// The half bytes of a key from one place to before another.
pub(super) fn nibbles(key: &[u8], from: usize, to: usize) -> Box<[u8]> {
    (from..to).map(|at| nibble_of(key, at)).collect()
}
