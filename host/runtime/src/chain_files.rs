//! Files of membership links: `chain/*.link` in the data directory (docs/formats/chain.md).
//!
//! The clerk writes them (`kept_files.rs`), and they are read back before the replica starts. A file that is lost is fetched from another
//! member.
//!
//! Tests: chain_files/tests.rs.

use crate::kept_files::{self, KeptFile, KeptFiles};
use quorate_auth::MembershipLink;
use quorate_wire::LINK_BYTES_MAX;
use std::path::Path;

/// The directory in the data directory.
pub(crate) const DIRECTORY: &str = "chain";
const EXTENSION: &str = "link";

/// Reads the membership links in this data directory.
pub(crate) fn read(data: &Path) -> Vec<MembershipLink> {
    let decode = |file: KeptFile| MembershipLink::decode(&file.bytes).map_err(|why| why.to_string());
    let mut links =
        kept_files::read(&data.join(DIRECTORY), (EXTENSION, LINK_BYTES_MAX), "a membership link", decode);
    links.sort_by_key(MembershipLink::number);
    links
}

/// Writes membership links.
pub(crate) fn files(data: &Path) -> KeptFiles {
    KeptFiles::new(data.join(DIRECTORY), "a membership link")
}

/// The problem to report while a file waits.
pub(crate) fn problem(files: &KeptFiles) -> Option<String> {
    let (count, why) = files.unwritten()?;
    Some(format!(
        "membership links are not on disk ({count} files, {why}): free space, or look after the disk. They are tried again, and other \
         members have them, too"
    ))
}

#[cfg(test)]
mod tests;
