//! The harness for services that ask others. What it prints is described in scripts/nested/README.md.
//!
//! A shop has two replicas, which get the same log. The first one keeps its futures. The second one keeps none, and starts again from a checkpoint
//! before each batch. After each batch both must have done the same, and have the same state; only then something is printed.
//!
//! Commands:
//!
//! - `shop [ring=2] [patience=100] [chain=4]`: the shop begins, with a schedule, agreed nanoseconds until an outcome is unknown, and the most
//!   services that lead to a request. `open alice bob`: a batch that opens sessions.
//! - `ask alice "get cash" "add cash 5"`: the session's next request, with these commands, goes into the next batch. `again alice`: its last
//!   request once more. What commands say is described in `nested/phrases.rs`.
//! - `nested alice chain=mint,bank "get cash"`: another service asks, in this session, and these services led to it.
//! - `answer bank 1 "yes" "no"`: the next batch brings the answer to a nested request, with these replies.
//! - `batch [time=10]`: the batch is decided.
//! - `status`: what is under way.

mod phrases;

use crate::{Command, Harness};
use phrases::{Phrases, name, service};
use quorate_execute::{
    Answered, Arrival, Chain, Execution, Executor, InStore, Journaled, NestedRequest, NestedRules, Ordered,
    Outcomes, Schedule, Sequential, ServiceId, SessionLimits,
};
use quorate_types::{AgreedTime, Items, ItemsBuilder, RequestNumber, Seq, SessionId, Span, Time};
use quorate_wire::{
    Batch, BatchHeader, ReplyStatus, RequestHeader, RequestKind, RequestProof, write_opening,
};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A request of the next batch.
type Asked = (RequestHeader, Vec<u8>);

/// Runs the commands of a script; nothing exists before `shop`.
#[derive(Default)]
pub struct Shop {
    rules: Option<NestedRules>,
    replicas: Vec<Box<dyn Execution>>,
    sessions: BTreeMap<String, SessionId>,
    /// The last request of each session.
    last: BTreeMap<String, Asked>,
    requests: Vec<Asked>,
    arrivals: Vec<Arrival>,
    seq: u64,
    time: u64,
}

fn replica(rules: &NestedRules) -> Box<dyn Execution> {
    let service = Box::new(InStore::new(Journaled::new(Phrases, rules.clone())));
    Box::new(Sequential::new(Executor::new(service, SessionLimits::default(), AgreedTime::ZERO)))
}

fn list(items: &[String]) -> Vec<u8> {
    let (mut builder, mut bytes) = (ItemsBuilder::new(), Vec::new());
    items.iter().for_each(|item| builder.push(item.as_bytes()));
    builder.write_to(&mut bytes);
    bytes
}

fn texts(bytes: &[u8]) -> Vec<String> {
    let items = Items::parse(bytes).into_iter().flatten();
    items.map(|item| String::from_utf8_lossy(item).into_owned()).collect()
}

impl Harness for Shop {
    fn run(&mut self, command: &Command) -> Result<String, String> {
        command.only_options(&["ring", "patience", "chain", "time"])?;
        if command.name == "shop" {
            self.begin(command)?;
        }
        let rules = self.rules.clone().ok_or("there is no shop yet")?;
        match &*command.name {
            "shop" => Ok(String::new()),
            "open" => self.open(&command.args, &rules),
            "ask" | "again" => self.ask(command).map(|()| String::new()),
            "nested" => self.nested(command).map(|()| String::new()),
            "answer" => self.answer(command).map(|()| String::new()),
            "batch" => {
                self.time = command.number("time")?.unwrap_or(self.time);
                self.batch(&rules)
            }
            "status" => Ok(self.status()),
            other => Err(format!("there is no command {other}")),
        }
    }
}

impl Shop {
    fn begin(&mut self, command: &Command) -> Result<(), String> {
        let schedule =
            command.number("ring")?.map_or(Schedule::Answered, |slots| Schedule::Ring(slots as u32));
        let mut rules = NestedRules::of(ServiceId(1), schedule);
        if let Some(patience) = command.number("patience")? {
            rules.patience = Span::from_nanos(patience);
        }
        if let Some(chain) = command.number("chain")? {
            rules.chain_max = chain as u32;
        }
        *self =
            Self { replicas: vec![replica(&rules), replica(&rules)], rules: Some(rules), ..Self::default() };
        Ok(())
    }

    fn open(&mut self, names: &[String], rules: &NestedRules) -> Result<String, String> {
        for (client, name) in (self.sessions.len() as u64 + 1..).zip(names) {
            let header = RequestHeader {
                session: SessionId::NONE,
                number: RequestNumber::new(1),
                lowest_unanswered: RequestNumber::ZERO,
                kind: RequestKind::OpenSession,
                len: 0,
                proof: RequestProof::None,
            };
            self.requests.push((header, write_opening(quorate_types::ClientId::new(client), None)));
            // Sessions get vacant cells in order, and none ends here.
            let index = client as u32 - 1;
            self.sessions.insert(name.clone(), SessionId { index, generation: 1 });
        }
        self.batch(rules)
    }

    fn session(&self, name: &str) -> Result<SessionId, String> {
        self.sessions.get(name).copied().ok_or_else(|| format!("{name} has no session"))
    }

    fn ask(&mut self, command: &Command) -> Result<(), String> {
        let (name, commands) = command.args.split_first().ok_or("who asks?")?;
        if command.name == "again" {
            let last = self.last.get(name).ok_or_else(|| format!("{name} asked nothing yet"))?;
            self.requests.push(last.clone());
            return Ok(());
        }
        let number = self.last.get(name).map_or(RequestNumber::FIRST, |(header, _)| header.number.next());
        let header = RequestHeader {
            session: self.session(name)?,
            number,
            lowest_unanswered: RequestNumber::FIRST,
            kind: RequestKind::Commands,
            len: 0,
            proof: RequestProof::None,
        };
        let asked = (header, list(commands));
        self.last.insert(name.clone(), asked.clone());
        self.requests.push(asked);
        Ok(())
    }

    fn nested(&mut self, command: &Command) -> Result<(), String> {
        let (name, commands) = command.args.split_first().ok_or("in whose session?")?;
        let chain = command.options.get("chain").ok_or("nested needs chain=")?;
        let known = |name: &str| service(name).ok_or_else(|| format!("there is no service {name}"));
        let chain = chain.split(',').map(known).collect::<Result<Vec<_>, _>>()?;
        let number = self.last.get(name).map_or(RequestNumber::FIRST, |(header, _)| header.number.next());
        let session = self.session(name)?;
        let header = RequestHeader {
            session,
            number,
            lowest_unanswered: RequestNumber::FIRST,
            kind: RequestKind::Commands,
            len: 0,
            proof: RequestProof::None,
        };
        self.last.insert(name.clone(), (header, Vec::new()));
        let request = NestedRequest {
            backend: ServiceId(1),
            number,
            lowest_unanswered: RequestNumber::FIRST,
            chain: Chain::of(chain),
            commands: list(commands).into(),
        };
        self.arrivals.push(Arrival::Request(session, request));
        Ok(())
    }

    fn answer(&mut self, command: &Command) -> Result<(), String> {
        let [name, number, replies @ ..] = &command.args[..] else {
            return Err("answer bank 1 \"yes\"".into());
        };
        let backend = service(name).ok_or_else(|| format!("there is no service {name}"))?;
        let number = number.parse().map(RequestNumber::new).map_err(|_| "a nested request has a number")?;
        let body = list(replies).into();
        self.arrivals.push(Arrival::Answer(Answered { backend, number, status: ReplyStatus::Done, body }));
        Ok(())
    }

    fn seal(&mut self) -> Batch {
        let mut bytes = Vec::new();
        Batch::begin(&mut bytes);
        let requests = std::mem::take(&mut self.requests);
        for (header, body) in &requests {
            RequestHeader { len: body.len() as u32, ..*header }.write_to(&mut bytes);
            bytes.extend_from_slice(body);
        }
        let (time, count) = (AgreedTime::from_nanos(self.time), requests.len() as u32);
        Batch::seal(bytes, BatchHeader { time, seed: self.seq, count, ..BatchHeader::default() })
    }

    fn batch(&mut self, rules: &NestedRules) -> Result<String, String> {
        self.seq += 1;
        let (batch, arrivals, seq) = (self.seal(), std::mem::take(&mut self.arrivals), Seq::new(self.seq));
        let system = |stage: &mut Box<dyn Execution>| {
            let image = stage.state_mut().image().map_err(|e| e.to_string())?;
            Ok::<_, String>((image.system, image.objects))
        };
        let (before, objects) = system(&mut self.replicas[1])?;
        self.replicas[1] = replica(rules);
        self.replicas[1].restore(&before, &objects).map_err(|e| e.to_string())?;
        self.replicas[1].state_mut().keep_running(0);
        let mut all = Vec::new();
        for stage in &mut self.replicas {
            let mut outcomes = Outcomes::new();
            stage.batch(seq, batch.clone());
            stage.deliver(Ordered::Nested(arrivals.clone()));
            stage.next(Time::ZERO, &mut outcomes);
            stage.state().invariants(true);
            let (system, objects) = system(stage)?;
            all.push((show(&outcomes, &self.sessions), system, objects.root()));
        }
        let agree = all.windows(2).all(|pair| pair[0] == pair[1]);
        let said = all.swap_remove(0).0;
        if agree { Ok(said) } else { Err(format!("the replicas differ behind {seq}: {said}")) }
    }

    fn status(&mut self) -> String {
        let state = self.replicas[0].state();
        let mut out = format!("{} under way", state.under_way());
        for request in state.unanswered() {
            let _ = write!(out, "\n{} has no answer", title(&request));
        }
        if let Some(time) = state.next_deadline() {
            let _ = write!(out, "\ntime is up at {}", time.nanos());
        }
        out
    }
}

fn title(request: &NestedRequest) -> String {
    format!("{} #{}", name(request.backend), request.number.number())
}

/// What a batch did: replies, and what leaves.
fn show(outcomes: &Outcomes, sessions: &BTreeMap<String, SessionId>) -> String {
    let mut lines = Vec::new();
    for (_, reply) in outcomes.replies().filter(|(_, reply)| reply.status != ReplyStatus::SessionOpened) {
        let whose = sessions.iter().find(|(_, id)| **id == reply.session).map_or("?", |(name, _)| name);
        let said = match reply.status {
            ReplyStatus::Done => texts(reply.body).join(" | "),
            other => format!("{other:?}"),
        };
        lines.push(format!("{whose} #{}  {said}", reply.number.number()));
    }
    for request in outcomes.nested() {
        let chain: Vec<String> = request.chain.services().iter().map(|service| name(*service)).collect();
        let (title, by, lowest) = (title(request), chain.join(", "), request.lowest_unanswered.number());
        let commands = texts(&request.commands).join(" | ");
        lines.push(format!("> {title} by {by}, lowest #{lowest}  {commands}"));
    }
    lines.join("\n")
}
