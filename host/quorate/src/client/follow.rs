//! Follows the chain of memberships from a `client.toml`, before there is a client: as long as somebody shows the next membership link.
//!
//! Tests: follow/tests.rs, front/cli/tests/all/admin.rs.

use super::admin::ask_for_links;
use super::{ClientFile, Credentials};
use quorate_client::chain::follow;
use quorate_types::{MembershipId, ReplicaId};
use quorate_wire::{Chain, Era, Membership};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The memberships from the one that was known up to the newest one that is proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The memberships, oldest first. The first one was known; each other one is proved by the one before.
    pub memberships: Vec<Membership>,
    /// The newest membership that a replica named. Only its word: it has not shown what leads there if this is later than the last one.
    pub named: MembershipId,
    /// The replicas that answered the last question, whatever they showed.
    pub answered: Vec<ReplicaId>,
    /// What is wrong with replicas that were asked: no connection, a forged link, a hole.
    pub problems: Vec<(ReplicaId, String)>,
}

impl History {
    fn last(&self) -> &Membership {
        self.memberships.last().expect("the known membership is there")
    }
}

/// Why no chain can be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFollowed {
    /// There is no number, or no key of a member.
    Unknown,
    /// The certificates can not be used.
    Credentials(String),
}

impl fmt::Display for NotFollowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str(
                "client.toml does not say which membership it names, or lacks the public key of a member, so nothing can be proved to who has it",
            ),
            Self::Credentials(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NotFollowed {}

impl ClientFile {
    /// Asks the replicas that the file names, those of each membership that is proved, and `others`, for membership links, until nobody shows
    /// one more. The file has the last membership then. It waits for the answers, each for at most `timeout`.
    ///
    /// # Errors
    /// When the file has no membership to begin with, or its certificates can not be used. That nobody answers is no error: it is in the
    /// history.
    pub fn follow(
        &mut self,
        others: &[(ReplicaId, String)],
        timeout: Duration,
    ) -> Result<History, NotFollowed> {
        let load = |files| Credentials::load(files).map_err(|why| NotFollowed::Credentials(why.to_string()));
        let credentials = self.tls.as_ref().map(|tls| load(&tls.client)).transpose()?.map(Arc::new);
        let cluster = self.cluster;
        let ask = |place: &(ReplicaId, String), after| {
            ask_for_links((place.0, &place.1), cluster, credentials.as_deref(), after, timeout)
        };
        self.follow_by(others, &ask)
    }

    fn follow_by(
        &mut self,
        others: &[(ReplicaId, String)],
        ask: &(impl Fn(&(ReplicaId, String), MembershipId) -> Result<Chain, String> + Sync),
    ) -> Result<History, NotFollowed> {
        let known = self.known().ok_or(NotFollowed::Unknown)?;
        let (named, faults) = (known.number(), self.faults_of_cluster());
        let (answered, problems) = (Vec::new(), Vec::new());
        let mut history = History { memberships: vec![known], named, answered, problems };
        loop {
            let known = history.last().clone();
            let mut places: Vec<(ReplicaId, String)> =
                self.members.iter().filter(|(_, address)| !address.is_empty()).cloned().collect();
            places.extend(others.iter().filter(|other| !self.members.contains(other)).cloned());
            let after = known.number();
            let answers = std::thread::scope(|scope| {
                let asked: Vec<_> =
                    places.iter().map(|place| (place.0, scope.spawn(move || ask(place, after)))).collect();
                let failed = |_| Err("asking it failed".to_owned());
                let answer = |(id, thread): (ReplicaId, std::thread::ScopedJoinHandle<'_, _>)| {
                    (id, thread.join().unwrap_or_else(failed))
                };
                asked.into_iter().map(answer).collect::<Vec<(ReplicaId, Result<Chain, String>)>>()
            });
            let mut best: Vec<Membership> = Vec::new();
            history.answered.clear();
            for (replica, answer) in answers {
                let wrong = match answer {
                    Err(why) => Some(why),
                    Ok(chain) => {
                        history.answered.push(replica);
                        history.named = history.named.max(chain.now);
                        let signed_as = Era::signed_as(self.cluster, self.era);
                        let followed = follow(signed_as, faults, &known, &chain);
                        if followed.proved.len() > best.len() {
                            best = followed.proved;
                        }
                        followed.wrong
                    }
                };
                history.problems.extend(wrong.map(|wrong| (replica, wrong)));
            }
            if best.is_empty() {
                return Ok(history);
            }
            history.memberships.append(&mut best);
            self.have(history.last());
        }
    }
}

#[cfg(test)]
mod tests;
