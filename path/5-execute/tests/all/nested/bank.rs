//! Two services, each of which executes for real: a shop moves money to and from its account at a bank. What is sent between them comes late, in any
//! order, several times, or not at all until it is sent again; and the shop starts again. No money is lost or made.

use super::world::{Place, Replica, place};
use crate::support::{self, Ask, commands, items, list, open};
use quorate_execute::{
    Answer, Answered, Arrival, Call, Context, InStore, Journaled, JournaledService, NestedRequest,
    NestedRules, ObjectService, ReplySink, Schedule, ServiceId, SessionLimits, Store,
};
use quorate_types::{Items, Random, SessionId};
use quorate_wire::{ReplyStatus, RequestKind};

const BANK: ServiceId = ServiceId(2);
const ALL: i64 = 50;

fn number(bytes: Option<&[u8]>, otherwise: i64) -> i64 {
    bytes.and_then(|bytes| bytes.first_chunk()).map_or(otherwise, |bytes| i64::from_le_bytes(*bytes))
}

/// A plain service with one account: a command is an amount to add. It refuses what would leave less than nothing, or more than 40.
struct Bank;

impl ObjectService for Bank {
    fn execute(&mut self, store: &mut Store, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let sum = number(store.get(b"account"), 0) + number(Some(command), 0);
        let takes = (0..=40).contains(&sum);
        if takes {
            store.put(b"account", &sum.to_le_bytes());
        }
        reply.write(if takes { b"yes" } else { b"no" });
    }
    fn query(&self, store: &Store, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(&number(store.get(b"account"), 0).to_le_bytes());
    }
}

/// A command is an amount to bring to the bank, or to fetch from it if it is less than nothing. The shop has [`ALL`] at first.
struct Shop;

impl JournaledService for Shop {
    async fn execute(&self, call: &mut Call, command: &[u8], _: &Context) -> Vec<u8> {
        let amount = number(Some(command), 0);
        let till = |call: &mut Call| number(call.get(b"till").as_deref(), ALL);
        // What is brought is not in the till any more while it is on its way.
        let out = amount.max(0);
        let left = till(call) - out;
        if left < 0 {
            return b"too little".to_vec();
        }
        call.put(b"till", &left.to_le_bytes());
        let ticket = call.ask(BANK, &amount.to_le_bytes());
        let came = match call.answer(ticket).await {
            Answer::Reply(reply) if &reply[..] == b"yes" => -amount.min(0),
            Answer::Reply(_) => out,
            other => panic!("the bank answers: {other:?}"),
        };
        let now = till(call) + came;
        call.put(b"till", &now.to_le_bytes());
        b"done".to_vec()
    }
    fn query(&self, store: &Store, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(&number(store.get(b"till"), ALL).to_le_bytes());
    }
}

/// The bank, with the session in which the shop asks.
struct Behind {
    replica: support::Replica,
    session: SessionId,
}

impl Behind {
    fn new() -> Self {
        let service = Box::new(InStore::new(Bank));
        let mut replica = support::Replica::with(service, SessionLimits::default());
        let session = replica.opened(1, 1);
        Self { replica, session }
    }

    /// Runs these requests in one batch. Gives the answers that it has.
    fn run(&mut self, requests: &[NestedRequest]) -> Vec<Arrival> {
        let ask = |request: &NestedRequest| Ask {
            session: self.session,
            number: request.number.number(),
            lowest: request.lowest_unanswered.number(),
            kind: RequestKind::Commands,
            body: request.commands.to_vec(),
        };
        let asks: Vec<Ask> = requests.iter().map(ask).collect();
        let seen = self.replica.run(1, &asks);
        let answers = requests.iter().zip(seen).filter(|(_, seen)| match seen.status {
            ReplyStatus::Done => true,
            // One before it is missing, or the shop has the answer long ago.
            ReplyStatus::ExpectedNumber | ReplyStatus::ReplyForgotten => false,
            other => panic!("the bank says {other:?}"),
        });
        let answer = |(request, seen): (&NestedRequest, support::Seen)| {
            let (backend, number, status, body) =
                (request.backend, request.number, seen.status, seen.body.into());
            Arrival::Answer(Answered { backend, number, status, body })
        };
        answers.map(answer).collect()
    }

    fn account(&self) -> i64 {
        let mut out = Vec::new();
        self.replica.executor.query(b"", &mut out).expect("a short answer");
        number(Some(&out), 0)
    }
}

fn some<T>(list: &mut Vec<T>, random: &mut Random) -> Vec<T> {
    super::histories::shuffled(list, random);
    list.split_off((random.next() % (list.len() as u64 + 1)) as usize)
}

fn money_stays(seed: u64) {
    let random = &mut Random::new(seed);
    let schedule =
        if seed.is_multiple_of(2) { Schedule::Answered } else { Schedule::Ring(1 + seed as u32 % 4) };
    let rules = NestedRules::of(ServiceId(1), schedule);
    let mut shop = Replica::of(move || Box::new(InStore::new(Journaled::new(Shop, rules.clone()))));
    let openings: Vec<Ask> = (1..=4).map(|client| open(client, 1)).collect();
    let sessions: Vec<SessionId> =
        shop.run(&place(1, &openings, vec![])).ended.iter().map(|seen| seen.session).collect();
    let (mut bank, mut sent, mut answers) = (Behind::new(), Vec::new(), Vec::new());
    let (mut numbers, mut ended) = ([0; 4], 0);
    for round in 0.. {
        let mut asks = Vec::new();
        if round < 20 {
            for _ in 0..random.next() % 4 {
                let at = (random.next() % 4) as usize;
                numbers[at] += 1;
                let amount = (random.next() % 31) as i64 - 15;
                asks.push(commands(sessions[at], numbers[at], 1, &[&amount.to_le_bytes()]));
            }
        } else if shop.executor().under_way() == 0 {
            break;
        }
        assert!(round < 1000, "seed {seed}: it ends");
        let did =
            shop.run(&Place { batch: support::batch(1, round, &asks), arrivals: some(&mut answers, random) });
        for seen in &did.ended {
            assert!(matches!(&list(&seen.body)[0][..], b"done" | b"too little"), "seed {seed}: {seen:?}");
        }
        ended += did.ended.len();
        sent.extend(did.left);
        if random.next().is_multiple_of(5) {
            // It starts again: what was on its way is sent again, and nothing else is known.
            shop = shop.restarted();
            sent = shop.executor().unanswered().collect();
        }
        if random.next().is_multiple_of(4) {
            sent.extend(shop.executor().unanswered());
        }
        answers.extend(bank.run(&some(&mut sent, random)));
    }
    assert_eq!(ended as u64, numbers.iter().sum::<u64>(), "seed {seed}: each request is answered once");
    let mut till = Vec::new();
    shop.executor().query(b"", &mut till).expect("a short answer");
    assert_eq!(number(Some(&till), 0) + bank.account(), ALL, "seed {seed}: money is lost or made");
}

#[test]
fn money_that_moves_between_services_stays() {
    (0..300).for_each(money_stays);
}

/// What leaves fits the session that the shop has at the bank: numbers without gaps, and a lowest one that only grows.
#[test]
fn what_leaves_fits_a_session() {
    let mut bank = Behind::new();
    let one = NestedRequest {
        backend: BANK,
        number: quorate_types::RequestNumber::FIRST,
        lowest_unanswered: quorate_types::RequestNumber::FIRST,
        chain: quorate_execute::Chain::of(vec![ServiceId(1)]),
        commands: items(&[&7_i64.to_le_bytes()]).into(),
    };
    let first = bank.run(std::slice::from_ref(&one));
    assert_eq!(first, bank.run(&[one]), "once");
    let Arrival::Answer(answered) = &first[0] else { panic!("an answer") };
    assert_eq!(Items::parse(&answered.body).expect("a list").len(), 1);
    assert_eq!(bank.account(), 7);
}
