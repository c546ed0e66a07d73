//! Who somebody is, as the cluster's own authority vouches for it. It stands in certificates as a URI:
//!
//! ```text
//! quorate://<cluster id>/replica/3
//! quorate://<cluster id>/client/shop
//! quorate://<cluster id>/admin/alice
//! ```
//!
//! Tests: `identity/tests.rs`; whatever bytes come, [`Identity::parse`] returns, and what it takes it writes back alike.

use crate::{ClientId, ClusterId, ReplicaId, planted};
use std::fmt;

const SCHEME: &str = "quorate://";
/// No name of a client or operator is longer, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// The bits of a client's id above these follow from its name alone, these from its name and a number of its own.
const CLIENT_BITS: u32 = 40;
/// A digest is computed so often for them: who looks for a number that makes another name's id has that much more to do for each.
const STEPS: u32 = 1 << 12;
/// What such digests are for.
const IDS: &str = "quorate 2026 ids of clients";

/// Somebody who takes part in a cluster, or uses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Which cluster.
    pub cluster: ClusterId,
    /// Who.
    pub holder: Holder,
}

/// In which role, and as whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// A replica.
    Replica(ReplicaId),
    /// A client, or many under one name.
    Client(Name),
    /// An operator: may do everything that a client may, and what the cluster's keepers do.
    Admin(Name),
}

impl Holder {
    /// The id of a client of this holder, as [`Name::client_id`]; a replica is a client of its own, too, and no name has its ids.
    pub fn client_id(&self, own: ClientId) -> ClientId {
        self.name().client_id(own)
    }

    /// Whether a client of this holder made that id, with this number of its own.
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
    /// Takes a text that is a name.
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

    /// The id of a client of this name with a number of its own. The upper bits follow from the name alone, the lower ones from both: who shows
    /// that number shows that the id was made for this name. For another name that agrees in the upper bits such a number is found
    /// after about 2^52 digests.
    pub fn client_id(&self, own: ClientId) -> ClientId {
        let mut hasher = blake3::Hasher::new_derive_key(IDS);
        hasher.update(&own.number().to_le_bytes());
        hasher.update(self.0.as_bytes());
        let mut digest = hasher.finalize();
        for _ in 0..STEPS {
            digest = blake3::hash(digest.as_bytes());
        }
        let low = digest.as_bytes().first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        ClientId::new(self.space() << CLIENT_BITS | low & ((1 << CLIENT_BITS) - 1))
    }

    /// FNV-1a, folded to the upper bits. It need not withstand malice: who made an id is shown otherwise.
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
