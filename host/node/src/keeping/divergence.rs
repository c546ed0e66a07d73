//! Whether this replica's state is the agreed one, and what an operator is told if it is not.

use quorate_state::transfer::Differing;
use quorate_types::{Digest, ReplicaId, Seq, planted};

/// This replica's state is not the agreed one.
#[derive(Clone, Debug)]
struct Diverged {
    seq: Seq,
    own: Digest,
    agreed: Digest,
}

/// What is known of divergence.
#[derive(Debug, Default)]
pub(super) struct Divergence {
    /// Set until the state is repaired.
    diverged: Option<Diverged>,
    /// The border at which the members do not agree.
    none_agree: Option<(Seq, Vec<(ReplicaId, Digest)>)>,
    /// The checkpoint that this replica's state came from: at the start, or by a transfer.
    base: Seq,
    /// How often the state differed since the start of the process.
    count: u64,
}

impl Divergence {
    /// The state comes from this checkpoint.
    pub(super) fn based_on(&mut self, seq: Seq) {
        self.base = seq;
    }

    /// The state was repaired by a checkpoint of the other replicas.
    pub(super) fn repaired(&mut self, seq: Seq) {
        self.diverged = None;
        self.based_on(seq);
    }

    /// The border at which the divergence was seen, until it is repaired.
    pub(super) fn at(&self) -> Option<Seq> {
        self.diverged.as_ref().map(|diverged| diverged.seq)
    }

    /// How often the state differed since the start of the process, whether it was repaired or not.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// The state differs at a border. Whether it is useless from now on.
    pub(super) fn found(&mut self, seq: Seq, own: Digest, agreed: Digest) -> bool {
        // What this replica said of borders before the checkpoint that its state came from is not about this state. And that checkpoint
        // must not be given up: the log may begin only after it.
        if self.diverged.is_some() || planted("divergence-ignored") || seq < self.base {
            return false;
        }
        self.diverged = Some(Diverged { seq, own, agreed });
        self.count += 1;
        true
    }

    /// The members agree on the state at a border.
    pub(super) fn agreed(&mut self, seq: Seq) {
        self.none_agree.take_if(|(at, _)| *at <= seq);
    }

    /// The members can not agree on the state at a border any more. Gives the text for operators.
    pub(super) fn nobody_agrees(&mut self, seq: Seq, digests: Vec<(ReplicaId, Digest)>) -> String {
        let text = none_agree(seq, &digests);
        self.none_agree = Some((seq, digests));
        text
    }

    /// Adds what is wrong, and what to do.
    pub(super) fn problems(&self, problems: &mut Vec<String>) {
        if let Some(Diverged { seq, own, agreed }) = &self.diverged {
            problems.push(format!(
                "the state of this replica at seq {seq:#} has digest {own:?}, the others agree on {agreed:?}: it is being repaired from \
                 them and answers no reads until then. Keep its log file: it names the keys that differed"
            ));
        }
        if let Some((seq, digests)) = &self.none_agree {
            problems.push(none_agree(*seq, digests));
        }
    }
}

/// The text for operators if no two replicas have the same state.
fn none_agree(seq: Seq, digests: &[(ReplicaId, Digest)]) -> String {
    let all: Vec<String> = digests.iter().map(|(member, digest)| format!("{member} {digest:?}")).collect();
    format!(
        "the replicas do not agree on the state at seq {seq:#} ({}): the service is not deterministic, or more replicas are faulty than \
         the cluster survives. Nothing is repaired by itself. Look for time, randomness, hash maps, floating point or threads in the \
         service; docs/operations/divergence.md tells how to find out",
        all.join(", ")
    )
}

/// The text for operators about what differed. `same`: whether the state was the agreed one and only something beside it differed, if that
/// is known.
pub(super) fn difference(seq: Seq, same: Option<bool>, differing: &Differing) -> String {
    if same == Some(true) {
        return format!(
            "the state at seq {seq:#} was the agreed one: what differed is where the instances stand, their number, or the membership"
        );
    }
    if same == Some(false) && differing.count == 0 {
        return format!(
            "the state at seq {seq:#} differed from the agreed one in no key, but in sessions, time or level"
        );
    }
    let keys: Vec<String> = differing
        .keys
        .iter()
        .map(|(key, difference)| format!("{} {difference:?}", key.escape_ascii()))
        .collect();
    format!(
        "the state at seq {seq:#} differed from the agreed one in {} keys: {}{}",
        differing.count,
        keys.join("; "),
        if differing.count > keys.len() as u64 { " ..." } else { "" }
    )
}
