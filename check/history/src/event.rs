//! One finished operation of one client, and the rules that make it well formed.
//!
//! The types rule out most nonsense; [`Event::validate`] rules out the rest. The reader and the writer both
//! call it, so that no file holds an event that the checkers would misread.

use std::fmt;

/// The request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Sets the key to `value`, whatever was there.
    Put {
        /// The new value.
        value: String,
    },
    /// Reads the key, linearizably.
    Get,
    /// Removes the key; answers whether it existed.
    Delete,
    /// Sets the key to `value` if it holds `expect`; answers whether it did.
    Cas {
        /// What the key must hold; `None` means that it must not exist.
        expect: Option<String>,
        /// The new value.
        value: String,
    },
    /// Adds a token at the end of the key's list.
    Append {
        /// The token: not empty, no comma, no `[` in front (lists are read back comma-joined or as JSON).
        value: String,
    },
    /// Reads the key from any replica: it may be old, so linearizability does not judge it.
    ReadWeak,
}

/// The result of an operation with outcome `ok`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Put and append: nothing but the acknowledgement.
    Done,
    /// Get and read-weak: the value, or `None` if the key does not exist.
    Value(Option<String>),
    /// Cas: whether it took effect. Delete: whether the key existed.
    Flag(bool),
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer arrived at `ret`.
    Ok {
        /// When the answer arrived, in nanoseconds.
        ret: u64,
        /// The answer.
        answer: Answer,
    },
    /// It was certainly not done, and never will be.
    Fail {
        /// When the client learned so.
        ret: Option<u64>,
    },
    /// It may be done at any time after the call, or never.
    Unknown {
        /// When the client gave up. This does not bound when the operation takes effect.
        ret: Option<u64>,
    },
}

/// One operation of one client: asked, and ended in some way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The client.
    pub client: u64,
    /// The key that it concerns.
    pub key: String,
    /// The request.
    pub op: Op,
    /// When it was called, in nanoseconds of a clock that all clients of the history share.
    pub call: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// An event that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// It returns before it is called.
    #[error("returns at {ret}, before its call at {call}")]
    ReturnsBeforeCall {
        /// The call.
        call: u64,
        /// The return.
        ret: u64,
    },
    /// The answer does not fit the operation.
    #[error("{op} with outcome ok needs {need} as result")]
    WrongAnswer {
        /// The operation's name.
        op: &'static str,
        /// What the result must be.
        need: &'static str,
    },
    /// An append token that could not be found again in a list.
    #[error("append token {token:?} is empty, contains a comma, or starts with '['")]
    BadToken {
        /// The token.
        token: String,
    },
}

impl Op {
    /// The name that the file format uses.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Put { .. } => "put",
            Op::Get => "get",
            Op::Delete => "delete",
            Op::Cas { .. } => "cas",
            Op::Append { .. } => "append",
            Op::ReadWeak => "read-weak",
        }
    }
}

impl Event {
    /// When the operation was known to be over: only `ok` bounds the time of its effect.
    pub fn ok_return(&self) -> Option<u64> {
        match &self.outcome {
            Outcome::Ok { ret, .. } => Some(*ret),
            Outcome::Fail { .. } | Outcome::Unknown { .. } => None,
        }
    }

    /// The answer, if there was one.
    pub fn answer(&self) -> Option<&Answer> {
        match &self.outcome {
            Outcome::Ok { answer, .. } => Some(answer),
            Outcome::Fail { .. } | Outcome::Unknown { .. } => None,
        }
    }

    /// The return time as recorded, for people.
    pub fn recorded_return(&self) -> Option<u64> {
        match &self.outcome {
            Outcome::Ok { ret, .. } => Some(*ret),
            Outcome::Fail { ret } | Outcome::Unknown { ret } => *ret,
        }
    }

    /// The value that this operation writes if it takes effect; `None` for reads, and for a refused cas.
    pub fn written(&self) -> Option<&str> {
        match (&self.op, self.answer()) {
            (Op::Cas { .. }, Some(Answer::Flag(false))) => None,
            (Op::Put { value } | Op::Cas { value, .. }, _) => Some(value),
            _ => None,
        }
    }

    /// What a get or a weak read returned, if it returned.
    pub fn read(&self) -> Option<Option<&str>> {
        match self.answer() {
            Some(Answer::Value(value)) => Some(value.as_deref()),
            _ => None,
        }
    }

    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<(), EventError> {
        if let Some(ret) = self.recorded_return()
            && ret < self.call
        {
            return Err(EventError::ReturnsBeforeCall { call: self.call, ret });
        }
        if let Op::Append { value } = &self.op
            && (value.is_empty() || value.contains(',') || value.starts_with('['))
        {
            return Err(EventError::BadToken { token: value.clone() });
        }
        let Some(answer) = self.answer() else { return Ok(()) };
        let (fits, need) = match &self.op {
            Op::Put { .. } | Op::Append { .. } => (matches!(answer, Answer::Done), "null"),
            Op::Get | Op::ReadWeak => (matches!(answer, Answer::Value(_)), "a string or null"),
            Op::Delete | Op::Cas { .. } => (matches!(answer, Answer::Flag(_)), "true or false"),
        };
        if fits { Ok(()) } else { Err(EventError::WrongAnswer { op: self.op.name(), need }) }
    }
}

/// A value as people see it: quoted, long ones cut; `null` if absent.
pub(crate) fn shown(value: Option<&str>) -> String {
    const MAX_CHARS: usize = 40;
    match value {
        None => "null".to_owned(),
        Some(text) if text.chars().count() <= MAX_CHARS => format!("{text:?}"),
        Some(text) => {
            let cut: String = text.chars().take(MAX_CHARS).collect();
            format!("{cut:?}...")
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Put { value } | Op::Append { value } => write!(f, "{} {}", self.name(), shown(Some(value))),
            Op::Cas { expect, value } => {
                write!(f, "cas {} -> {}", shown(expect.as_deref()), shown(Some(value)))
            }
            Op::Get | Op::Delete | Op::ReadWeak => f.write_str(self.name()),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Ok { answer: Answer::Done, .. } => f.write_str("done"),
            Outcome::Ok { answer: Answer::Value(value), .. } => f.write_str(&shown(value.as_deref())),
            Outcome::Ok { answer: Answer::Flag(flag), .. } => write!(f, "{flag}"),
            Outcome::Fail { .. } => f.write_str("fail"),
            Outcome::Unknown { .. } => f.write_str("unknown"),
        }
    }
}
