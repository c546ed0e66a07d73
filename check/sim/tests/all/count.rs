//! How much is run.

/// So many seeds, or as many as QUORATE_SEEDS says: campaigns run more than tests.
pub(crate) fn seeds(usual: u64) -> u64 {
    std::env::var("QUORATE_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(usual)
}
