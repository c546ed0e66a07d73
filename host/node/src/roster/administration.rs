//! What administrators commanded, where replicas may lie: a part of the roster.
//!
//! Commands are numbered. Only the next one is executed, so that none is executed twice or out of order, whoever keeps a copy. One that was
//! signed rightly takes its number also where it can not be carried out; then its result says why.
//!
//! ```text
//! administration  executed u64 | 0 u8, or 1 u8 and the administrators | count u8 | (number u64 | length u8, text) ...
//! ```
//!
//! INV-ADMIN-1: the number of executed commands grows by one with each. Tests: `administration/tests.rs`.

use quorate_auth::{RequestChecks, is_signed_by};
use quorate_types::{ClusterId, planted};
use quorate_wire::{Administrators, Put as _, Reader, SignedCommand};
use std::collections::VecDeque;

#[cfg(test)]
pub(crate) mod tests;

/// The results of so many commands are kept, for those who ask what became of them.
const RESULTS_MAX: usize = 8;
/// A result has at most this many bytes.
const RESULT_BYTES: usize = 200;
/// What is wrong with bytes that are no administration.
const NONE: &str = "what it says of administrators does not fit together";

/// How the signatures of administrators are checked.
#[derive(Clone, Debug)]
pub(crate) struct Signatures<'a> {
    pub(crate) cluster: ClusterId,
    pub(crate) checks: RequestChecks,
    /// The administrators with which the cluster was made.
    pub(crate) made_with: Option<&'a Administrators>,
}

/// What administrators commanded so far; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Administration {
    executed: u64,
    /// The administrators, if a command named others than those with which the cluster was made.
    administrators: Option<Administrators>,
    results: VecDeque<(u64, String)>,
}

impl Administration {
    /// How many commands were executed.
    pub(crate) const fn executed(&self) -> u64 {
        self.executed
    }

    /// The results of the last commands, by number.
    pub(crate) fn results(&self) -> impl Iterator<Item = (u64, &str)> {
        self.results.iter().map(|(number, text)| (*number, text.as_str()))
    }

    /// Who administers the cluster.
    pub(crate) fn administrators<'a>(
        &'a self,
        made_with: Option<&'a Administrators>,
    ) -> Option<&'a Administrators> {
        let unchanged = planted("old-administrators").then_some(made_with).flatten();
        unchanged.or(self.administrators.as_ref()).or(made_with)
    }

    /// Whether a command is the next one, and enough administrators signed it.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn check(&self, signed: &SignedCommand, by: &Signatures<'_>) -> Result<(), String> {
        let next = self.executed + 1;
        if signed.number != next && !planted("administrators-repeat") {
            let what = if signed.number < next { "was executed before" } else { "comes too early" };
            return Err(format!("command {} {what}: the next one is {next}", signed.number));
        }
        let Some(administrators) = self.administrators(by.made_with) else {
            return Err(
                "this cluster was made without administrators: `[administration]` names their keys".into()
            );
        };
        let is_signed = is_signed_by(by.checks, by.cluster, signed, administrators);
        if is_signed || planted("administrators-unsigned") {
            return Ok(());
        }
        Err(format!(
            "it takes the signatures of {} of the {} administrators, for this cluster and this number",
            administrators.threshold(),
            administrators.keys().len()
        ))
    }

    /// A command was executed, with this result.
    pub(crate) fn execute(&mut self, number: u64, mut result: String) {
        assert!(number == self.executed + 1, "INV-ADMIN-1: {number} follows");
        self.executed = number;
        let end = (0..=RESULT_BYTES).rev().find(|at| result.is_char_boundary(*at)).unwrap_or(0);
        result.truncate(end);
        self.results.push_back((number, result));
        while self.results.len() > RESULTS_MAX {
            self.results.pop_front();
        }
    }

    /// From now on these administer the cluster.
    pub(crate) fn replace(&mut self, administrators: Administrators) {
        self.administrators = Some(administrators);
    }

    /// Appends the bytes.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        out.put_u64(self.executed);
        out.put_u8(u8::from(self.administrators.is_some()));
        self.administrators.iter().for_each(|administrators| administrators.write_to(out));
        out.put_u8(self.results.len() as u8);
        for (number, text) in &self.results {
            out.put_u64(*number);
            out.put_u8(text.len() as u8);
            out.extend_from_slice(text.as_bytes());
        }
    }

    /// Reads what [`Self::write_to`] wrote, up to the end.
    ///
    /// # Errors
    /// When the bytes are none.
    pub(crate) fn read(mut r: Reader) -> Result<Self, &'static str> {
        let read = Self::read_parts(&mut r).map_err(|_| NONE)?;
        r.end().map_err(|_| NONE)?;
        let ascending = read.results.iter().map(|(number, _)| *number).is_sorted_by(|one, next| one < next);
        let last = read.results.back().map_or(0, |(number, _)| *number);
        if !ascending || last != read.executed || last == 0 || read.results.len() > RESULTS_MAX {
            return Err(NONE);
        }
        Ok(read)
    }

    fn read_parts(r: &mut Reader) -> Result<Self, quorate_types::Reject> {
        let executed = r.u64()?;
        let administrators = if r.bool()? { Some(Administrators::read(r)?) } else { None };
        let mut results = VecDeque::new();
        for _ in 0..r.u8()? {
            let (number, len) = (r.u64()?, r.u8()?);
            let text = String::from_utf8(r.bytes(usize::from(len))?.into());
            results.push_back((number, text.map_err(|_| quorate_types::Reject::Malformed(NONE))?));
        }
        Ok(Self { executed, administrators, results })
    }
}
