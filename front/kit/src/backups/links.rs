//! The connections of an operator to all replicas at once. A thread for each connection reads; one inbox takes all messages.

use quorate::client::{AdminConnection, AdminSender, ClientFile, Credentials};
use quorate_types::ReplicaId;
use quorate_wire::{FrameKind, OutFrame, StateMessage};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long a replica may take to answer the greeting; after that it is not asked.
const CONNECT: Duration = Duration::from_secs(2);
/// How long a reader waits for a frame before it tries again.
const LOOK: Duration = Duration::from_secs(1);

/// What came from a replica.
#[derive(Debug)]
pub(super) enum Said {
    /// A message about the state.
    State(StateMessage),
    /// All questions before the last [`Links::mark`] are answered.
    Mark,
    /// The connection ended, for this reason.
    Gone(String),
}

/// A replica that can't be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// Its id.
    pub replica: ReplicaId,
    /// The address at which it was dialed.
    pub address: String,
    /// Why it can't be asked.
    pub why: String,
}

/// These replicas as text, each on a line of its own after a line end.
pub fn absent(absent: &[Absent]) -> String {
    absent.iter().map(|a| format!("\n  {} at {}: {}", a.replica, a.address, a.why)).collect()
}

/// The operator's certificate for the replicas; none where connections are plain.
pub(super) fn credentials(cluster: &ClientFile) -> Result<Option<Credentials>, String> {
    let Some(tls) = &cluster.tls else { return Ok(None) };
    let files = tls.for_operators().unwrap_or(&tls.client);
    Credentials::load(files).map(Some).map_err(|why| why.to_string())
}

/// Connections to the replicas.
pub(super) struct Links {
    senders: BTreeMap<ReplicaId, AdminSender>,
    inbox: Receiver<(ReplicaId, Said)>,
    addresses: BTreeMap<ReplicaId, String>,
    /// The replicas that can not be asked, or not any more.
    pub(super) absent: Vec<Absent>,
}

impl Links {
    /// Connects to every replica that answers.
    pub(super) fn connect(cluster: &ClientFile) -> Self {
        let (outbox, inbox) = channel();
        let addresses = cluster.members.iter().cloned().collect();
        let mut links = Self { senders: BTreeMap::new(), inbox, addresses, absent: Vec::new() };
        let credentials = credentials(cluster);
        let connected: Vec<_> = std::thread::scope(|scope| {
            let dial = |(replica, address): &(ReplicaId, String)| {
                let (replica, address) = (*replica, address.clone());
                let credentials = &credentials;
                let dial = move || match credentials {
                    Ok(own) => {
                        AdminConnection::connect(replica, &address, cluster.cluster, own.as_ref(), CONNECT)
                    }
                    Err(why) => Err(why.clone()),
                };
                (replica, scope.spawn(dial))
            };
            let dialed: Vec<_> = cluster.members.iter().map(dial).collect();
            let join = |(replica, thread): (ReplicaId, std::thread::ScopedJoinHandle<'_, _>)| {
                (replica, thread.join().unwrap_or_else(|_| Err("dialing it failed".to_owned())))
            };
            dialed.into_iter().map(join).collect()
        });
        for (replica, connection) in connected {
            match connection.and_then(|connection| listen(replica, connection, outbox.clone())) {
                Ok(sender) => drop(links.senders.insert(replica, sender)),
                Err(why) => links.lost(replica, why),
            }
        }
        links
    }

    /// The replicas that can be asked.
    pub(super) fn present(&self) -> Vec<ReplicaId> {
        self.senders.keys().copied().collect()
    }

    /// Sends a message to a replica. If that fails, the replica is not asked any more.
    pub(super) fn send(&mut self, to: ReplicaId, message: &StateMessage) -> bool {
        self.send_frame(to, &message.frame())
    }

    /// Asks a replica for [`Said::Mark`], which it sends after its answers to all earlier questions.
    pub(super) fn mark(&mut self, to: ReplicaId) -> bool {
        self.send_frame(to, &OutFrame::new(FrameKind::StatusRequest, &[], vec![]))
    }

    fn send_frame(&mut self, to: ReplicaId, frame: &OutFrame) -> bool {
        let Some(sender) = self.senders.get_mut(&to) else { return false };
        match sender.send(frame) {
            Ok(()) => true,
            Err(why) => {
                self.lost(to, why);
                false
            }
        }
    }

    /// The next message of any replica, if one comes in time.
    pub(super) fn next(&mut self, timeout: Duration) -> Option<(ReplicaId, Said)> {
        match self.inbox.recv_timeout(timeout) {
            Ok((from, said)) => {
                if let Said::Gone(why) = &said {
                    self.lost(from, why.clone());
                }
                Some((from, said))
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    fn lost(&mut self, replica: ReplicaId, why: String) {
        let address = self.addresses.get(&replica).cloned().unwrap_or_default();
        self.senders.remove(&replica);
        if self.absent.iter().all(|absent| absent.replica != replica) {
            self.absent.push(Absent { replica, address, why });
        }
    }
}

/// Reads on a thread of its own until the connection ends or the inbox is gone.
fn listen(
    replica: ReplicaId,
    mut connection: AdminConnection,
    outbox: Sender<(ReplicaId, Said)>,
) -> Result<AdminSender, String> {
    let sender = connection.sender()?;
    let read = move || {
        loop {
            let said = match connection.receive(LOOK) {
                Ok(None) => continue,
                Ok(Some(frame)) => match frame.kind {
                    FrameKind::Status => Said::Mark,
                    FrameKind::State => match StateMessage::decode(frame.payload) {
                        Ok(message) => Said::State(message),
                        Err(why) => Said::Gone(why.to_string()),
                    },
                    _ => continue,
                },
                Err(why) => Said::Gone(why),
            };
            let ends = matches!(said, Said::Gone(_));
            if outbox.send((replica, said)).is_err() || ends {
                return;
            }
        }
    };
    let thread = quorate_tls::start_thread(&format!("link-{replica}"), read);
    thread.map(|_| sender).map_err(|why| format!("no thread to listen to it: {why}"))
}
