//! The service and its clients as a guest of the simulator.

use crate::sim::{Client, Random};
use crate::{Context, Service, TypedService, decode_reply, encode_command_since};
use bytes::Bytes;
use quorate_execute::ReplySink;
use quorate_sim::Plan;
use quorate_sim::campaign::fail;
use quorate_sim::guest::{Guest, Holds, Hosted};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::sync::Arc;

/// Makes the service of a life of a replica.
pub(super) type Make = Arc<dyn Fn() -> Box<dyn Service> + Send + Sync>;
/// A client in bytes.
pub(super) type InBytes = Box<dyn Client<Vec<u8>, Vec<u8>>>;
/// Judges the answer to a query.
type Judge = Arc<dyn Fn(&[u8]) -> Result<(), String> + Send + Sync>;
/// Answers of invariants may have so many bytes.
const ANSWER_MAX: usize = 64 << 20;

/// An invariant: a query, and what its answer must be.
#[derive(Clone)]
pub(super) struct Query {
    pub(super) query: Vec<u8>,
    pub(super) holds: Judge,
}

impl Query {
    fn judge(&self, service: &dyn Service, ctx: &Context) -> Result<(), String> {
        let mut answer = Vec::new();
        service.query(&self.query, ctx, &mut ReplySink::new(&mut answer, ANSWER_MAX));
        (self.holds)(&answer)
    }
}

/// A client in bytes of one with types.
pub(super) struct Encoding<S: TypedService, C> {
    client: C,
    /// Commands that are under way, in the order in which they were asked for.
    open: VecDeque<(Vec<u8>, S::Command)>,
}

impl<S: TypedService, C> Encoding<S, C> {
    pub(super) fn new(client: C) -> Self {
        Self { client, open: VecDeque::new() }
    }
}

impl<S, C> Client<Vec<u8>, Vec<u8>> for Encoding<S, C>
where
    S: TypedService<Command: Serialize + Send, Reply: DeserializeOwned>,
    C: Client<S::Command, S::Reply>,
{
    fn command(&mut self, random: &mut Random) -> Vec<u8> {
        let command = self.client.command(random);
        let bytes = encode_command_since(&command, S::since(&command));
        let bytes = bytes.unwrap_or_else(|why| panic!("a client's command can not be encoded: {why}"));
        self.open.push_back((bytes.clone(), command));
        bytes
    }

    fn replied(&mut self, command: &Vec<u8>, reply: Vec<u8>) -> Result<(), String> {
        // Those before it have no reply.
        while let Some((bytes, asked)) = self.open.pop_front() {
            if bytes == *command {
                let reply =
                    decode_reply(&reply).map_err(|why| format!("its reply can not be used: {why}"))?;
                return self.client.replied(&asked, reply);
            }
        }
        Ok(())
    }
}

/// The users of the service in one run: a client at each carrier.
pub(super) struct Users {
    make: Make,
    clients: Vec<User>,
    invariants: Vec<Query>,
    /// The most commands of one call.
    batch: u64,
}

/// A client, and how far it is.
struct User {
    client: InBytes,
    random: Random,
    /// How many commands it has not asked for yet.
    left: u32,
    /// Commands of its call that is under way.
    open: Vec<Vec<u8>>,
}

impl Users {
    pub(super) fn new(plan: &Plan, make: Make, clients: Vec<InBytes>, invariants: Vec<Query>) -> Self {
        let user = |(number, client)| {
            let random = Random::of(plan.seed, 9200 + number as u64);
            User { client, random, left: plan.workload.operations, open: Vec::new() }
        };
        let clients = clients.into_iter().enumerate().map(user).collect();
        Self { make, clients, invariants, batch: plan.workload.batch }
    }
}

impl Guest for Users {
    fn service(&mut self, _: usize) -> Hosted {
        let invariants = self.invariants.clone();
        let holds: Option<Holds> = (!invariants.is_empty()).then(|| -> Holds {
            Box::new(move |service, ctx| invariants.iter().try_for_each(|query| query.judge(service, ctx)))
        });
        Hosted::Alone((self.make)(), holds)
    }

    fn commands(&mut self, carrier: usize) -> Vec<Bytes> {
        let Some(User { client, random, left, open }) = self.clients.get_mut(carrier) else {
            return Vec::new();
        };
        let count = (random.range(1, self.batch) as u32).min(*left);
        *left -= count;
        *open = (0..count).map(|_| client.command(random)).collect();
        open.iter().map(|command| Bytes::copy_from_slice(command)).collect()
    }

    fn replied(&mut self, carrier: usize, replies: Vec<Option<Bytes>>) {
        let User { client, open, .. } = &mut self.clients[carrier];
        for (command, reply) in std::mem::take(open).into_iter().zip(replies) {
            let judged = reply.map_or(Ok(()), |reply| client.replied(&command, reply.to_vec()));
            if let Err(why) = judged {
                let command = command.escape_ascii();
                fail(
                    "client",
                    format!("client {carrier} was told what is wrong: {why}; its command was \"{command}\""),
                );
            }
        }
    }

    fn is_over(&self) -> bool {
        self.clients.iter().all(|user| user.left == 0 && user.open.is_empty())
    }
}
