//! Another Quorate cluster as the oracle: it runs the service `service`.

use crate::PATIENCE;
use crate::service::{Ask, decode_reply};
use bytes::Bytes;
use quorate::client::{BlockingClient, BlockingSession, ClientFile, ReadOptions};
use quorate_runtime::{Group, Held, Oracle};
use quorate_types::{ClusterId, InstanceId};
use std::path::Path;

/// A client of that cluster.
pub(crate) struct Own {
    client: BlockingClient,
    cluster: ClusterId,
    session: Option<BlockingSession>,
    /// Whether it was told who the members are.
    introduced: bool,
}

impl Own {
    pub(crate) fn new(cluster: &str, client: &Path) -> Result<Self, String> {
        let file = ClientFile::read(client).map_err(|why| why.to_string())?;
        if ClusterId::parse(cluster) != Some(file.cluster) {
            return Err(format!(
                "{} is a client of cluster {}, and [oracle] names cluster {cluster}: name the right one of them",
                client.display(),
                file.cluster
            ));
        }
        if file.fault_model.may_lie() {
            return Err(format!(
                "{} is a client of a cluster whose replicas may lie: an oracle survives crash faults, and is believed",
                client.display()
            ));
        }
        let built = file.builder().timeout(PATIENCE).build_blocking();
        let client = built.map_err(|why| format!("{}: {why}", client.display()))?;
        Ok(Self { client, cluster: file.cluster, session: None, introduced: false })
    }

    /// What the leader knows.
    fn read(&self, ask: &Ask) -> Result<Held, String> {
        let result = self.client.read(ask.encode(), ReadOptions::STRONG).map_err(|why| why.to_string())?;
        decode_reply(&result.body)
    }

    fn command(&mut self, ask: &Ask) -> Result<Held, String> {
        let session = match self.session.take() {
            Some(session) => session,
            None => self.client.open_session().map_err(|why| why.to_string())?,
        };
        // A session whose call failed may be over; another one is opened for the next call.
        let replies = session.call_one(&ask.encode()).map_err(|why| why.to_string())?;
        self.session = Some(session);
        decode_reply(replies.first().ok_or("an answer without a reply")?)
    }
}

impl Oracle for Own {
    fn serve(&mut self, register: &str, swap: Option<Held>) -> Result<Held, String> {
        let name = Bytes::copy_from_slice(register.as_bytes());
        match swap {
            Some((version, value)) => self.command(&Ask::Swap { name, version, value }),
            None => self.read(&Ask::Read { name }),
        }
    }

    fn judge(&mut self, group: &Group, instance: InstanceId, claim: Option<Bytes>) -> Result<Held, String> {
        let group = group.encode();
        if claim.is_none() && self.introduced {
            return self.read(&Ask::Look { instance, group });
        }
        // Whoever comes first says who the members are: better a replica that starts than one that lies later.
        let held = self.command(&Ask::Judge { instance, group, claim: claim.unwrap_or_default() })?;
        self.introduced = true;
        Ok(held)
    }

    fn is_a_judge(&self) -> bool {
        true
    }

    fn name(&self) -> String {
        format!("the Quorate cluster {}", self.cluster)
    }
}
