//! What operators do, asked of the replicas on behalf of a client that may: the same requests that `quorate member` and `quorate drain`
//! send, from this replica, with its own certificate.
//!
//! Who may: with users, whoever has the role root; without, whoever shows an operator's certificate; where connections are plain,
//! everybody. Tests: `tests/members.rs`, and with etcdctl `front/cli/tests/all/etcd/`.

use crate::asker::Asker;
use crate::backend::Backend;
use crate::errors::{
    FAILED_PRECONDITION, INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, Refusal, UNAVAILABLE,
};
use crate::password::Worker;
use crate::seen::{Look, Seen};
use quorate::TlsFiles;
use quorate::client::{AdminConnection, Credentials, REFUSED};
use quorate_etcd::proto::{Fields, Value};
use quorate_etcd::{AuthQuery, Query};
use quorate_types::{ClusterId, ReplicaId};
use quorate_wire::{FrameKind, MemberRequest, OutFrame};
use std::time::Duration;
use tokio::time::Instant;

/// How long a replica may take to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// How long somebody is looked for who leads, and how long a leader may take to hand over.
const LEADER: Duration = Duration::from_secs(7);
/// How long a change of the members may take.
const CHANGE: Duration = Duration::from_secs(60);
/// How often we look again.
const LOOK: Duration = Duration::from_millis(50);
/// When a leader is asked once more to hand over.
const ASK_AGAIN: Duration = Duration::from_secs(1);

const NO_LEADER: Refusal = Refusal::new(UNAVAILABLE, "etcdserver: no leader");
const NOT_LEADER: Refusal = Refusal::new(FAILED_PRECONDITION, "etcdserver: not leader");
const BAD_TARGET: Refusal = Refusal::new(FAILED_PRECONDITION, "etcdserver: bad leader transferee");
const NO_OPERATOR: Refusal = Refusal::new(
    PERMISSION_DENIED,
    "etcdserver: permission denied: this takes an operator's certificate, or, with users, the role root",
);
pub(crate) const NOT_FOUND_MEMBER: Refusal = Refusal::new(NOT_FOUND, "etcdserver: member not found");
pub(crate) const BAD_URLS: Refusal =
    Refusal::new(INVALID_ARGUMENT, "etcdserver: given member URLs are invalid");

pub(crate) struct Operator {
    pub(crate) cluster: ClusterId,
    pub(crate) own: ReplicaId,
    /// What this replica shows to others; nothing where connections are plain.
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) look: Look,
    pub(crate) backend: Backend,
    pub(crate) worker: Worker,
}

/// What is asked of a replica.
struct Question {
    replica: u16,
    address: String,
    frame: OutFrame,
    answer: FrameKind,
}

impl Operator {
    /// Whether whoever asks may do what operators do.
    pub(crate) async fn allow(&self, asker: &Asker) -> Result<(), Refusal> {
        let backend = self.backend.on_behalf_of(asker.clone());
        backend.may(AuthQuery::IsRoot).await?;
        if self.tls.is_none() || asker.is_operator() {
            return Ok(());
        }
        let status = backend.look(&Query::Auth(AuthQuery::Status)).await?;
        let is_on = Fields::of(&status.body).any(|field| field == Ok((2, Value::Number(1))));
        if is_on { Ok(()) } else { Err(NO_OPERATOR) }
    }

    /// What the leader says of the cluster.
    pub(crate) async fn standing(&self) -> Result<Seen, Refusal> {
        let text = self.ask_leader(&|| status_request(), FrameKind::Status).await?;
        Seen::of_status(&text).ok_or(NO_LEADER)
    }

    /// Has the members changed, and waits until that is over.
    pub(crate) async fn change(&self, request: MemberRequest) -> Result<(), Refusal> {
        let before = self.look.now().await.unwrap_or_default();
        let text = self.ask_leader(&|| request.frame(), FrameKind::MemberReply).await?;
        let number = text.strip_prefix("begun m").and_then(|number| number.parse().ok());
        let number: u64 = number.ok_or_else(|| refusal(&text))?;
        tracing::info!("a client of etcd has the members changed: {request:?}, {text}");
        let until = Instant::now() + CHANGE;
        while !self.is_over(number, &before).await {
            if Instant::now() >= until {
                return Err(Refusal::TIMED_OUT);
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Whether one of the members says so. Whoever was removed may never hear of it.
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

    /// Has this replica hand over what it leads.
    pub(crate) async fn move_leader(&self, to: u16) -> Result<(), Refusal> {
        let own = self.own.number();
        let seen = self.look.now().await.ok_or(Refusal::STOPPED)?;
        if seen.leader != Some(own) {
            return Err(NOT_LEADER);
        }
        if seen.member(to).is_none_or(|member| member.learner) {
            return Err(BAD_TARGET);
        }
        let address = seen.member(own).map(|member| member.address.clone()).ok_or(NOT_FOUND_MEMBER)?;
        let until = Instant::now() + LEADER;
        let mut asked = None::<Instant>;
        loop {
            let leader = self.look.now().await.and_then(|seen| seen.leader);
            if leader == Some(to) {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(Refusal::TIMED_OUT);
            }
            if leader == Some(own) && asked.is_none_or(|at| at.elapsed() >= ASK_AGAIN) {
                asked = Some(Instant::now());
                let frame = OutFrame::new(FrameKind::TransferRequest, &to.to_le_bytes(), vec![]);
                let (replica, address) = (own, address.clone());
                let question = Question { replica, address, frame, answer: FrameKind::TransferReply };
                self.ask(question).await.map_err(|why| refusal(&why))?;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Asks whoever leads, again if that is somebody else by now, or nobody for a moment.
    async fn ask_leader(
        &self,
        frame: &(dyn Fn() -> OutFrame + Sync),
        answer: FrameKind,
    ) -> Result<String, Refusal> {
        let until = Instant::now() + LEADER;
        loop {
            let seen = self.look.now().await.ok_or(Refusal::STOPPED)?;
            let leader = seen.leader.and_then(|leader| seen.member(leader));
            let (why, again) = match leader {
                None => (NO_LEADER, true),
                Some(leader) => {
                    let (replica, address) = (leader.replica, leader.address.clone());
                    match self.ask(Question { replica, address, frame: frame(), answer }).await {
                        Ok(text) => return Ok(text),
                        Err(why) => {
                            let again = ["leads, ask it", "try again"].iter().any(|text| why.contains(text));
                            tracing::debug!("replica {replica} refuses what a client of etcd asks: {why}");
                            (refusal(&why), again)
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

/// One question on a connection of its own; such questions are rare.
fn ask(cluster: ClusterId, tls: Option<&TlsFiles>, question: &Question) -> Result<String, String> {
    let credentials = tls.map(Credentials::load).transpose().map_err(|why| why.to_string())?;
    let Question { replica, address, frame, answer } = question;
    let replica = ReplicaId::new(*replica);
    let dialed = AdminConnection::connect(replica, address, cluster, credentials.as_ref(), ANSWER);
    // A replica that refuses us does so again.
    let again = |why: String| if why.starts_with(REFUSED) { why } else { format!("{why}, try again") };
    let mut connection = dialed.map_err(again)?;
    // The connection ends with what sends on it.
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

/// What a replica says, in etcd's words where it has any: client libraries turn those back into errors.
fn refusal(why: &str) -> Refusal {
    static KNOWN: [(&str, Refusal); 9] = [
        ("is no member", NOT_FOUND_MEMBER),
        ("votes already", precondition("etcdserver: can only promote a learner member")),
        (
            "has not caught up",
            precondition("etcdserver: can only promote a learner member which is in sync with leader"),
        ),
        ("no majority", NOT_ENOUGH),
        ("nobody who votes", NOT_ENOUGH),
        ("was never connected", NOT_ENOUGH),
        ("is reached at", precondition("etcdserver: Peer URLs already exists")),
        ("is no address", BAD_URLS),
        ("nobody leads", NO_LEADER),
    ];
    let known = KNOWN.iter().find(|(text, _)| why.contains(text));
    known.map_or_else(
        || {
            let code = if why.contains("try again") { UNAVAILABLE } else { FAILED_PRECONDITION };
            Refusal { code, text: format!("etcdserver: {why}").into() }
        },
        |(_, refusal)| refusal.clone(),
    )
}

const NOT_ENOUGH: Refusal =
    precondition("etcdserver: re-configuration failed due to not enough started members");

const fn precondition(text: &'static str) -> Refusal {
    Refusal::new(FAILED_PRECONDITION, text)
}
