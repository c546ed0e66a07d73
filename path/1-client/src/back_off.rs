//! How long to wait between attempts.

use quorate_types::{Random, Span};

/// The wait before attempt number `attempt` (from 0). It doubles from `min` to `max`, and half of it is drawn at random, so that clients
/// that failed together do not come back together. It is never zero, so that no caller spins.
pub(crate) fn back_off(random: &mut Random, attempt: u32, min: Span, max: Span) -> Span {
    let full = min.times(1 << attempt.min(20)).min(max).nanos().max(2);
    Span::from_nanos(full / 2 + random.below(full / 2 + 1))
}
