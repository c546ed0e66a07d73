//! INV-SIM-BORDERS: between two borders a share of the interval is written, or as much time passes as counts for that, or as much as brings
//! a border by itself, whichever replica leads.

use super::Failure;
use crate::plan::Plan;
use crate::replica::REQUEST_MAX;
use quorate_types::AgreedTime;

/// A second counts as this many bytes.
const SECOND_BYTES: u64 = 8 << 20;
/// A batch counts as this many bytes more than it has.
const BATCH_COST: u64 = 512;

/// Looks at two successive borders of one replica, each with its seq and agreed time.
///
/// # Errors
/// When they are closer than a replica may ask for.
pub fn judge(
    name: &str,
    plan: &Plan,
    (first, at): (u64, AgreedTime),
    (second, now): (u64, AgreedTime),
) -> Result<(), Failure> {
    let share = plan.borders.interval_bytes / plan.replicas as u64;
    let batch = (plan.admission.0 + REQUEST_MAX + 64) as u64 + BATCH_COST;
    let written = second.saturating_sub(first).saturating_mul(batch);
    let passed = u128::from(now.since(at).nanos()) * u128::from(SECOND_BYTES) / 1_000_000_000;
    let is_time = plan.borders.every.is_some_and(|every| now.since(at) >= every);
    if is_time || u128::from(written) + passed >= u128::from(share) {
        return Ok(());
    }
    let text = format!(
        "{name} is at a border at seq {second}, the one before was at {first}, {passed} bytes of time and at most {written} bytes of batches \
         before, of {share} at least"
    );
    Err(Failure::new("borders", text))
}
