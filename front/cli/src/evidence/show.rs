//! Evidence in words, and as JSON.

use quorate_order::mod_smart::evidence::{Evidence, EvidenceKind, SignedAccept, Statement};
use quorate_order::mod_smart::message::Collect;
use quorate_types::{Digest, View};
use serde_json::{Value, json};
use std::fmt::Write as _;

pub(super) use super::ask::head;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The rule that is broken.
const fn rule(kind: EvidenceKind) -> &'static str {
    match kind {
        EvidenceKind::TwoAccepts => "A replica accepts one value for a slot in a view.",
        EvidenceKind::TwoStatements => {
            "What a replica states when it enters a view follows from what it stated before: no decided slot, no lock and no vote goes, and \
             none comes in a view that is past."
        }
        EvidenceKind::AcceptDenied => {
            "A replica that accepted a value states so when it enters later views, until the slot is decided."
        }
        EvidenceKind::ImpossibleStatement => {
            "A replica votes in the view that it is in, for one value, and knows nothing of later views."
        }
    }
}

fn vote((view, digest): &(View, Digest)) -> String {
    format!("{} in view {}", hex(digest.bytes()), view.number())
}

fn statement(statement: &Statement) -> String {
    let signature = hex(statement.signature().bytes());
    match statement {
        Statement::Accept(SignedAccept { view, slot, digest, .. }) => format!(
            "ACCEPT for slot {} in view {}\n    value      {}\n    signature  {signature}",
            slot.number(),
            view.number(),
            hex(digest.bytes())
        ),
        Statement::Collect(view, Collect { decided, lock, writes, .. }) => {
            let lock = lock.as_ref().map_or_else(|| "nothing".to_owned(), vote);
            let wrote: Vec<String> = writes.iter().map(vote).collect();
            let wrote = if wrote.is_empty() { "nothing".to_owned() } else { wrote.join("\n               ") };
            format!(
                "statement on entering view {}\n    decided    up to slot {}; of slot {}:\n    locked     {lock}\n    wrote      \
                 {wrote}\n    signature  {signature}",
                view.number(),
                decided.number(),
                decided.next().number()
            )
        }
    }
}

/// Who, what, and the statements.
pub(super) fn text(evidence: &Evidence) -> String {
    let key = evidence.key.map_or_else(|| "not in the file".to_owned(), |key| hex(key.bytes()));
    let statements: Vec<String> = evidence.statements.iter().map(statement).collect();
    format!(
        "{evidence}.\n{}\n\ncluster      {:032x}\nmembership   {}, instance {}\nreplica      {}\npublic key   {key}\n\n{}\n\nThis is what \
         the file says. `quorate evidence verify` checks it.",
        rule(evidence.kind),
        evidence.cluster.bits(),
        evidence.membership.number(),
        evidence.instance.number(),
        evidence.accused.number(),
        statements.join("\n\n")
    )
}

fn statement_json(statement: &Statement) -> Value {
    let vote =
        |(view, digest): &(View, Digest)| json!({ "view": view.number(), "value": hex(digest.bytes()) });
    let signature = hex(statement.signature().bytes());
    match statement {
        Statement::Accept(SignedAccept { view, slot, digest, .. }) => json!({
            "says": "accept", "view": view.number(), "slot": slot.number(), "value": hex(digest.bytes()), "signature": signature,
        }),
        Statement::Collect(view, Collect { decided, lock, writes, .. }) => json!({
            "says": "collect",
            "view": view.number(),
            "decided": decided.number(),
            "locked": lock.as_ref().map(vote),
            "wrote": writes.iter().map(vote).collect::<Vec<_>>(),
            "signature": signature,
        }),
    }
}

/// The same for programs.
pub(super) fn json(evidence: &Evidence) -> Value {
    let mut document = head(evidence);
    document["cluster"] = format!("{:032x}", evidence.cluster.bits()).into();
    document["membership"] = evidence.membership.number().into();
    document["key"] = evidence.key.map(|key| hex(key.bytes())).into();
    document["rule"] = rule(evidence.kind).into();
    document["statements"] = evidence.statements.iter().map(statement_json).collect();
    document
}
