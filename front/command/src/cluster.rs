//! Finds the cluster that a command is about: its `client.toml`.
//!
//! The order: `--config`, `--dir`, the environment variable `QUORATE_CONFIG`, then `./.quorate/dev`.

use crate::failure::{Failure, Outcome};
use crate::print;
use quorate::client::{Authentication, ClientFile, ClientFiles, Credentials};
use quorate_types::{ClusterId, FaultModel, Faults, MembershipId, ReplicaId, Trust};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The name of the file that tells clients where the cluster is.
pub const CLIENT_FILE: &str = "client.toml";
/// Where `dev` keeps its cluster by default.
pub const DEV_DIRECTORY: &str = ".quorate/dev";
/// The file that marks a directory as made by `dev`, and holds its choices.
pub const DEV_MARKER: &str = "dev.toml";
/// The variable that names a `client.toml`.
pub const VARIABLE: &str = "QUORATE_CONFIG";

/// Which cluster.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ClusterArgs {
    /// The directory that `quorate dev` or `quorate init` made [default: ./.quorate/dev]
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    pub dir: Option<PathBuf>,
    /// The file client.toml of the cluster [default: the one that QUORATE_CONFIG names]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// A cluster as its clients know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its id.
    pub id: ClusterId,
    /// Its replicas, and where they listen.
    pub members: Vec<(ReplicaId, String)>,
    /// Those of them that do not vote.
    pub learners: Vec<ReplicaId>,
    /// The number of the membership that these are, if it is known; only where replicas may lie.
    pub membership: Option<MembershipId>,
    /// The public keys of members that are known.
    pub keys: BTreeMap<ReplicaId, [u8; 32]>,
    /// The number of the era that this is about.
    pub era: u64,
    /// Which faults its replicas may have.
    pub fault_model: FaultModel,
    /// How many replicas may be faulty, if fewer than the number of members allows.
    pub faults: Option<u32>,
    /// Whether the votes of some replicas count more.
    pub weighted: bool,
    /// How requests prove which client sent them.
    pub authentication: Authentication,
    /// The certificates that clients show to replicas; `None` where connections are plain.
    pub tls: Option<ClientFiles>,
    /// The directory of `client.toml`; `dev` has its control socket there, too.
    pub directory: PathBuf,
}

impl Cluster {
    /// Finds the cluster that the arguments mean.
    ///
    /// # Errors
    /// When there is none; the text says where it was looked for and what to do.
    pub fn find(args: &ClusterArgs) -> Outcome<Self> {
        if let Some(file) = &args.config {
            return Self::read(file, "Name an existing file with --config");
        }
        if let Some(directory) = &args.dir {
            let remedy = "Name a directory that `quorate dev` or `quorate init` made, or start a cluster there with \
                          `quorate dev --dir`";
            return Self::read(&directory.join(CLIENT_FILE), remedy);
        }
        if let Some(file) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
            return Self::read(Path::new(&file), "Correct the environment variable QUORATE_CONFIG");
        }
        let file = Path::new(DEV_DIRECTORY).join(CLIENT_FILE);
        if !file.exists() {
            return Err(Failure::usage(format!(
                "no cluster is known here: there is no {}.\nStart one with `quorate dev`, or name one with --dir, --config \
                 or the environment variable {VARIABLE}",
                file.display()
            )));
        }
        Self::read(&file, "Start a cluster anew with `quorate dev --fresh`")
    }

    /// Reads a `client.toml`.
    pub fn read(file: &Path, remedy: &str) -> Outcome<Self> {
        let parsed = ClientFile::read(file).map_err(|why| Failure::usage(format!("{why}. {remedy}")))?;
        Ok(Self::of(parsed, file.parent().map(Path::to_path_buf).unwrap_or_default()))
    }

    /// The cluster of this `client.toml`, which lies in this directory.
    pub fn of(file: ClientFile, directory: PathBuf) -> Self {
        let ClientFile { cluster: id, members, learners, membership, keys, fault_model, .. } = file;
        let ClientFile { faults, weighted, authentication, tls, era, .. } = file;
        Self {
            id,
            members,
            learners,
            membership,
            keys,
            era,
            fault_model,
            faults,
            weighted,
            authentication,
            tls,
            directory,
        }
    }

    /// A client of this cluster.
    pub fn client(&self) -> quorate::client::ClientBuilder {
        self.file().builder()
    }

    /// The certificates that an operator shows to the replicas; `None` where connections are plain.
    ///
    /// # Errors
    /// When the certificates can not be used.
    pub fn credentials(&self) -> Outcome<Option<Arc<Credentials>>> {
        let Some(tls) = &self.tls else { return Ok(None) };
        let files = tls.for_operators().unwrap_or(&tls.client);
        let credentials = Credentials::load(files).map_err(|why| Failure::usage(why.to_string()))?;
        Ok(Some(Arc::new(credentials)))
    }

    /// The contents of the cluster's `client.toml`.
    pub fn file(&self) -> ClientFile {
        let (members, tls) = (self.members.clone(), self.tls.clone());
        let (learners, keys) = (self.learners.clone(), self.keys.clone());
        let Self { id, membership, era, fault_model, faults, weighted, authentication, .. } = *self;
        ClientFile {
            cluster: id,
            members,
            learners,
            membership,
            keys,
            era,
            fault_model,
            faults,
            weighted,
            authentication,
            tls,
        }
    }

    /// The text of the `client.toml` of this cluster.
    pub fn to_toml(&self) -> String {
        self.file().to_toml()
    }

    fn trust(&self) -> Trust {
        let votes = |(id, _): &&(ReplicaId, String)| !self.learners.contains(id);
        let voters = self.members.iter().filter(votes).count();
        let faults = Faults::of(self.fault_model);
        let faults = self.faults.map_or(faults, |most| faults.at_most(most));
        let faults = if self.weighted { faults.weighted() } else { faults };
        faults.among(u32::try_from(voters).unwrap_or(u32::MAX).max(1))
    }

    /// The number of replicas that must agree: a majority; more where replicas may lie. Where few are slow, an oracle makes fewer enough.
    pub fn majority(&self) -> usize {
        self.trust().smallest() as usize
    }

    /// How many replicas must say the same so that one of them does not lie.
    pub fn truth(&self) -> usize {
        self.trust().truth() as usize
    }

    /// What to know of a number of replicas that survives no more stops than one replica fewer.
    pub fn spare(&self) -> Option<String> {
        let (count, survives) = (self.members.len(), self.members.len() - self.majority());
        let is_spare =
            !self.fault_model.may_lie() && !self.fault_model.few_are_slow() && count.is_multiple_of(2);
        let stops = match survives {
            0 => "no replica may stop".to_owned(),
            1 => "one replica may stop".to_owned(),
            more => format!("{more} replicas may stop"),
        };
        is_spare.then(|| {
            format!(
                "Of {count} replicas a majority must run: {stops}, as with {}. Take {} or {}.",
                count - 1,
                count - 1,
                count + 1
            )
        })
    }

    /// Whether `quorate dev` manages this cluster, or did before.
    pub fn is_dev(&self) -> bool {
        self.directory.join(DEV_MARKER).exists()
    }
}

/// What a command of this program needs to be about the cluster in this directory: ` --dir DIR`; nothing where that is the one that it finds
/// by itself. For commands that are printed, to be typed into the same shell.
pub fn dir_option(directory: &Path) -> String {
    let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    option_beside(directory, variable.map(PathBuf::from).as_deref())
}

/// The same, where this is the file that the environment names.
fn option_beside(directory: &Path, variable: Option<&Path>) -> String {
    let found = match variable {
        Some(file) => file.parent().unwrap_or(Path::new("")),
        None => Path::new(DEV_DIRECTORY),
    };
    let plain = |path: &Path| path.strip_prefix(".").unwrap_or(path).to_owned();
    if plain(found) == plain(directory) {
        return String::new();
    }
    let shown = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    format!(" --dir {}", print::quoted(&shown.display().to_string()))
}
