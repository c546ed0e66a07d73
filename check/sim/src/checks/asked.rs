//! INV-SIM-ASKED: what is executed is what a client sent, byte for byte.

use super::Failure;
use crate::service::Row;

/// Looks at a command that was executed. `asked`: what its client sent under that number, if anything.
///
/// # Errors
/// When that was something else, or nothing.
pub fn judge(row: &Row, asked: Option<&[u8]>) -> Result<(), Failure> {
    if asked == Some(&row.command[..]) {
        return Ok(());
    }
    Err(Failure::new("asked", format!("{row:?} was executed, and {asked:?} was asked")))
}
