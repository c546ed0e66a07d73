//! The membership, by what the replicas say.

use crate::admin::believed;
use quorate::client::ClientFile;
use quorate_command::admin::{self, Admin, Answer};
use quorate_command::cluster::{CLIENT_FILE, Cluster, ClusterArgs};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_types::{MembershipId, ReplicaId};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// How long a replica may take to show membership links.
const ANSWER: Duration = Duration::from_secs(2);
/// A voter that lacks at most so many batches follows.
const BEHIND: u64 = 64;

/// A member, by what the leader says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Member {
    pub(crate) replica: u16,
    pub(crate) address: String,
    pub(crate) role: String,
    pub(crate) incarnation: String,
    pub(crate) caught_up: bool,
    /// Its public key, where replicas may lie.
    #[serde(default)]
    pub(crate) key: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Membership {
    number: u64,
    changing_to: Option<u64>,
    members: Vec<Member>,
    leaving: Vec<u16>,
    created: u16,
    start_time_ns: u64,
}

/// The members, and which of them answered.
pub(crate) struct View {
    pub(crate) number: u64,
    pub(crate) changing_to: Option<u64>,
    pub(crate) leader: Option<ReplicaId>,
    pub(crate) members: Vec<Member>,
    leaving: Vec<u16>,
    /// The number of replicas with which the cluster was made.
    pub(crate) created: u16,
    pub(crate) start_time_ns: u64,
    reached: Vec<u16>,
}

impl View {
    /// Asks all replicas: those that `client.toml` names, and those that they name.
    pub(crate) fn of(cluster: &Cluster) -> Outcome<Self> {
        let mut answers = Admin::new(cluster)?.ask_all();
        let needed = cluster.truth();
        let mut newest = newest(&answers, needed)?;
        let known = |id: u16| cluster.members.iter().any(|(member, _)| member.number() == id);
        let others: Vec<(ReplicaId, String)> = newest
            .members
            .iter()
            .filter(|member| !known(member.replica) && !member.address.is_empty())
            .map(|member| (ReplicaId::new(member.replica), member.address.clone()))
            .collect();
        if !others.is_empty() {
            let others = Cluster { members: others, ..cluster.clone() };
            answers.extend(Admin::new(&others)?.ask_all());
            newest = self::newest(&answers, needed)?;
        }
        let leader = admin::leader(&answers);
        // Only the leader knows which learners have caught up.
        let of_leader = answers.iter().find(|answer| Some(answer.replica) == leader && needed == 1);
        if let Some(membership) = of_leader.and_then(|answer| read(answer).ok()) {
            newest = membership;
        }
        let reached = answers.iter().filter(|answer| answer.status.is_ok());
        let reached = reached.map(|answer| answer.replica.number()).collect();
        let Membership { number, changing_to, members, leaving, created, start_time_ns } = newest;
        Ok(Self { number, changing_to, leader, members, leaving, created, start_time_ns, reached })
    }

    /// The addresses of all members.
    pub(crate) fn addresses(&self) -> Vec<(ReplicaId, String)> {
        let named = self.members.iter().filter(|member| !member.address.is_empty());
        named.map(|member| (ReplicaId::new(member.replica), member.address.clone())).collect()
    }

    /// The address of a member.
    pub(super) fn address(&self, replica: ReplicaId) -> Option<String> {
        let found = self.members.iter().find(|member| member.replica == replica.number());
        found.map(|member| member.address.clone())
    }

    /// The public key of a member, where replicas may lie.
    pub(super) fn key(&self, replica: ReplicaId) -> Option<&str> {
        let found = self.members.iter().find(|member| member.replica == replica.number());
        found.and_then(|member| member.key.as_deref())
    }

    pub(super) fn has_caught_up(&self, replica: ReplicaId) -> bool {
        self.members.iter().any(|member| member.replica == replica.number() && member.caught_up)
    }

    /// A learner that was added and never started.
    pub(super) fn waiting(&self, replica: u16) -> Outcome<&Member> {
        let why = match self.members.iter().find(|member| member.replica == replica) {
            None => "is no member: `quorate member list` shows who is",
            Some(member) if member.role != "learner" => {
                "votes already: if its disk is lost, `quorate member replace` sets up another replica in its place"
            }
            Some(member) if member.caught_up || self.reached.contains(&replica) => "runs already",
            Some(member) => return Ok(member),
        };
        Err(Failure::usage(format!("replica {replica} {why}")))
    }

    pub(super) fn leads(&self) -> Outcome<()> {
        match self.leader {
            Some(_) => Ok(()),
            None => Err(Failure::new(
                "nobody leads now, so nothing can be changed: `quorate status` says what is missing",
            )),
        }
    }

    fn state(&self, member: &Member) -> String {
        if Some(ReplicaId::new(member.replica)) == self.leader {
            return "leads".to_owned();
        }
        let reached = self.reached.contains(&member.replica);
        match (member.role.as_str(), reached, member.caught_up) {
            ("learner", _, true) => format!("has caught up: quorate member promote {}", member.replica),
            ("learner", true, false) => "catches up".to_owned(),
            ("learner", false, false) => "is not there yet: start it".to_owned(),
            (_, true, true) => "follows".to_owned(),
            (_, true, false) => "lags".to_owned(),
            (_, false, _) => "does not answer".to_owned(),
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = match self.changing_to {
            Some(next) => format!("membership {}, changing to {next}\n\n", self.number),
            None => format!("membership {}\n\n", self.number),
        };
        let _ = writeln!(text, "{:>7}  {:<24}  {:<8} state", "replica", "address", "role");
        for member in &self.members {
            let Member { replica, address, role, .. } = member;
            let _ = writeln!(text, "{replica:>7}  {address:<24}  {role:<8} {}", self.state(member));
        }
        for replica in &self.leaving {
            let _ = writeln!(text, "{replica:>7}  {:<24}  {:<8} leaves with this change", "", "");
        }
        text.trim_end().to_owned()
    }

    pub(super) fn json(&self) -> Value {
        let members: Vec<Value> = self
            .members
            .iter()
            .map(|member| {
                json!({
                    "replica": member.replica,
                    "address": member.address,
                    "role": member.role,
                    "incarnation": member.incarnation,
                    "caught_up": member.caught_up,
                    "key": member.key,
                    "reachable": self.reached.contains(&member.replica),
                    "leads": Some(ReplicaId::new(member.replica)) == self.leader,
                })
            })
            .collect();
        json!({
            "membership": self.number,
            "changing_to": self.changing_to,
            "members": members,
            "leaving": self.leaving,
        })
    }

    /// Writes the present members into `client.toml`, for clients that start later. Running clients learn them from the replicas. A file that
    /// knows a membership with its keys is written only as far as membership links prove the members.
    pub(super) fn write_client_file(&self, cluster: &Cluster, args: &ClusterArgs) -> Outcome<()> {
        let mut file = cluster.file();
        if file.known().is_some() {
            let history =
                file.follow(&self.addresses(), ANSWER).map_err(|why| Failure::new(why.to_string()))?;
            if file.membership.is_some_and(|number| number.number() < self.number) {
                eprintln!(
                    "client.toml does not name membership {} yet, since nobody shows a proof of it: `quorate member history` tries again",
                    self.number
                );
            }
            return if history.memberships.len() > 1 { write_members(cluster, args, &file) } else { Ok(()) };
        }
        let learns = |member: &&Member| member.role == "learner";
        file.learners = self.members.iter().filter(learns).map(|m| ReplicaId::new(m.replica)).collect();
        file.members = self.members.iter().map(|m| (ReplicaId::new(m.replica), m.address.clone())).collect();
        let key = |member: &Member| {
            Some((ReplicaId::new(member.replica), ClientFile::parse_key(member.key.as_deref()?)?))
        };
        file.keys = self.members.iter().filter_map(key).collect();
        let provable =
            cluster.fault_model.may_lie() && !cluster.weighted && file.keys.len() == file.members.len();
        file.membership = provable.then(|| MembershipId::new(self.number));
        write_members(cluster, args, &file)
    }
}

/// Writes the members of this file into the cluster's `client.toml`, and leaves everything else in it as it is.
pub(super) fn write_members(cluster: &Cluster, args: &ClusterArgs, file: &ClientFile) -> Outcome<()> {
    let path = args.config.clone().unwrap_or_else(|| cluster.directory.join(CLIENT_FILE));
    let Ok(text) = std::fs::read_to_string(&path) else { return Ok(()) };
    let mut document: toml::Table = toml::from_str(&text).doing(format_args!("read {}", path.display()))?;
    let members: toml::Table = toml::from_str(&file.to_toml()).doing("write the members")?;
    for name in ["membership", "members"] {
        match members.get(name) {
            Some(value) => drop(document.insert(name.into(), value.clone())),
            None => drop(document.remove(name)),
        }
    }
    let text = toml::to_string(&document).doing(format_args!("write {}", path.display()))?;
    let text = format!(
        "# Where the cluster is, for clients: `quorate --config` and QUORATE_CONFIG name this file.\n{text}"
    );
    let beside = path.with_extension("toml.new");
    std::fs::write(&beside, text).doing(format_args!("write {}", beside.display()))?;
    std::fs::rename(&beside, &path).doing(format_args!("write {}", path.display()))
}

/// The membership in a replica's answer.
fn read(answer: &Answer) -> Result<Membership, String> {
    let status = answer.status.as_ref().map_err(Clone::clone)?;
    Membership::deserialize(&status.raw["membership"])
        .map_err(|why| format!("its status is of another version of this program: {why}"))
}

/// The newest membership that so many replicas name alike. What they say of who has caught up counts apart: each one finds that out by itself.
fn newest(answers: &[Answer], needed: usize) -> Outcome<Membership> {
    let mut whys = Vec::new();
    let mut found = Vec::new();
    for answer in answers {
        match read(answer) {
            Ok(membership) => found.push(membership),
            Err(why) => whys.push(format!("replica {}: {why}", answer.replica.number())),
        }
    }
    let bare = |membership: &Membership| {
        let mut bare = membership.clone();
        bare.members.iter_mut().for_each(|member| member.caught_up = false);
        bare
    };
    let alike: Vec<Membership> = found.iter().map(bare).collect();
    let newest = believed(&alike, needed).max_by_key(|membership| membership.number).cloned();
    let Some(mut newest) = newest else {
        let why = if found.len() < needed {
            "too few replicas answer"
        } else {
            "the replicas name different members"
        };
        return Err(Failure::new(format!("{why} ({})", whys.join("; "))));
    };
    // In an idle cluster no follower hears another one, so a voter is believed what it says of itself.
    let reached = reached(answers.iter().filter_map(executed).collect(), needed);
    for member in &mut newest.members {
        let says = |membership: &&Membership| {
            membership.members.iter().any(|other| other.replica == member.replica && other.caught_up)
        };
        let own = answers.iter().find(|answer| answer.replica.number() == member.replica).and_then(executed);
        let follows = member.role == "voter" && keeps_up(own, reached);
        member.caught_up = follows || found.iter().filter(says).count() >= needed;
    }
    Ok(newest)
}

/// How far a replica says that it executed.
fn executed(answer: &Answer) -> Option<u64> {
    answer.status.as_ref().ok().map(|status| status.executed)
}

/// How far so many replicas say that they executed, one of whom does not lie; `None` if fewer say anything.
fn reached(mut all: Vec<u64>, needed: usize) -> Option<u64> {
    all.sort_unstable_by(|one, other| other.cmp(one));
    all.get(needed.saturating_sub(1)).copied()
}

/// Whether a replica that executed so far keeps up with the others.
fn keeps_up(own: Option<u64>, reached: Option<u64>) -> bool {
    own.zip(reached).is_some_and(|(own, reached)| own.saturating_add(BEHIND) >= reached)
}

#[cfg(test)]
mod tests;
