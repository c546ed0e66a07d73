//! Describes and builds clients.

use super::replies::Outlets;
use super::tls::ClientTls;
use super::{
    Authentication, BlockingClient, Client, ClientFile, ClientFileError, LetterQueue, ReplyListener, thread,
};
use quorate_client::{Combiner, Combines, Config};
use quorate_tls::{CredentialsError, TlsFiles};
use quorate_types::{ClientId, ClusterId, FaultModel, Faults, ReplicaId, ServiceName, Span};
use quorate_wire::Membership;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a call waits by default.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why a client could not be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The list of members can not be used.
    Members(&'static str),
    /// The system refused a thread or a poll.
    Io(io::Error),
    /// The certificates can not be used.
    Credentials(CredentialsError),
    /// The way of authentication can not be used.
    Authentication(&'static str),
    /// The combiner can not be used.
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

/// Describes a client. Only the members are required. A copy describes the same client, but draws its own random numbers.
#[derive(Debug)]
pub struct ClientBuilder {
    config: Config,
    members: Vec<(ReplicaId, String)>,
    learners: Vec<ReplicaId>,
    timeout: Duration,
    tls: Option<TlsFiles>,
    admin_tls: Option<TlsFiles>,
    authentication: Authentication,
    outlets: Outlets,
}

impl Clone for ClientBuilder {
    fn clone(&self) -> Self {
        Self {
            // Of two clients with the same seed the second one would open the first one's sessions.
            config: Config { seed: random(), ..self.config.clone() },
            members: self.members.clone(),
            learners: self.learners.clone(),
            tls: self.tls.clone(),
            admin_tls: self.admin_tls.clone(),
            outlets: self.outlets.clone(),
            ..*self
        }
    }
}

impl Default for ClientBuilder {
    fn default() -> Self {
        let (client, seed) = (ClientId::drawn(random()), random());
        Self {
            config: Config::new(client, seed),
            members: Vec::new(),
            learners: Vec::new(),
            timeout: TIMEOUT,
            tls: None,
            admin_tls: None,
            authentication: Authentication::default(),
            outlets: Outlets::default(),
        }
    }
}

/// Random numbers of the system: every state of the standard hasher has keys of its own.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl ClientBuilder {
    /// Describes the client of a `client.toml`, as `quorate init` writes it.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ClientFileError> {
        ClientFile::read(path.as_ref()).map(|file| file.builder())
    }

    /// Names the service that this client means. A cluster that runs another one refuses it, and says which. A name that is none is left out.
    #[must_use]
    pub fn service(mut self, name: &str) -> Self {
        self.config.service = ServiceName::new(name).unwrap_or_default();
        self
    }

    /// The certificates of this client. Without them connections are plain, which only replicas with `plain = true` accept.
    #[must_use]
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// The certificates for operators' requests ([`Client::status`] and others), if they differ from the client's own.
    #[must_use]
    pub fn admin_tls(mut self, files: TlsFiles) -> Self {
        self.admin_tls = Some(files);
        self
    }

    /// How requests prove which client sent them, where replicas may lie; by links alone by default. With signatures the cluster must be
    /// named, by its id or by certificates.
    #[must_use]
    pub const fn authentication(mut self, authentication: Authentication) -> Self {
        self.authentication = authentication;
        self
    }

    /// Adds a member: its id, and its address, as `host:port`. A name is resolved each time it is dialed.
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
    /// These of the members do not vote. Where replicas may lie only operators' requests go to them.
    #[must_use]
    pub fn learners(mut self, learners: Vec<ReplicaId>) -> Self {
        self.learners = learners;
        self
    }
    /// Where replicas may lie: the membership from which the client begins, with the public keys of its voters, which are the members that do
    /// not learn. The client then follows changes of the members only if membership links prove them, and asks whichever member shows them.
    /// The cluster must be named, by its id or by certificates.
    #[must_use]
    pub fn known(mut self, membership: Option<Membership>) -> Self {
        self.config.membership = membership;
        self
    }
    /// The cluster to connect to; without it, the cluster of the first replica that answers.
    #[must_use]
    pub const fn cluster(mut self, cluster: ClusterId) -> Self {
        self.config.cluster = Some(cluster);
        self
    }
    /// The number of the era that everything else is about; the first one by default. The client follows the cluster to later eras by itself.
    #[must_use]
    pub const fn era(mut self, number: u64) -> Self {
        self.config.era = number;
        self
    }
    /// The faults that replicas may have; crash faults by default. It must be the cluster's fault model. With Byzantine faults requests go
    /// to all members, and an answer is believed once f+1 of them gave it, so the list of members must be complete. Later the client follows
    /// changes of the members of which f+1 of them tell, or those that are proved to it ([`Self::known`]).
    #[must_use]
    pub const fn fault_model(mut self, model: FaultModel) -> Self {
        self.config.faults = Faults::of(model);
        self
    }
    /// The cluster's `faults`, if its configuration has that key. Call it after [`Self::fault_model`].
    #[must_use]
    pub const fn faults(mut self, most: u32) -> Self {
        self.config.faults = self.config.faults.at_most(most);
        self
    }
    /// The votes of some replicas count more: the cluster's configuration has `heavy`. Call it after [`Self::fault_model`].
    #[must_use]
    pub const fn weighted(mut self) -> Self {
        self.config.faults = self.config.faults.weighted();
        self
    }
    /// Compares and combines the replies of replicas in another way than byte by byte; with Byzantine faults only.
    #[must_use]
    pub fn combiner(mut self, combiner: impl Combiner + 'static) -> Self {
        self.config.combiner = Some(Combines(Arc::new(combiner)));
        self
    }
    /// Tells this listener what each replica replies, whatever counts. Where replicas may lie, all of them then answer; those that would be
    /// silent send digests of long replies. With crash faults only the leader is asked, so only it replies. Without a listener nothing of
    /// this costs anything.
    #[must_use]
    pub fn reply_listener(mut self, listener: impl ReplyListener + 'static) -> Self {
        self.config.tells_replies = true;
        self.outlets.replies = Some(Arc::new(listener));
        self
    }
    /// Listens for letters, which the service sends to this client's sessions without being asked, and puts them into this queue. All
    /// replicas must have a version that knows letters. Limits: [`LetterLimits`](super::LetterLimits), by [`Self::configure`].
    #[must_use]
    pub fn letters(mut self, queue: LetterQueue) -> Self {
        self.config.letters.get_or_insert_default();
        self.outlets.letters = Some(queue);
        self
    }
    /// The id of this client; random by default. Limits on sessions hold per client.
    #[must_use]
    pub const fn client_id(mut self, client: ClientId) -> Self {
        self.config.client = client;
        self
    }
    /// How long a call, a read or an opening waits for its answer; 10 s by default.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
    /// How long the cluster keeps idle sessions; the client keeps them alive at a third of that time.
    #[must_use]
    pub const fn session_ttl(mut self, ttl: Duration) -> Self {
        self.config.session_ttl = Span::from_millis(ttl.as_millis() as u64);
        self
    }
    /// The most bytes of calls and reads that wait for answers; further ones end with `Overloaded` at once.
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
    /// Changes settings that have no method of their own.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Builds the client. It connects in the background; nothing is waited for.
    ///
    /// # Errors
    /// When the list of members is empty, longer than 64 or names one twice, requests can not be signed, or the system refuses a thread.
    pub fn build(self) -> Result<Client, BuildError> {
        let mut clients = self.build_many(1)?;
        clients.pop().ok_or(BuildError::Members("there is no client"))
    }

    /// Builds several clients, each with connections and sessions of its own, on one thread together. With certificates they are the same
    /// client to the replicas, else each has a random id.
    ///
    /// # Errors
    /// Those of [`Self::build`].
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
                "where no replica lies the answer of one is the answer: leave it out, or say FaultModel::Byzantine",
            ));
        }
        let may_lie = self.config.faults.may_lie();
        let votes = |(id, _): &&(ReplicaId, String)| !may_lie || !self.learners.contains(id);
        let voters: Vec<(ReplicaId, String)> = self.members.iter().filter(votes).cloned().collect();
        ids.retain(|id| voters.iter().any(|(voter, _)| voter == id));
        if ids.is_empty() {
            return Err(BuildError::Members("none of them votes"));
        }
        if self.config.membership.as_ref().is_some_and(|known| !known.voters().eq(ids.iter().copied())) {
            return Err(BuildError::Members("it names other voters than the membership that is known"));
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
            (_, None) => Config { seed: random(), client: ClientId::drawn(random()), ..self.config.clone() },
        };
        let mut configs: Vec<Config> = (0..count).map(config).collect();
        configs.iter_mut().try_for_each(|config| self.authentication.prepare(config))?;
        let handles = thread::start(configs, &voters, tls.as_ref(), &self.outlets).map_err(BuildError::Io)?;
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

    /// Builds a client for threads that wait.
    ///
    /// # Errors
    /// Those of [`Self::build`].
    pub fn build_blocking(self) -> Result<BlockingClient, BuildError> {
        self.build().map(BlockingClient::new)
    }
}
