//! Publish-subscribe: news go to all who subscribed, in one order, also while replicas die. Run it with
//! `cargo run --release -p quorate --example news`.
//!
//! The service writes letters to the sessions of those who subscribed. A letter may be lost, when its reader was away for long; so each news has a
//! number in its topic, the service keeps the last ones, and a reader that misses some asks for them. Thereby each reader sees all news of a topic,
//! once and in their order, unless it stays away for more than is kept.
//!
//! Source: Bessani, Sousa, Alchieri, "State Machine Replication for the Masses with BFT-SMaRt", DSN 2014, sections 4 (a replier that answers
//! other clients) and 7.5 (a publish-subscribe middleware). Test: `host/quorate/tests/all/examples.rs`.

use quorate::client::{BlockingClient, BlockingTypedSession, LetterQueue, ReadOptions};
use quorate::{
    Context, Letter, Letters, LocalCluster, SessionEnd, SessionId, Typed, TypedService, decode_letter,
    encode_command,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::error::Error;
use std::time::Duration;

/// How many news of a topic are kept for readers that missed some.
const KEPT: usize = 100;
/// The most bytes of a topic's name and of a news.
const BYTES_MAX: usize = 4096;

/// One news: its number in the topic, from 1, and its text.
type Item = (u64, String);

/// A topic: who reads it, and the last news.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Topic {
    /// Sessions, as numbers.
    readers: BTreeSet<u64>,
    /// The number of the newest one.
    newest: u64,
    kept: VecDeque<Item>,
}

/// The service. Letters that wait for the end of their batch are no part of its state; their numbers are.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct News {
    topics: BTreeMap<String, Topic>,
    letters: Letters,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Command {
    /// The session that asks wants the news of a topic from now on. The reply is the number of the newest one.
    Subscribe(String),
    Unsubscribe(String),
    /// The reply is the number of this news.
    Publish(String, String),
}

/// The news of a topic behind this number.
#[derive(Serialize, Deserialize)]
pub(crate) struct Since(String, u64);

impl TypedService for News {
    type Command = Command;
    type Reply = Result<u64, String>;
    type Query = Since;
    type Answer = Vec<Item>;

    fn execute(&mut self, command: Command, ctx: &Context) -> Result<u64, String> {
        match command {
            Command::Subscribe(topic) | Command::Publish(topic, _) if topic.len() > BYTES_MAX => {
                Err(format!("a topic's name has at most {BYTES_MAX} bytes, not {}", topic.len()))
            }
            Command::Subscribe(topic) => {
                let topic = self.topics.entry(topic).or_default();
                topic.readers.insert(ctx.session().number());
                Ok(topic.newest)
            }
            Command::Unsubscribe(topic) => {
                let topic = self.topics.entry(topic).or_default();
                topic.readers.remove(&ctx.session().number());
                Ok(topic.newest)
            }
            Command::Publish(name, text) => {
                if text.len() > BYTES_MAX {
                    return Err(format!("a news has at most {BYTES_MAX} bytes, not {}", text.len()));
                }
                let topic = self.topics.entry(name.clone()).or_default();
                topic.newest += 1;
                let body = encode_command(&(name, topic.newest, &text)).map_err(|why| why.to_string())?;
                for reader in &topic.readers {
                    let letter = self.letters.send(SessionId::from_number(*reader), body.clone());
                    letter.map_err(|why| why.to_string())?;
                }
                topic.kept.push_back((topic.newest, text));
                topic.kept.drain(..topic.kept.len().saturating_sub(KEPT));
                Ok(topic.newest)
            }
        }
    }

    fn query(&self, Since(topic, number): Since, _: &Context) -> Vec<Item> {
        let kept = self.topics.get(&topic).map(|topic| &topic.kept);
        kept.into_iter().flatten().filter(|(at, _)| *at > number).cloned().collect()
    }

    /// Those who are gone read no more.
    fn session_ended(&mut self, _: SessionEnd, ctx: &Context) {
        self.letters.session_ended(ctx.session());
        for topic in self.topics.values_mut() {
            topic.readers.remove(&ctx.session().number());
        }
    }

    fn take_letters(&mut self) -> Vec<Letter> {
        self.letters.take()
    }
}

/// One who reads a topic: all news from the subscription on, once each, in their order.
pub(crate) struct Reader {
    client: BlockingClient,
    /// It reads as long as its session lives.
    session: BlockingTypedSession<News>,
    letters: LetterQueue,
    topic: String,
    last: u64,
    /// News that were asked for, since their letters were lost.
    fetched: VecDeque<Item>,
}

impl Reader {
    pub(crate) fn new(cluster: &LocalCluster, topic: &str) -> Result<Self, Box<dyn Error>> {
        let letters = LetterQueue::new(1 << 20);
        let client = cluster.client().letters(letters.clone()).build_blocking()?;
        let session = client.open::<News>()?;
        let last = session.call(&Command::Subscribe(topic.to_owned()))??;
        Ok(Self { client, session, letters, topic: topic.to_owned(), last, fetched: VecDeque::new() })
    }

    /// The next news, if one comes in this time.
    pub(crate) fn next(&mut self, timeout: Duration) -> Result<Option<Item>, Box<dyn Error>> {
        loop {
            if let Some(item) = self.fetched.pop_front() {
                self.last = item.0;
                return Ok(Some(item));
            }
            let Some(letter) = self.letters.recv(timeout) else { return Ok(None) };
            let (topic, number, text): (String, u64, String) = decode_letter(&letter.body)?;
            if topic != self.topic || number <= self.last {
                continue; // it was fetched already
            }
            if number > self.last + 1 {
                self.fetch()?;
            } else {
                self.fetched.push_back((number, text));
            }
        }
    }

    /// Asks for what is missing.
    fn fetch(&mut self) -> Result<(), Box<dyn Error>> {
        let since = Since(self.topic.clone(), self.last);
        self.fetched.extend(self.client.query::<News>(&since, ReadOptions::STRONG)?);
        Ok(())
    }

    pub(crate) fn unsubscribe(self) -> Result<(), Box<dyn Error>> {
        self.session.call(&Command::Unsubscribe(self.topic))??;
        Ok(self.session.close()?)
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let mut cluster = LocalCluster::temporary(3, || Box::new(Typed(News::default())))?;
    let mut readers = [("ann", "sports"), ("bob", "sports"), ("eve", "weather")]
        .into_iter()
        .map(|(name, topic)| Ok((name, Reader::new(&cluster, topic)?)))
        .collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    let publisher = cluster.client().build_blocking()?;
    let session = publisher.open::<News>()?;
    let publish = |topic: &str, text: &str| -> Result<u64, Box<dyn Error>> {
        Ok(session.call(&Command::Publish(topic.to_owned(), text.to_owned()))??)
    };
    publish("sports", "a goal")?;
    publish("weather", "rain")?;
    let leader = publisher.client().leader().ok_or("nobody leads")?;
    cluster.stop(leader);
    println!("the leader, {leader}, is gone");
    publish("sports", "another goal")?;
    publish("sports", "the end")?;
    for (name, reader) in &mut readers {
        let expected: &[&str] =
            if *name == "eve" { &["rain"] } else { &["a goal", "another goal", "the end"] };
        for text in expected {
            let (number, news) = reader.next(Duration::from_secs(20))?.ok_or("no news came")?;
            println!("{name} reads: {number} {news}");
            assert_eq!(news, *text);
        }
        assert_eq!(reader.next(Duration::ZERO)?, None, "each once");
    }
    for (_, reader) in readers {
        reader.unsubscribe()?;
    }
    Ok(())
}
