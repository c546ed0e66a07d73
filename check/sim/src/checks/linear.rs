//! INV-SIM-LINEAR: what clients saw is linearizable, key by key; lists hold every acknowledged token once, in a legal order.
//!
//! The judge is check/history, which knows nothing of replicas.

use super::Failure;
use quorate_history::{Budget, Event, History, Options, check, report::Conclusion};

/// Judges a history.
///
/// # Errors
/// When no order explains it. A history that is too hard to judge passes and is reported; a campaign with too many of them fails.
pub fn judge(events: Vec<Event>) -> Result<Option<String>, Failure> {
    let history = History::from_events(events);
    let budget = Budget { steps: 2_000_000, cache_words: 4_000_000 };
    let report = check(&history, Options { budget, ..Options::default() });
    match report.conclusion {
        Conclusion::Ok => Ok(None),
        Conclusion::Unknown => Ok(Some(format!("{report}"))),
        Conclusion::Violation => Err(Failure::new("linear", format!("{report}"))),
    }
}
