//! Evidence that can be carried: statements that one member signed, and that no honest member signs together, or at all.
//!
//! What a replica sees on its own links convinces nobody else, since a link proves nothing to others. What is signed does: whoever knows the
//! member's public key comes to the same result as the replica that saw it. So evidence holds the statements in full. It is made only of
//! ACCEPTs and COLLECTs; STOPs for whatever views never contradict each other, and nothing else is signed by the one who shows it.
//!
//! A false accusation would be worse than a liar that goes free. [`Evidence::contradiction`] says exactly what no honest member does, and
//! docs/protocols/mod_smart.md (L161-L171) why: not after a restart, not after a checkpoint, in no later view, membership or instance.
//!
//! `format` has the bytes (docs/formats/evidence.md). `testimony` beside this folder finds what contradicts.
//! INV-SMART-13. Tests: tests.rs, ../tests/testimony.rs.

mod format;
#[cfg(test)]
mod tests;

use super::message::{Collect, WRITES_MAX};
use super::statements::Statements;
use super::tenures::{number_of, views_from};
use quorate_auth::{Authenticator, PublicKey, Signature, Text};
use quorate_types::{ClusterId, Digest, InstanceId, MembershipId, ReplicaId, Slot, View, planted};
use std::fmt;

/// Which rule the statements break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvidenceKind {
    /// Two ACCEPTs of different values for one slot in one view.
    TwoAccepts,
    /// Two COLLECTs that can not both be true.
    TwoStatements,
    /// An ACCEPT, and a COLLECT that can not be true beside it.
    AcceptDenied,
    /// A COLLECT that can not be true, whatever its signer did before.
    ImpossibleStatement,
}

impl EvidenceKind {
    /// All kinds.
    pub const ALL: [Self; 4] =
        [Self::TwoAccepts, Self::TwoStatements, Self::AcceptDenied, Self::ImpossibleStatement];

    /// Its name in files' names and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TwoAccepts => "two-accepts",
            Self::TwoStatements => "two-statements",
            Self::AcceptDenied => "accept-denied",
            Self::ImpossibleStatement => "impossible-statement",
        }
    }
}

/// Something that a member signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// It accepts a value.
    Accept(SignedAccept),
    /// What it knew when it entered a view.
    Collect(View, Collect),
}

/// A signed ACCEPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedAccept {
    /// The view.
    pub view: View,
    /// The slot.
    pub slot: Slot,
    /// The value.
    pub digest: Digest,
    /// The member's signature.
    pub signature: Signature,
}

impl Statement {
    /// The view in which it was signed.
    pub const fn view(&self) -> View {
        match self {
            Self::Accept(accept) => accept.view,
            Self::Collect(view, _) => *view,
        }
    }
    /// The slot that it is about: that of the accept, or the first one that its signer had not decided.
    pub const fn slot(&self) -> Slot {
        match self {
            Self::Accept(accept) => accept.slot,
            Self::Collect(_, collect) => collect.decided.next(),
        }
    }
    /// The signature under it.
    pub const fn signature(&self) -> &Signature {
        match self {
            Self::Accept(accept) => &accept.signature,
            Self::Collect(_, collect) => &collect.signature,
        }
    }
}

/// Statements that show that a member did what no honest member does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The cluster.
    pub cluster: ClusterId,
    /// The membership in which the member signed.
    pub membership: MembershipId,
    /// The instance.
    pub instance: InstanceId,
    /// The member.
    pub accused: ReplicaId,
    /// The rule that it broke.
    pub kind: EvidenceKind,
    /// The one or two statements, the earlier one first where one is.
    pub statements: Vec<Statement>,
    /// The public key under which the signatures are right, which is the member's in that membership, as the finder knows it; none in simulators. Whoever checks this compares it with
    /// the key that he knows.
    pub key: Option<PublicKey>,
}

/// Why something proves nothing.
pub type Doubt = &'static str;

impl Evidence {
    /// The statement that completes it: the last one.
    ///
    /// # Panics
    /// When there is none; decoded evidence and evidence from the protocol has one.
    pub fn last(&self) -> &Statement {
        self.statements.last().expect("evidence holds a statement")
    }

    /// Whether no honest member signs these statements, if this one signed them. [mod_smart L162-L166]
    ///
    /// # Errors
    /// When an honest member may sign them, with the reason.
    pub fn contradiction(&self) -> Result<(), Doubt> {
        self.are_of_one()?;
        match (self.kind, &self.statements[..]) {
            (EvidenceKind::TwoAccepts, [Statement::Accept(one), Statement::Accept(other)]) => {
                accepts_contradict(one, other)
            }
            (EvidenceKind::AcceptDenied, [Statement::Accept(accept), Statement::Collect(view, collect)]) => {
                accept_is_denied(accept, *view, collect)
            }
            (EvidenceKind::TwoStatements, [Statement::Collect(v, one), Statement::Collect(w, other)]) => {
                statements_contradict((*v, one), (*w, other))
            }
            (EvidenceKind::ImpossibleStatement, [Statement::Collect(view, collect)]) => {
                is_impossible(*view, collect, self.membership)
            }
            _ => Err("the statements are not those that this kind of evidence is made of"),
        }
    }

    /// Whether all statements are of the accused, in views of the membership. [mod_smart L161]
    fn are_of_one(&self) -> Result<(), Doubt> {
        for statement in &self.statements {
            if statement.view() < View::FIRST || number_of(statement.view()) != self.membership {
                return Err("a statement is of a view that this membership does not have");
            }
            if matches!(statement, Statement::Collect(_, collect) if collect.from != self.accused) {
                return Err("a statement is another member's");
            }
        }
        Ok(())
    }

    /// Exactly what was signed.
    pub fn signed_text(&self, statement: &Statement) -> Text {
        let Self { cluster, membership, instance, .. } = *self;
        let statements = Statements { cluster, membership, instance };
        match statement {
            Statement::Accept(SignedAccept { view, slot, digest, .. }) => {
                statements.accept(*view, *slot, *digest)
            }
            Statement::Collect(view, collect) => statements.collect(*view, collect),
        }
    }

    fn proves(&self, signed: impl Fn(&Text, &Signature) -> bool) -> Result<(), Doubt> {
        self.contradiction()?;
        let right = |statement: &Statement| signed(&self.signed_text(statement), statement.signature());
        if self.statements.iter().all(right) { Ok(()) } else { Err("a signature is wrong") }
    }

    /// Whether this proves that the owner of this key is not honest. [mod_smart L167]
    ///
    /// # Errors
    /// When it does not, with the reason.
    pub fn verify(&self, key: &PublicKey) -> Result<(), Doubt> {
        self.proves(|text, signature| key.verifies(&text.bytes, signature))
    }

    /// The same, for a replica, which knows the members' keys.
    ///
    /// # Errors
    /// When it proves nothing, with the reason.
    pub fn verify_as_member(&self, auth: &dyn Authenticator) -> Result<(), Doubt> {
        self.proves(|text, signature| auth.verify(self.accused, text, signature))
    }
}

impl fmt::Display for Evidence {
    /// What it proves, in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (accused, view, slot) = (self.accused, self.last().view().number(), self.last().slot().number());
        match self.kind {
            EvidenceKind::TwoAccepts => {
                write!(f, "{accused} signed two different accepts for slot {slot} in view {view}")?;
            }
            EvidenceKind::TwoStatements => {
                write!(
                    f,
                    "{accused} signed two statements about slot {slot}, up to view {view}, of which one is false"
                )?;
            }
            EvidenceKind::AcceptDenied => {
                let accept = &self.statements[0];
                let (of, before) = (accept.slot().number(), accept.view().number());
                write!(
                    f,
                    "{accused} signed an accept for slot {of} in view {before}, and denied it in view {view}"
                )?;
            }
            EvidenceKind::ImpossibleStatement => {
                write!(
                    f,
                    "{accused} signed a statement about slot {slot} in view {view} that can not be true"
                )?;
            }
        }
        match self.instance.number() {
            1 => Ok(()),
            instance => write!(f, " (instance {instance})"),
        }
    }
}

/// Two accepts of one slot in one view. [mod_smart L162]
pub(super) fn accepts_contradict(one: &SignedAccept, other: &SignedAccept) -> Result<(), Doubt> {
    if one.slot != other.slot || (one.view != other.view && !planted("smart-evidence-of-any-view")) {
        return Err("the accepts are of different slots or views, so they may be for different values");
    }
    if one.digest == other.digest {
        return Err("both accepts are for the same value");
    }
    Ok(())
}

/// The votes that a statement names, on the slot after the last decided one.
fn votes(collect: &Collect) -> impl Iterator<Item = &(View, Digest)> {
    collect.writes.iter().chain(&collect.lock)
}

/// A statement that its signer can not have come to, whatever happened. One of a view in which its signer voted already is possible, after a
/// restart. [mod_smart L163]
fn is_impossible(view: View, collect: &Collect, membership: MembershipId) -> Result<(), Doubt> {
    let others = |vote: &&(View, Digest)| vote.0 > view || vote.0 < views_from(membership);
    let twice = |vote: &(View, Digest)| {
        collect.writes.iter().filter(|write| write.1 == vote.1).count() > 1
            || votes(collect).any(|other| other.0 == vote.0 && other.1 != vote.1)
    };
    if votes(collect).any(|vote| others(&vote) || twice(vote)) {
        return Ok(());
    }
    Err("an honest member may say this")
}

/// An accept, and a statement that does not fit it. [mod_smart L164]
fn accept_is_denied(accept: &SignedAccept, view: View, collect: &Collect) -> Result<(), Doubt> {
    let open = collect.decided.next();
    let before = accept.view < view;
    let forgot_decision = before && open < accept.slot;
    let forgot_lock = before && collect.lock.is_none_or(|lock| lock.0 < accept.view);
    let otherwise = votes(collect).any(|vote| vote.0 == accept.view && vote.1 != accept.digest);
    if forgot_decision || (open == accept.slot && (forgot_lock || otherwise)) {
        return Ok(());
    }
    Err("the statement does not contradict the accept")
}

/// Two statements of one member. Of one view either may be the earlier one. [mod_smart L165-L166]
fn statements_contradict(one: (View, &Collect), other: (View, &Collect)) -> Result<(), Doubt> {
    let ((v, first), (w, second)) = (one, other);
    if v > w {
        return Err("the statements are not in the order of their views");
    }
    let one_way = may_follow(v, first, second);
    if (v < w && (second.decided < first.decided || !one_way))
        || (v == w && !one_way && !may_follow(v, second, first))
    {
        return Ok(());
    }
    Err("an honest member may say both")
}

/// Whether an honest member that said the first on entering view `v` may say the second later: in views before `v` it voted no more, it never
/// takes a vote back, and its lock only gets a later view.
fn may_follow(v: View, first: &Collect, second: &Collect) -> bool {
    if first.decided != second.decided {
        return true;
    }
    let locked = match (first.lock, second.lock) {
        (before, after) if before == after => true,
        (before, Some((view, _))) => view >= v && before.is_none_or(|lock| lock.0 < view),
        (_, None) => false,
    };
    let none_is_new = second.writes.iter().all(|write| write.0 >= v || first.writes.contains(write));
    let disagree = |vote: &(View, Digest)| votes(second).any(|other| other.0 == vote.0 && other.1 != vote.1);
    // A value is forgotten only when many others came after it, and that many are still named.
    let named = |digest: &Digest| second.writes.iter().any(|(_, value)| value == digest);
    let kept = second.writes.len() >= WRITES_MAX || first.writes.iter().all(|(_, digest)| named(digest));
    locked && none_is_new && kept && !votes(first).any(disagree)
}
