//! Histories as JSON lines: a streaming reader that names the bad line, and a writer.
//!
//! The format is strict, because a misspelt field would otherwise turn into a wrong verdict: unknown fields,
//! missing results and results of the wrong kind are errors. `docs/formats/history.md` describes it.
//! Tests: `tests/all/format.rs`.

use crate::event::{Answer, Event, EventError, Op, Outcome};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::io::{self, BufRead, Read, Write};

/// The longest line that is read. A line is one operation; even a long list of tokens stays far below.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// Why a history could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The source failed.
    #[error("line {line}: cannot read: {source}")]
    Io {
        /// The line being read.
        line: u64,
        /// What the source said.
        source: io::Error,
    },
    /// A line longer than [`LINE_BYTES_MAX`].
    #[error("line {line}: longer than {LINE_BYTES_MAX} bytes")]
    TooLong {
        /// The line.
        line: u64,
    },
    /// Not a JSON object with the fields of an event.
    #[error("line {line}, column {column}: {why}")]
    Json {
        /// The line.
        line: u64,
        /// The column, from 1.
        column: usize,
        /// What the JSON reader said.
        why: String,
    },
    /// The fields are there, but do not belong together.
    #[error("line {line}: {why}")]
    Fields {
        /// The line.
        line: u64,
        /// What does not fit.
        why: String,
    },
    /// The event cannot be.
    #[error("line {line}: {source}")]
    Event {
        /// The line.
        line: u64,
        /// The reason.
        source: EventError,
    },
}

/// Why an event could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The event cannot be; nothing was written.
    #[error("event not written: {0}")]
    Event(#[from] EventError),
    /// The destination failed.
    #[error("cannot write the history: {0}")]
    Io(#[from] io::Error),
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OpName {
    Put,
    Get,
    Delete,
    Cas,
    Append,
    ReadWeak,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OutcomeName {
    Ok,
    Fail,
    Unknown,
}

/// A line as it stands in the file. The outer option of a field is "present", the inner one is "not null".
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    client: u64,
    op: OpName,
    key: String,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    expect: Option<Option<String>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    value: Option<Option<String>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    call: u64,
    #[serde(rename = "return", default)]
    ret: Option<u64>,
    outcome: OutcomeName,
}

/// Tells a field that is null from one that is missing.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// Reads events one by one. After an error the iterator ends.
pub struct Reader<R> {
    source: R,
    line: u64,
    buffer: Vec<u8>,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads from `source`.
    pub fn new(source: R) -> Reader<R> {
        Reader { source, line: 0, buffer: Vec::new(), ended: false }
    }

    /// The number of the line that was read last, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The next line that is not blank, in `buffer`; false at the end.
    fn fill(&mut self) -> Result<bool, ReadError> {
        loop {
            self.line += 1;
            let line = self.line;
            self.buffer.clear();
            let limit = LINE_BYTES_MAX as u64 + 1;
            let mut limited = Read::take(&mut self.source, limit);
            let count = limited
                .read_until(b'\n', &mut self.buffer)
                .map_err(|source| ReadError::Io { line, source })?;
            if count == 0 {
                return Ok(false);
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return Err(ReadError::TooLong { line });
            }
            if !self.buffer.iter().all(u8::is_ascii_whitespace) {
                return Ok(true);
            }
        }
    }

    fn parse(&self) -> Result<Event, ReadError> {
        let line = self.line;
        let first = self.buffer.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(0);
        if self.buffer.get(first) != Some(&b'{') {
            // An array of the right values in the right order would do for the JSON reader, but not for us.
            return Err(ReadError::Json {
                line,
                column: first + 1,
                why: "expected a JSON object".to_owned(),
            });
        }
        let raw: Raw = serde_json::from_slice(&self.buffer).map_err(|error| {
            let text = error.to_string();
            // The reader sees one line, so its own line number would mislead.
            let why = text.split(" at line ").next().unwrap_or(&text).to_owned();
            ReadError::Json { line, column: error.column(), why }
        })?;
        let event = raw.into_event().map_err(|why| ReadError::Fields { line, why })?;
        event.validate().map_err(|source| ReadError::Event { line, source })?;
        Ok(event)
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = match self.fill() {
            Ok(true) => Some(self.parse()),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        };
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}

impl Raw {
    fn into_event(mut self) -> Result<Event, String> {
        let op = self.take_op()?;
        let outcome = self.take_outcome(&op)?;
        Ok(Event { client: self.client, key: self.key, op, call: self.call, outcome })
    }

    fn take_op(&mut self) -> Result<Op, String> {
        let expect = self.expect.take();
        let value = self.value.take();
        if expect.is_some() && !matches!(self.op, OpName::Cas) {
            return Err("only cas has the field `expect`".to_owned());
        }
        let needs_value = matches!(self.op, OpName::Put | OpName::Cas | OpName::Append);
        let value = match (needs_value, value) {
            (true, Some(Some(value))) => value,
            (true, _) => return Err("put, cas and append need a string in `value`".to_owned()),
            (false, None | Some(None)) => String::new(),
            (false, Some(Some(_))) => return Err("a read or delete has no `value`; use `result`".to_owned()),
        };
        Ok(match self.op {
            OpName::Put => Op::Put { value },
            OpName::Append => Op::Append { value },
            OpName::Get => Op::Get,
            OpName::Delete => Op::Delete,
            OpName::ReadWeak => Op::ReadWeak,
            OpName::Cas => {
                let expect = expect.ok_or("cas needs `expect`: a string, or null for an absent key")?;
                Op::Cas { expect, value }
            }
        })
    }

    fn take_outcome(&mut self, op: &Op) -> Result<Outcome, String> {
        let result = self.result.take();
        if !matches!(self.outcome, OutcomeName::Ok) {
            if !matches!(result, None | Some(Value::Null)) {
                return Err("only outcome ok has a `result`".to_owned());
            }
            let ret = self.ret;
            return Ok(match self.outcome {
                OutcomeName::Fail => Outcome::Fail { ret },
                OutcomeName::Ok | OutcomeName::Unknown => Outcome::Unknown { ret },
            });
        }
        let ret = self.ret.ok_or("outcome ok needs a `return` time")?;
        let is_write = matches!(op, Op::Put { .. } | Op::Append { .. });
        let answer = match result {
            None | Some(Value::Null) if is_write => Answer::Done,
            None => return Err(format!("{} with outcome ok needs a `result`", op.name())),
            Some(Value::Null) => Answer::Value(None),
            Some(Value::String(text)) => Answer::Value(Some(text)),
            Some(Value::Bool(flag)) => Answer::Flag(flag),
            Some(_) => return Err("`result` must be a string, true, false or null".to_owned()),
        };
        Ok(Outcome::Ok { ret, answer })
    }

    fn from_event(event: &Event) -> Raw {
        let (op, expect, value) = match &event.op {
            Op::Put { value } => (OpName::Put, None, Some(value)),
            Op::Append { value } => (OpName::Append, None, Some(value)),
            Op::Cas { expect, value } => (OpName::Cas, Some(expect.clone()), Some(value)),
            Op::Get => (OpName::Get, None, None),
            Op::Delete => (OpName::Delete, None, None),
            Op::ReadWeak => (OpName::ReadWeak, None, None),
        };
        let (outcome, result) = match &event.outcome {
            Outcome::Ok { answer, .. } => (OutcomeName::Ok, answer_json(answer)),
            Outcome::Fail { .. } => (OutcomeName::Fail, Value::Null),
            Outcome::Unknown { .. } => (OutcomeName::Unknown, Value::Null),
        };
        Raw {
            client: event.client,
            op,
            key: event.key.clone(),
            expect,
            value: value.map(|value| Some(value.clone())),
            result: Some(result),
            call: event.call,
            ret: event.recorded_return(),
            outcome,
        }
    }
}

fn answer_json(answer: &Answer) -> Value {
    match answer {
        Answer::Done | Answer::Value(None) => Value::Null,
        Answer::Value(Some(text)) => Value::String(text.clone()),
        Answer::Flag(flag) => Value::Bool(*flag),
    }
}

/// Writes events, one line each. Wrap the destination in a `BufWriter`.
pub struct Writer<W> {
    to: W,
}

impl<W: Write> Writer<W> {
    /// Writes to `to`.
    pub fn new(to: W) -> Writer<W> {
        Writer { to }
    }

    /// Writes one event in one call of the destination, so that lines of several writers do not mix.
    pub fn write(&mut self, event: &Event) -> Result<(), WriteError> {
        event.validate()?;
        let mut line = serde_json::to_vec(&Raw::from_event(event)).map_err(io::Error::other)?;
        line.push(b'\n');
        self.to.write_all(&line)?;
        Ok(())
    }

    /// Flushes, and gives the destination back.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.to.flush()?;
        Ok(self.to)
    }
}
