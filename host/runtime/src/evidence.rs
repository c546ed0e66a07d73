//! Files of evidence: `evidence/*.proof` in the data directory (docs/formats/evidence.md).
//!
//! The clerk writes them (`kept_files.rs`), and they are read back before the replica starts. What is no evidence is left as it is: it may be
//! somebody's only copy.
//!
//! Tests: evidence/tests.rs.

use crate::kept_files::{self, KeptFile, KeptFiles};
use quorate_node::Found;
use quorate_order::mod_smart::evidence::Evidence;
use quorate_types::AgreedTime;
use quorate_wire::EVIDENCE_MAX;
use std::path::Path;

/// The directory in the data directory.
pub(crate) const DIRECTORY: &str = "evidence";
const EXTENSION: &str = "proof";

/// Reads the evidence in this data directory.
pub(crate) fn read(data: &Path) -> Vec<Found> {
    let found = |file: KeptFile| {
        let evidence = Evidence::decode(file.bytes).map_err(|why| why.to_string())?;
        Ok(Found { evidence, at: AgreedTime::from_nanos(file.written_ns) })
    };
    kept_files::read(&data.join(DIRECTORY), (EXTENSION, EVIDENCE_MAX), "evidence", found)
}

/// Writes evidence.
pub(crate) fn files(data: &Path) -> KeptFiles {
    KeptFiles::new(data.join(DIRECTORY), "evidence")
}

/// The problem to report while a file waits.
pub(crate) fn problem(files: &KeptFiles) -> Option<String> {
    let (count, why) = files.unwritten()?;
    Some(format!(
        "evidence is not on disk ({count} files, {why}): free space, or look after the disk. It is tried again, and until then `quorate \
         evidence fetch` gets it from this replica"
    ))
}

#[cfg(test)]
mod tests;
