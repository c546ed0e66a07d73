//! How many files and connections this process may have open at once.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[cfg(test)]
mod tests;

/// Raises the limit of open files as far as this process may, and gives what it is then; none when there is no limit.
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

/// How many connections to accept of `configured`: half of the files are left for the log, other replicas and connections that
/// end.
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

/// How many connections that have not said who they are to keep of `configured`: at most an eighth of the files.
pub(crate) fn handshakes_max(configured: usize, files: Option<u64>) -> usize {
    let most = files.map_or(usize::MAX, |files| usize::try_from(files / 8).unwrap_or(usize::MAX));
    configured.min(most.max(16))
}
