//! How many files and connections this process may have open at once.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[cfg(test)]
mod tests;

/// Raises the limit of open files as far as this process may. Gives the new limit; `None` when there is none.
pub(crate) fn raise() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return limit.current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::warn!("raising the limit of open files: {error}");
            limit.current
        }
    }
}

/// The number of connections to accept, at most `configured`: half of the files stay for the log, other replicas and connections that end.
pub(crate) fn connections_max(configured: usize, files: Option<u64>) -> usize {
    let most = files.map_or(usize::MAX, |files| usize::try_from(files / 2).unwrap_or(usize::MAX)).max(1);
    if most < configured {
        tracing::warn!(
            "limits: connections is lowered from {configured} to {most}, half of the files that this process may open: raise that \
             limit (ulimit -Hn)"
        );
    }
    configured.min(most)
}

/// The number of connections without a handshake to keep, at most `configured`, and at most an eighth of the files.
pub(crate) fn handshakes_max(configured: usize, files: Option<u64>) -> usize {
    let most = files.map_or(usize::MAX, |files| usize::try_from(files / 8).unwrap_or(usize::MAX));
    configured.min(most.max(16))
}
