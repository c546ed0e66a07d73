//! Identities, as the cluster's own authority certifies them. An identity stands in a certificate as a URI:
//!
//! ```text
//! quorate://<cluster id>/replica/3
//! quorate://<cluster id>/client/shop
//! quorate://<cluster id>/admin/alice
//! ```
//!
//! Tests: `identity/tests.rs`. [`Identity::parse`] returns for any bytes, and an identity that it accepts is written back as the same URI.

use crate::{ClientId, ClusterId, ReplicaId, planted};
use std::fmt;

const SCHEME: &str = "quorate://";
/// A name of a client or operator has at most this many bytes.
const NAME_BYTES_MAX: usize = 64;
/// In a client's id, the bits above these follow from its name alone; these bits follow from its name and a number of its own.
const CLIENT_BITS: u32 = 40;
/// How many digests are computed for one id. The more there are, the harder it is to search for a number that gives the id of another name.
const STEPS: u32 = 1 << 12;
/// The context of these digests.
const IDS: &str = "quorate 2026 ids of clients";

/// A replica, client or operator of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its role and name.
    pub holder: Holder,
}

/// A role, and its holder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// A replica.
    Replica(ReplicaId),
    /// A client, or many under one name.
    Client(Name),
    /// An operator: may do everything that a client may, and manage the cluster.
    Admin(Name),
}

impl Holder {
    /// The id of a client of this holder, as [`Name::client_id`]. A replica is a client of its own, too; no name has its ids.
    pub fn client_id(&self, own: ClientId) -> ClientId {
        self.name().client_id(own)
    }

    /// Whether the id `client` was made for this holder with the number `own`.
    pub fn made(&self, client: ClientId, own: ClientId) -> bool {
        planted("ids-unproven") || self.client_id(own) == client
    }

    fn name(&self) -> Name {
        match self {
            // No name that can be parsed.
            Self::Replica(replica) => Name(format!("replica/{}", replica.number()).into()),
            Self::Client(name) | Self::Admin(name) => name.clone(),
        }
    }
}

/// The name of a client or operator: 1 to 64 letters, digits, `.`, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

impl Name {
    /// The name in this text, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let fits = (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(plain);
        // A name is used as the name of a file, too.
        (fits && text.bytes().any(|byte| byte != b'.')).then(|| Self(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id of a client of this name with a number of its own. The upper bits follow from the name alone, the lower ones from both. A
    /// client that shows the number thus shows that the id was made for this name. To find such a number for another name whose upper bits
    /// agree takes about 2^52 digests.
    pub fn client_id(&self, own: ClientId) -> ClientId {
        let mut hasher = blake3::Hasher::new_derive_key(IDS);
        hasher.update(&own.number().to_le_bytes());
        hasher.update(self.0.as_bytes());
        let mut digest = hasher.finalize();
        for _ in 0..STEPS {
            digest = blake3::hash(digest.as_bytes());
        }
        let low = digest.as_bytes().first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        ClientId::drawn(self.space() << CLIENT_BITS | low & ((1 << CLIENT_BITS) - 1))
    }

    /// FNV-1a, folded to the upper bits. It need not withstand malice, since the number shows for whom an id was made.
    fn space(&self) -> u64 {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = self.0.bytes().fold(0xcbf2_9ce4_8422_2325, step);
        (hash ^ hash >> 24 ^ hash >> 48) & ((1 << (64 - CLIENT_BITS)) - 1)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Identity {
    /// Reads a URI.
    pub fn parse(uri: &str) -> Option<Self> {
        let mut parts = uri.strip_prefix(SCHEME)?.split('/');
        let (cluster, role, who) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let holder = match role {
            "replica" => Holder::Replica(ReplicaId::new(who.parse().ok()?)),
            "client" => Holder::Client(Name::parse(who)?),
            "admin" => Holder::Admin(Name::parse(who)?),
            _ => return None,
        };
        let identity = Self { cluster: ClusterId::parse(cluster)?, holder };
        // One way to write each: `+3` or upper-case digits would be others.
        let numbered = !matches!(identity.holder, Holder::Replica(replica) if replica.number() == 0);
        (numbered && identity.uri() == uri).then_some(identity)
    }

    /// Writes the URI.
    pub fn uri(&self) -> String {
        let cluster = self.cluster;
        match &self.holder {
            Holder::Replica(replica) => format!("{SCHEME}{cluster}/replica/{}", replica.number()),
            Holder::Client(name) => format!("{SCHEME}{cluster}/client/{name}"),
            Holder::Admin(name) => format!("{SCHEME}{cluster}/admin/{name}"),
        }
    }
}

/// `replica 3`, `client shop` or `admin alice`
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replica(replica) => write!(f, "replica {}", replica.number()),
            Self::Client(name) => write!(f, "client {name}"),
            Self::Admin(name) => write!(f, "admin {name}"),
        }
    }
}

/// `replica 3 of cluster 0123...`
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of cluster {}", self.holder, self.cluster)
    }
}

#[cfg(test)]
mod tests;
