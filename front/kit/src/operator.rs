//! Sends requests of operators to replicas, on behalf of a front's client: those of `quorate member` and `quorate drain`. They come from
//! this replica, with its own certificate. The front checks before that the client may do this.
//!
//! Tests: front/etcd-grpc/tests/all/members.rs, and with etcdctl front/cli/tests/all/etcd/.

use crate::seen::{Look, Seen};
use crate::worker::Worker;
use quorate::TlsFiles;
use quorate::client::{AdminConnection, Credentials, REFUSED};
use quorate_types::{ClusterId, ReplicaId};
use quorate_wire::{FrameKind, MemberRequest, OutFrame};
use std::time::Duration;
use tokio::time::Instant;

/// How long a replica may take to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// How long to look for a leader, and how long a leader may take to hand over.
const LEADER: Duration = Duration::from_secs(7);
/// How long a change of the members may take.
const CHANGE: Duration = Duration::from_secs(60);
/// How often the status is checked again.
const LOOK: Duration = Duration::from_millis(50);
/// After this time a leader is asked again to hand over.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperatorError {
    /// No replica leads.
    #[error("nobody leads: try again")]
    NoLeader,
    /// This member does not lead, and only the leader can hand over.
    #[error("this member does not lead: ask who does")]
    NotLeader,
    /// The replica that is to lead is no member that votes.
    #[error("the new leader is no member that votes: name one that does")]
    BadTarget,
    /// The member is unknown.
    #[error("there is no such member")]
    NoSuchMember,
    /// The time is over, but the request may be carried out yet.
    #[error("it took too long, and may be done yet: look before you ask again")]
    TimedOut,
    /// The member, or its front, is being stopped.
    #[error("this member is being stopped: ask another one")]
    Stopped,
    /// A replica refused, for this reason.
    #[error("{0}")]
    Refused(String),
}

/// Sends requests of operators.
#[derive(Clone)]
pub struct Operator {
    front: &'static str,
    cluster: ClusterId,
    own: ReplicaId,
    /// This replica's certificates; none where connections are plain.
    tls: Option<TlsFiles>,
    look: Look,
    worker: Worker,
}

/// A request to one replica.
struct Question {
    replica: u16,
    address: String,
    frame: OutFrame,
    answer: FrameKind,
}

impl Operator {
    /// An operator for clients of this front, in the name of the member `own` with these certificates (none where connections are plain).
    pub fn new(
        front: &'static str,
        (cluster, own): (ClusterId, ReplicaId),
        tls: Option<TlsFiles>,
        look: Look,
    ) -> Self {
        Self { front, cluster, own, tls, look, worker: Worker::new() }
    }

    /// The leader's status of the cluster.
    ///
    /// # Errors
    /// When no leader answers in time.
    pub async fn standing(&self) -> Result<Seen, OperatorError> {
        let text = self.ask_leader(&|| status_request(), FrameKind::Status).await?;
        Seen::of_status(&text).ok_or(OperatorError::NoLeader)
    }

    /// Asks for a change of the members, and waits until it is done.
    ///
    /// # Errors
    /// When they are not changed, or not yet.
    pub async fn change(&self, request: MemberRequest) -> Result<(), OperatorError> {
        let before = self.look.now().await.unwrap_or_default();
        let text = self.ask_leader(&|| request.frame(), FrameKind::MemberReply).await?;
        if text.starts_with("plan ") {
            let why =
                "where replicas may lie, administrators sign changes of the members: use `quorate member`";
            return Err(OperatorError::Refused(why.to_owned()));
        }
        let number = text.strip_prefix("begun m").and_then(|number| number.parse().ok());
        let number: u64 = number.ok_or(OperatorError::Refused(text.clone()))?;
        tracing::info!("a client of {} has the members changed: {request:?}, {text}", self.front);
        let until = Instant::now() + CHANGE;
        while !self.is_over(number, &before).await {
            if Instant::now() >= until {
                return Err(OperatorError::TimedOut);
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Whether one of the members reports the change as done. A member that was removed may never hear of it.
    async fn is_over(&self, number: u64, before: &Seen) -> bool {
        let seen = self.look.now().await.unwrap_or_default();
        let is_over = |seen: &Seen| seen.membership >= number && !seen.is_changing;
        if is_over(&seen) {
            return true;
        }
        for member in before.members.iter().filter(|member| member.replica != self.own.number()) {
            let (replica, address) = (member.replica, member.address.clone());
            let asked = Question { replica, address, frame: status_request(), answer: FrameKind::Status };
            if let Ok(text) = self.ask(asked).await
                && Seen::of_status(&text).is_some_and(|seen| is_over(&seen))
            {
                return true;
            }
        }
        false
    }

    /// Asks this replica to hand over its leadership, and waits until `to` leads.
    ///
    /// # Errors
    /// When `to` does not lead, or not yet.
    pub async fn move_leader(&self, to: u16) -> Result<(), OperatorError> {
        let own = self.own.number();
        let seen = self.look.now().await.ok_or(OperatorError::Stopped)?;
        if seen.leader != Some(own) {
            return Err(OperatorError::NotLeader);
        }
        if seen.member(to).is_none_or(|member| member.learner) {
            return Err(OperatorError::BadTarget);
        }
        let address =
            seen.member(own).map(|member| member.address.clone()).ok_or(OperatorError::NoSuchMember)?;
        let until = Instant::now() + LEADER;
        let mut asked = None::<Instant>;
        loop {
            let leader = self.look.now().await.and_then(|seen| seen.leader);
            if leader == Some(to) {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(OperatorError::TimedOut);
            }
            if leader == Some(own) && asked.is_none_or(|at| at.elapsed() >= ASK_AGAIN) {
                asked = Some(Instant::now());
                let frame = OutFrame::new(FrameKind::TransferRequest, &to.to_le_bytes(), vec![]);
                let (replica, address) = (own, address.clone());
                let question = Question { replica, address, frame, answer: FrameKind::TransferReply };
                self.ask(question).await.map_err(OperatorError::Refused)?;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Asks the leader. Asks again if another replica leads by now, or none for a moment.
    async fn ask_leader(
        &self,
        frame: &(dyn Fn() -> OutFrame + Sync),
        answer: FrameKind,
    ) -> Result<String, OperatorError> {
        let until = Instant::now() + LEADER;
        loop {
            let seen = self.look.now().await.ok_or(OperatorError::Stopped)?;
            let leader = seen.leader.and_then(|leader| seen.member(leader));
            let (why, again) = match leader {
                None => (OperatorError::NoLeader, true),
                Some(leader) => {
                    let (replica, address) = (leader.replica, leader.address.clone());
                    match self.ask(Question { replica, address, frame: frame(), answer }).await {
                        Ok(text) => return Ok(text),
                        Err(why) => {
                            let again = ["leads, ask it", "try again"].iter().any(|text| why.contains(text));
                            let front = self.front;
                            tracing::debug!("replica {replica} refuses what a client of {front} asks: {why}");
                            (OperatorError::Refused(why), again)
                        }
                    }
                }
            };
            if !again || Instant::now() >= until {
                return Err(why);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn ask(&self, question: Question) -> Result<String, String> {
        let (cluster, tls) = (self.cluster, self.tls.clone());
        let asked = self.worker.run(move || ask(cluster, tls.as_ref(), &question)).await;
        asked.unwrap_or_else(|| Err("it is being stopped, try again".to_owned()))
    }
}

fn status_request() -> OutFrame {
    OutFrame::new(FrameKind::StatusRequest, &[], vec![])
}

/// Asks one question on a connection of its own; such questions are rare.
fn ask(cluster: ClusterId, tls: Option<&TlsFiles>, question: &Question) -> Result<String, String> {
    let credentials = tls.map(Credentials::load).transpose().map_err(|why| why.to_string())?;
    let Question { replica, address, frame, answer } = question;
    let replica = ReplicaId::new(*replica);
    let dialed = AdminConnection::connect(replica, address, cluster, credentials.as_ref(), ANSWER);
    // A replica that refuses this connection would refuse the next one, too.
    let again = |why: String| if why.starts_with(REFUSED) { why } else { format!("{why}, try again") };
    let mut connection = dialed.map_err(again)?;
    // The connection ends when its sender is dropped.
    let mut sender = connection.sender()?;
    sender.send(frame)?;
    let until = std::time::Instant::now() + ANSWER;
    while let Some(frame) = connection.receive(until.saturating_duration_since(std::time::Instant::now()))? {
        if frame.kind == *answer {
            let text = String::from_utf8_lossy(&frame.payload).into_owned();
            return text.strip_prefix("error: ").map_or(Ok(text.clone()), |why| Err(why.to_owned()));
        }
    }
    Err("no answer in time, try again".to_owned())
}
