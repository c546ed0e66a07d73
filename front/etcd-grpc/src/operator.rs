//! Sends operators' requests for clients of etcd that may do that: with authentication, users with the role root; without it, clients with
//! an operator's certificate; where connections are plain, all. Replies are translated into etcd's texts.
//!
//! Tests: `tests/all/members.rs`, and with etcdctl `front/cli/tests/all/etcd/`.

use crate::asker::Asker;
use crate::backend::Backend;
use crate::errors::{
    FAILED_PRECONDITION, INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, Refusal, UNAVAILABLE,
};
use quorate_etcd::proto::{Fields, Value};
use quorate_etcd::{AuthQuery, Query};
use quorate_kit::OperatorError;

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

/// Sends operators' requests for callers that may do that.
pub(crate) struct Operator {
    /// Whether clients show certificates.
    pub(crate) is_safe: bool,
    pub(crate) backend: Backend,
    pub(crate) asks: quorate_kit::Operator,
}

impl Operator {
    /// Whether the caller may do what operators do.
    pub(crate) async fn allow(&self, asker: &Asker) -> Result<(), Refusal> {
        let backend = self.backend.on_behalf_of(asker.clone());
        backend.may(AuthQuery::IsRoot).await?;
        if !self.is_safe || asker.is_operator() {
            return Ok(());
        }
        let status = backend.look(&Query::Auth(AuthQuery::Status)).await?;
        let is_on = Fields::of(&status.body).any(|field| field == Ok((2, Value::Number(1))));
        if is_on { Ok(()) } else { Err(NO_OPERATOR) }
    }
}

impl From<OperatorError> for Refusal {
    fn from(error: OperatorError) -> Self {
        match error {
            OperatorError::NoLeader => NO_LEADER,
            OperatorError::NotLeader => NOT_LEADER,
            OperatorError::BadTarget => BAD_TARGET,
            OperatorError::NoSuchMember => NOT_FOUND_MEMBER,
            OperatorError::TimedOut => Self::TIMED_OUT,
            OperatorError::Stopped => Self::STOPPED,
            OperatorError::Refused(why) => refusal(&why),
        }
    }
}

/// A replica's refusal, with etcd's text where etcd has one: client libraries turn that back into an error.
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
