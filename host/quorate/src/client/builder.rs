//! How a client comes to be.

use super::tls::ClientTls;
use super::{Authentication, BlockingClient, Client, ClientFile, ClientFileError, thread};
use quorate_client::{Combiner, Combines, Config};
use quorate_tls::{CredentialsError, TlsFiles};
use quorate_types::{ClientId, ClusterId, FaultModel, Faults, ReplicaId, Span};
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a call waits unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no client.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The list of members is of no use.
    Members(&'static str),
    /// The system refused a thread or a poll.
    Io(io::Error),
    /// The certificates.
    Credentials(CredentialsError),
    /// How requests show who asked them.
    Authentication(&'static str),
    /// How replies are compared.
    Combiner(&'static str),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Members(why) => write!(f, "the list of members is of no use: {why}"),
            Self::Credentials(why) => write!(f, "{why}"),
            Self::Combiner(why) => write!(f, "the combiner: {why}"),
            Self::Authentication(why) => write!(f, "the authentication of requests: {why}"),
            Self::Io(error) => write!(f, "the client's thread can not be started: {error}"),
        }
    }
}

impl std::error::Error for BuildError {}

/// Describes a client. Only the members are needed. A copy describes the same, with randomness of its own.
#[derive(Debug)]
pub struct ClientBuilder {
    config: Config,
    members: Vec<(ReplicaId, String)>,
    timeout: Duration,
    tls: Option<TlsFiles>,
    admin_tls: Option<TlsFiles>,
    authentication: Authentication,
}

impl Clone for ClientBuilder {
    fn clone(&self) -> Self {
        Self {
            // Of two clients with the same seed the second one would open the first one's sessions.
            config: Config { seed: random(), ..self.config.clone() },
            members: self.members.clone(),
            tls: self.tls.clone(),
            admin_tls: self.admin_tls.clone(),
            ..*self
        }
    }
}

impl Default for ClientBuilder {
    fn default() -> Self {
        let (client, seed) = (ClientId::new(random()), random());
        Self {
            config: Config::new(client, seed),
            members: Vec::new(),
            timeout: TIMEOUT,
            tls: None,
            admin_tls: None,
            authentication: Authentication::default(),
        }
    }
}

/// Randomness of the system: every state of the standard hasher has keys of its own.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl ClientBuilder {
    /// The client that a `client.toml` describes, which `quorate init` wrote.
    ///
    /// # Errors
    /// Says what is wrong with the file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ClientFileError> {
        ClientFile::read(path.as_ref()).map(|file| file.builder())
    }

    /// The certificates of this client. Without them connections are plain, which replicas refuse unless they run so, too.
    #[must_use]
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// The certificates for an operator's questions ([`Client::status`] and such), if they are not the client's own.
    #[must_use]
    pub fn admin_tls(mut self, files: TlsFiles) -> Self {
        self.admin_tls = Some(files);
        self
    }

    /// How requests show who asked them, where replicas may lie; over links alone if not given. With signatures the cluster must be named, by
    /// its id or by certificates.
    #[must_use]
    pub const fn authentication(mut self, authentication: Authentication) -> Self {
        self.authentication = authentication;
        self
    }

    /// Adds a member: its id, and where it listens, as `host:port`. A name is resolved each time it is dialed.
    #[must_use]
    pub fn member(mut self, replica: ReplicaId, address: impl Into<String>) -> Self {
        self.members.push((replica, address.into()));
        self
    }
    /// Adds several members.
    #[must_use]
    pub fn members(mut self, members: impl IntoIterator<Item = (ReplicaId, String)>) -> Self {
        self.members.extend(members);
        self
    }
    /// The cluster that is meant; without it, the first replica that answers decides.
    #[must_use]
    pub const fn cluster(mut self, cluster: ClusterId) -> Self {
        self.config.cluster = Some(cluster);
        self
    }
    /// What the replicas may do; crash faults if not given. It must be the cluster's: with Byzantine faults requests go to all members, and
    /// an answer is believed once f+1 of them gave it, so the list of members must be complete.
    #[must_use]
    pub const fn fault_model(mut self, model: FaultModel) -> Self {
        self.config.faults = Faults::of(model);
        self
    }
    /// The cluster's `faults`, where its configuration says it: said after the fault model.
    #[must_use]
    pub const fn faults(mut self, most: u32) -> Self {
        self.config.faults = self.config.faults.at_most(most);
        self
    }
    /// Compares the replies of replicas, and puts them together, in another way than byte by byte; with Byzantine faults only.
    #[must_use]
    pub fn combiner(mut self, combiner: impl Combiner + 'static) -> Self {
        self.config.combiner = Some(Combines(Arc::new(combiner)));
        self
    }
    /// Who this client is; random if not given. Caps on sessions hold per client.
    #[must_use]
    pub const fn client_id(mut self, client: ClientId) -> Self {
        self.config.client = client;
        self
    }
    /// How long a call, a read or an opening waits for its answer; 10 s if not given.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
    /// How long the cluster keeps idle sessions; they are kept alive at a third of it.
    #[must_use]
    pub const fn session_ttl(mut self, ttl: Duration) -> Self {
        self.config.session_ttl = Span::from_millis(ttl.as_millis() as u64);
        self
    }
    /// The most bytes of calls and reads that wait for their answers; more end with `Overloaded` at once.
    #[must_use]
    pub const fn queue_bytes_max(mut self, bytes: usize) -> Self {
        self.config.queue_bytes_max = bytes;
        self
    }
    /// The largest frame that is sent, and so about the largest call; the replicas' own limit must not be smaller.
    #[must_use]
    pub const fn frame_bytes_max(mut self, bytes: u32) -> Self {
        self.config.frame_bytes_max = bytes;
        self
    }
    /// Changes what has no method of its own.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// The client. It connects in the background; nothing is waited for.
    ///
    /// # Errors
    /// When the list of members is empty, longer than 64 or names one twice, requests can not be signed, or the system refuses a thread.
    pub fn build(self) -> Result<Client, BuildError> {
        let mut clients = self.build_many(1)?;
        clients.pop().ok_or(BuildError::Members("there is no client"))
    }

    /// So many clients, each with connections and sessions of its own, on one thread together. With certificates they are one and the same
    /// to the replicas, else each has a random id.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn build_many(mut self, count: usize) -> Result<Vec<Client>, BuildError> {
        let mut ids: Vec<ReplicaId> = self.members.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        if ids.is_empty() || ids.len() > 64 {
            return Err(BuildError::Members("it must name 1 to 64"));
        }
        if ids.windows(2).any(|pair| pair[0] == pair[1]) || ids[0].number() == 0 {
            return Err(BuildError::Members("each has an id of its own, from 1"));
        }
        if self.config.combiner.is_some() && !self.config.faults.may_lie() {
            return Err(BuildError::Combiner(
                "with crash faults the answer of one replica is the answer: leave it out, or say FaultModel::Byzantine",
            ));
        }
        let load = |files: Option<TlsFiles>| files.map(ClientTls::load).transpose();
        let tls = load(self.tls).map_err(BuildError::Credentials)?;
        let admin_tls = load(self.admin_tls).map_err(BuildError::Credentials)?.or(tls.clone());
        if let Some(tls) = &tls {
            let credentials = tls.current();
            self.config.cluster = self.config.cluster.or(Some(credentials.cluster()));
            // Its sessions are those of its name: nobody with another one can use them.
            self.config.own = ClientId::new(self.config.client.number().max(1));
            self.config.client = credentials.identity().holder.client_id(self.config.own);
        }
        let cluster = self.config.cluster;
        let config = |at| match (at, &tls) {
            (0, _) => self.config.clone(),
            (_, Some(_)) => Config { seed: random(), ..self.config.clone() },
            (_, None) => Config { seed: random(), client: ClientId::new(random()), ..self.config.clone() },
        };
        let mut configs: Vec<Config> = (0..count).map(config).collect();
        configs.iter_mut().try_for_each(|config| self.authentication.prepare(config))?;
        let handles = thread::start(configs, &self.members, tls.as_ref()).map_err(BuildError::Io)?;
        let members = Arc::new(self.members);
        let client = |handle| Client {
            handle,
            members: Arc::clone(&members),
            cluster,
            timeout: self.timeout,
            admin_tls: admin_tls.clone(),
        };
        Ok(handles.into_iter().map(client).collect())
    }

    /// The client for threads that wait.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn build_blocking(self) -> Result<BlockingClient, BuildError> {
        self.build().map(BlockingClient::new)
    }
}
