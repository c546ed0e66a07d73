//! The file of the users who may prove who they are with SASL: one a line, `name:password`.
//!
//! An error never shows what is in the line: it may have a password. Tests: tests.rs.

use quorate_zookeeper::server::SaslUsers;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The longest name, in bytes: no identity is longer.
const NAME_BYTES_MAX: usize = 1024;

/// Reads the file.
///
/// # Errors
/// Names it, and the line.
pub(super) fn read(path: &Path) -> Result<SaslUsers, String> {
    let shown = path.display();
    let unread = |why: io::Error| format!("{shown} can not be read: {why}");
    let file = File::open(path).map_err(unread)?;
    let mode = file.metadata().map_err(unread)?.permissions().mode();
    if mode & 0o004 != 0 {
        tracing::warn!("everybody on this machine may read the passwords in {shown}: chmod o-r {shown}");
    }
    let text = io::read_to_string(file).map_err(unread)?;
    let mut users: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |why: &str| Err(format!("{shown}, line {number}: {why}"));
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let Some((name, password)) = line.split_once(':').filter(|(_, password)| !password.is_empty()) else {
            return wrong("a user is name:password, as in ann:secret");
        };
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_in_names) {
            return wrong("a name has 1 to 1024 bytes, without white space");
        }
        if let Some((_, before)) = users.insert(name, (password, number)) {
            return wrong(&format!("each name comes once, and this one is in line {before}, too"));
        }
    }
    if users.is_empty() {
        return Err(format!("{shown} has no user: write name:password in a line, or leave sasl_users out"));
    }
    Ok(users.iter().map(|(name, (password, _))| (*name, password)).collect())
}

fn is_in_names(char: char) -> bool {
    !char.is_whitespace() && !char.is_control()
}
