//! Bugs that are put back on purpose, to prove that the checkers see them (docs/testing.md).
//!
//! Only a program built with `--cfg planted` contains them; one is chosen by name while the program runs. In every other build [`planted`]
//! is the constant `false`, and the compiler removes them.

/// Whether this program was built with the bugs in it.
pub const HAS_PLANTED: bool = cfg!(planted);

#[cfg(planted)]
mod chosen {
    use std::sync::atomic::AtomicU64;

    /// The hash of the chosen bug's name; 0 for none.
    pub(super) static CHOSEN: AtomicU64 = AtomicU64::new(0);

    /// FNV-1a (Fowler, Noll, Vo).
    pub(super) const fn hash(name: &str) -> u64 {
        let (bytes, mut hash, mut at) = (name.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
        while at < bytes.len() {
            hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
            at += 1;
        }
        hash
    }
}

/// Whether the bug with this name is active.
#[cfg(planted)]
#[inline]
pub fn planted(bug: &str) -> bool {
    chosen::CHOSEN.load(std::sync::atomic::Ordering::Relaxed) == chosen::hash(bug)
}

/// Whether the bug with this name is active: never in this build.
#[cfg(not(planted))]
#[inline(always)]
pub const fn planted(_bug: &str) -> bool {
    false
}

/// Activates a bug in the whole process, or none. Without `--cfg planted` nothing happens.
pub fn plant(bug: Option<&str>) {
    #[cfg(planted)]
    chosen::CHOSEN.store(bug.map_or(0, chosen::hash), std::sync::atomic::Ordering::Relaxed);
    #[cfg(not(planted))]
    let _ = bug;
}
