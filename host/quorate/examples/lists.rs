//! A map of lists that survives the loss of replicas: a service, and a client that looks like a map. Run it with
//! `cargo run --release -p quorate --example lists`.
//!
//! Source: Bessani, Sousa, Alchieri, "State Machine Replication for the Masses with BFT-SMaRt", DSN 2014, section 6.3 (BFTMapList: a table
//! of strings and lists of strings, behind the interface of a map). Test: `host/quorate/tests/all/examples.rs`.

use quorate::client::{BlockingClient, BlockingTypedSession, BuildError, ClientBuilder, ReadOptions};
use quorate::{Context, LocalCluster, Typed, TypedCallError, TypedError, TypedService};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound::{Excluded, Unbounded};

/// The longest key and the longest string in a list, in bytes.
const TEXT_BYTES_MAX: usize = 4096;
/// The most strings in one list.
const LIST_MAX: usize = 10_000;
/// The most bytes of strings in one answer of [`Lists::entries`], unless a single list has more.
const PAGE_BYTES_MAX: usize = 256 << 10;

/// The service: strings, and a list of strings for each. The map has an order that is the same on all replicas; a hash map's is not.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct MapOfLists {
    lists: BTreeMap<String, Vec<String>>,
}

/// What changes the map, so it is agreed on.
#[derive(Serialize, Deserialize)]
pub(crate) enum Change {
    Put(String, Vec<String>),
    Append(String, String),
    Remove(String),
    Clear,
}

/// The reply to a change.
#[derive(Serialize, Deserialize)]
pub(crate) enum Changed {
    /// The list that the key had before, if it had one.
    Before(Option<Vec<String>>),
    /// How long the list is now.
    Length(u64),
    /// Nothing changed. The text says which limit it would exceed.
    TooLarge(String),
}

/// What only reads.
#[derive(Serialize, Deserialize)]
pub(crate) enum Question {
    Get(String),
    Contains(String),
    Size,
    /// The entries behind this key, as many as fit.
    Entries(Option<String>),
}

/// The answer to a question.
#[derive(Serialize, Deserialize)]
pub(crate) enum Answer {
    List(Option<Vec<String>>),
    Contains(bool),
    Size(u64),
    /// Some entries, in the order of their keys, and whether there are more.
    Entries(Vec<(String, Vec<String>)>, bool),
}

impl MapOfLists {
    /// Why a list may not become that large. Clients may send anything, and each of them costs memory on every replica.
    fn refusal(key: &str, strings: &[String], length: usize) -> Option<Changed> {
        if key.len() > TEXT_BYTES_MAX || strings.iter().any(|string| string.len() > TEXT_BYTES_MAX) {
            return Some(Changed::TooLarge(format!("a string has at most {TEXT_BYTES_MAX} bytes")));
        }
        (length > LIST_MAX).then(|| Changed::TooLarge(format!("a list has at most {LIST_MAX} strings")))
    }

    fn page(&self, after: Option<&String>) -> Answer {
        let start = after.map_or(Unbounded, Excluded);
        let (mut page, mut bytes) = (Vec::new(), 0);
        for (key, list) in self.lists.range::<String, _>((start, Unbounded)) {
            bytes += key.len() + list.iter().map(String::len).sum::<usize>();
            if bytes > PAGE_BYTES_MAX && !page.is_empty() {
                return Answer::Entries(page, true);
            }
            page.push((key.clone(), list.clone()));
        }
        Answer::Entries(page, false)
    }
}

impl TypedService for MapOfLists {
    type Command = Change;
    type Reply = Changed;
    type Query = Question;
    type Answer = Answer;

    fn execute(&mut self, change: Change, _: &Context) -> Changed {
        match change {
            Change::Put(key, list) => match Self::refusal(&key, &list, list.len()) {
                Some(refusal) => refusal,
                None => Changed::Before(self.lists.insert(key, list)),
            },
            Change::Append(key, string) => {
                let length = self.lists.get(&key).map_or(0, Vec::len) + 1;
                if let Some(refusal) = Self::refusal(&key, std::slice::from_ref(&string), length) {
                    return refusal;
                }
                self.lists.entry(key).or_default().push(string);
                Changed::Length(length as u64)
            }
            Change::Remove(key) => Changed::Before(self.lists.remove(&key)),
            Change::Clear => {
                self.lists.clear();
                Changed::Length(0)
            }
        }
    }

    fn query(&self, question: Question, _: &Context) -> Answer {
        match question {
            Question::Get(key) => Answer::List(self.lists.get(&key).cloned()),
            Question::Contains(key) => Answer::Contains(self.lists.contains_key(&key)),
            Question::Size => Answer::Size(self.lists.len() as u64),
            Question::Entries(after) => self.page(after.as_ref()),
        }
    }
}

/// Why a call of [`Lists`] failed.
#[derive(Debug)]
pub(crate) enum ListsError {
    /// The client could not be made.
    Build(BuildError),
    /// The cluster gave no answer in time, refused the call, or gave an answer that is none of this service.
    Call(TypedCallError),
    /// The service changed nothing; the text says why.
    TooLarge(String),
}

impl fmt::Display for ListsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(why) => write!(f, "{why}"),
            Self::Call(why) => write!(f, "{why}"),
            Self::TooLarge(why) => write!(f, "nothing changed, since {why}"),
        }
    }
}

impl std::error::Error for ListsError {}

/// The map, for a program that uses it. It looks like a map of the standard library; each call is a command or a read of the cluster.
pub(crate) struct Lists {
    client: BlockingClient,
    session: BlockingTypedSession<MapOfLists>,
}

impl Lists {
    /// Connects to a cluster, and waits until it answers.
    pub(crate) fn connect(cluster: ClientBuilder) -> Result<Self, ListsError> {
        let client = cluster.build_blocking().map_err(ListsError::Build)?;
        let session = client.open().map_err(|why| ListsError::Call(why.into()))?;
        Ok(Self { client, session })
    }

    fn change(&self, change: &Change) -> Result<Changed, ListsError> {
        match self.session.call(change).map_err(ListsError::Call)? {
            Changed::TooLarge(why) => Err(ListsError::TooLarge(why)),
            changed => Ok(changed),
        }
    }

    fn ask(&self, question: &Question) -> Result<Answer, ListsError> {
        self.client.query::<MapOfLists>(question, ReadOptions::STRONG).map_err(ListsError::Call)
    }

    /// Gives a key this list. Returns the list that it had before.
    pub(crate) fn put(&self, key: &str, list: &[&str]) -> Result<Option<Vec<String>>, ListsError> {
        let list = list.iter().map(|string| (*string).to_owned()).collect();
        match self.change(&Change::Put(key.to_owned(), list))? {
            Changed::Before(before) => Ok(before),
            _ => Err(ListsError::Call(TypedError::UnknownReply.into())),
        }
    }

    /// Appends a string to a key's list, which begins with it if there was none. Returns how many strings the list has now.
    pub(crate) fn append(&self, key: &str, string: &str) -> Result<u64, ListsError> {
        match self.change(&Change::Append(key.to_owned(), string.to_owned()))? {
            Changed::Length(length) => Ok(length),
            _ => Err(ListsError::Call(TypedError::UnknownReply.into())),
        }
    }

    /// Removes a key. Returns the list that it had.
    pub(crate) fn remove(&self, key: &str) -> Result<Option<Vec<String>>, ListsError> {
        match self.change(&Change::Remove(key.to_owned()))? {
            Changed::Before(before) => Ok(before),
            _ => Err(ListsError::Call(TypedError::UnknownReply.into())),
        }
    }

    /// Removes all keys.
    pub(crate) fn clear(&self) -> Result<(), ListsError> {
        self.change(&Change::Clear).map(drop)
    }

    /// The list of a key.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Vec<String>>, ListsError> {
        match self.ask(&Question::Get(key.to_owned()))? {
            Answer::List(list) => Ok(list),
            _ => Err(ListsError::Call(TypedError::UnknownReply.into())),
        }
    }

    /// Whether a key has a list.
    pub(crate) fn contains_key(&self, key: &str) -> Result<bool, ListsError> {
        match self.ask(&Question::Contains(key.to_owned()))? {
            Answer::Contains(contains) => Ok(contains),
            _ => Err(ListsError::Call(TypedError::UnknownReply.into())),
        }
    }

    /// How many keys there are.
    pub(crate) fn size(&self) -> Result<u64, ListsError> {
        match self.ask(&Question::Size)? {
            Answer::Size(size) => Ok(size),
            _ => Err(ListsError::Call(TypedError::UnknownReply.into())),
        }
    }

    /// All keys with their lists, in the order of the keys. A large map comes in several answers, between which it may change.
    pub(crate) fn entries(&self) -> Result<Vec<(String, Vec<String>)>, ListsError> {
        let mut all: Vec<(String, Vec<String>)> = Vec::new();
        loop {
            let after = all.last().map(|(key, _)| key.clone());
            let Answer::Entries(page, more) = self.ask(&Question::Entries(after))? else {
                return Err(ListsError::Call(TypedError::UnknownReply.into()));
            };
            all.extend(page);
            if !more {
                return Ok(all);
            }
        }
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut cluster = LocalCluster::temporary(3, || Box::new(Typed(MapOfLists::default())))?;
    let lists = Lists::connect(cluster.client())?;
    println!("put fruit: before {:?}", lists.put("fruit", &["apple", "pear"])?);
    println!("append to fruit: {} strings", lists.append("fruit", "plum")?);
    println!("append to trees: {} string", lists.append("trees", "oak")?);
    println!("size: {}; fruit is there: {}", lists.size()?, lists.contains_key("fruit")?);
    let leader = lists.client.client().leader().ok_or("nobody leads")?;
    cluster.stop(leader);
    println!("the leader, {leader}, is gone; fruit: {:?}", lists.get("fruit")?);
    println!("remove trees: {:?}", lists.remove("trees")?);
    println!("all: {:?}", lists.entries()?);
    assert_eq!(lists.get("fruit")?.as_deref(), Some(&["apple", "pear", "plum"].map(str::to_owned)[..]));
    let refused = lists.append("fruit", &"x".repeat(TEXT_BYTES_MAX + 1));
    println!("a string that is too long: {}", refused.expect_err("it is refused"));
    lists.clear()?;
    assert_eq!(lists.size()?, 0);
    Ok(())
}
