//! The level of a service: two programs of it side by side, one after the other, and back.

use crate::support::{batch, commands, list, open, seq};
use quorate_execute::{
    CheckpointError, Context, Execution, Executor, Final, ImageParts, Outcomes, Sequential, Service,
    SessionLimits, Typed, TypedError, TypedService, decode_reply, encode_command, encode_command_since,
};
use quorate_types::{AgreedTime, SessionId, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The first release of a bank.
mod old {
    use super::*;

    #[derive(Default, Serialize, Deserialize)]
    pub(super) struct Bank {
        pub(super) accounts: BTreeMap<String, i64>,
    }

    #[derive(Serialize, Deserialize)]
    pub(super) enum Command {
        Pay { to: String, amount: i64 },
    }

    impl TypedService for Bank {
        type Command = Command;
        type Reply = i64;
        type Query = String;
        type Answer = Option<i64>;
        const NAME: &'static str = "bank";

        fn execute(&mut self, Command::Pay { to, amount }: Command, _: &Context) -> i64 {
            let balance = self.accounts.entry(to).or_default();
            *balance += amount;
            *balance
        }
        fn query(&self, name: String, _: &Context) -> Option<i64> {
            self.accounts.get(&name).copied()
        }
    }
}

/// The second one: payments have a note, accounts can be frozen, and what was `accounts` is called `balances` in the program.
mod new {
    use super::*;

    #[derive(Default, Serialize, Deserialize)]
    pub(super) struct Bank {
        #[serde(rename = "accounts")]
        pub(super) balances: BTreeMap<String, i64>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        pub(super) notes: BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub(super) total: Option<i64>,
    }

    #[derive(Serialize, Deserialize)]
    pub(super) enum Command {
        Pay {
            to: String,
            amount: i64,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            note: Option<String>,
        },
        Close(String),
    }

    impl TypedService for Bank {
        type Command = Command;
        type Reply = i64;
        type Query = String;
        type Answer = Option<i64>;
        const NAME: &'static str = "bank";
        const VERSION: u32 = 2;

        fn since(command: &Command) -> u32 {
            match command {
                Command::Pay { note: None, .. } => 1,
                Command::Pay { note: Some(_), .. } | Command::Close(_) => 2,
            }
        }

        fn migrate(&mut self, from: u32, ctx: &Context) -> Result<(), String> {
            assert_eq!((from, ctx.service_level()), (1, 2));
            self.total = Some(self.balances.values().sum());
            self.notes.insert("migrated".into(), format!("{} at {}", ctx.seq(), ctx.time().nanos()));
            if self.balances.values().any(|balance| *balance < 0) {
                return Err("an account is overdrawn".into());
            }
            Ok(())
        }

        fn execute(&mut self, command: Command, ctx: &Context) -> i64 {
            match command {
                Command::Pay { to, amount, note } => {
                    self.total = self.total.map(|total| total + amount);
                    if ctx.service_level() >= 2 {
                        self.notes.entry(to.clone()).or_default().push_str(note.as_deref().unwrap_or("-"));
                    }
                    let balance = self.balances.entry(to).or_default();
                    *balance += amount;
                    *balance
                }
                Command::Close(name) => self.balances.remove(&name).unwrap_or_default(),
            }
        }
        fn query(&self, name: String, _: &Context) -> Option<i64> {
            self.balances.get(&name).copied()
        }
    }
}

struct Program {
    stage: Box<dyn Execution>,
    outcomes: Outcomes,
    session: SessionId,
    number: u64,
}

impl Program {
    fn of(service: Box<dyn Service>) -> Self {
        let executor = Executor::new(service, SessionLimits::default(), AgreedTime::ZERO);
        let stage: Box<dyn Execution> = Box::new(Sequential::new(executor));
        let mut program = Self { stage, outcomes: Outcomes::new(), session: SessionId::NONE, number: 0 };
        program.stage.batch(seq(1), batch(1, 1, &[open(1, 1)]));
        program.finish();
        program.session = program.outcomes.list()[0].session;
        program
    }

    fn old() -> Self {
        Self::of(Box::new(Typed(old::Bank::default())))
    }

    fn new() -> Self {
        Self::of(Box::new(Typed(new::Bank::default())))
    }

    fn finish(&mut self) {
        while self.stage.next(Time::ZERO, &mut self.outcomes).is_some() {}
    }

    fn run(&mut self, command: &[u8]) -> Vec<u8> {
        self.number += 1;
        let next = self.stage.agreed().seq().next();
        let ask = commands(self.session, self.number, self.number, &[command]);
        self.stage.batch(next, batch(next.number(), 1, &[ask]));
        self.finish();
        let outcome = &self.outcomes.list()[0];
        list(self.outcomes.reply(outcome).body).remove(0)
    }

    fn raise(&mut self, level: u32) {
        let next = self.stage.agreed().seq().next();
        self.stage.batch(next, batch(next.number(), 1, &[]));
        self.stage.raise_service(level);
        assert!(matches!(self.stage.next(Time::ZERO, &mut self.outcomes), Some(Final::Batch(_))));
        assert!(self.stage.next(Time::ZERO, &mut self.outcomes).is_none(), "it is final with its batch");
    }

    fn image(&mut self) -> ImageParts {
        self.stage.state_mut().image().expect("a service that gives its state")
    }

    fn whole(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.stage.state().checkpoint(&mut bytes).expect("a vector takes everything");
        bytes
    }

    /// The other program goes on from this one's state.
    fn replaced_by(mut self, other: Self) -> Self {
        let ImageParts { system, objects } = self.image();
        let mut next = Self { session: self.session, number: self.number, ..other };
        next.stage.restore(&system, &objects).expect("the other program reads the state");
        next
    }

    fn level(&self) -> u32 {
        self.stage.state().service_level()
    }
}

fn pay(to: &str, amount: i64) -> Vec<u8> {
    encode_command(&old::Command::Pay { to: to.into(), amount }).expect("a command")
}

fn noted(to: &str, amount: i64) -> new::Command {
    new::Command::Pay { to: to.into(), amount, note: Some("rent".into()) }
}

fn sent(command: &new::Command) -> Vec<u8> {
    encode_command_since(command, new::Bank::since(command)).expect("a command")
}

/// Below the level of a command both programs refuse it with the same bytes; a client that says too little about its command gets the same
/// from both, too. Otherwise the replicas of one cluster would no longer have one state.
#[test]
pub(crate) fn an_old_and_a_new_program_do_the_same() {
    let (mut old, mut new) = (Program::old(), Program::new());
    let unnoted = new::Command::Pay { to: "ada".into(), amount: 5, note: None };
    let too_little = |command: &new::Command| encode_command(command).expect("a command");
    for command in [
        pay("ada", 5),
        sent(&unnoted),
        sent(&noted("ada", 5)),
        sent(&new::Command::Close("ada".into())),
        too_little(&noted("ada", 5)),
        too_little(&new::Command::Close("ada".into())),
        b"\xc1svc\x01\0\0\0".to_vec(),
        b"\xc1svc".to_vec(),
        vec![],
    ] {
        assert_eq!(old.run(&command), new.run(&command), "{command:?}");
        assert_eq!(old.whole(), new.whole(), "{command:?}");
    }
    assert_eq!(decode_reply(&new.run(&pay("ada", 1))), Ok(11_i64), "only what the level allows was done");
    let reply = new.run(&sent(&noted("ada", 5)));
    assert_eq!(decode_reply::<i64>(&reply), Err(TypedError::TooNew { needs: 2, level: 1 }));
    let reply = new.run(&too_little(&noted("ada", 5)));
    assert_eq!(decode_reply::<i64>(&reply), Err(TypedError::Undecodable));
}

/// Each program goes on from the other's state, until the level is raised.
#[test]
fn there_is_a_way_back_until_the_level_is_raised() {
    let mut program = Program::old();
    program.run(&pay("ada", 5));
    let mut program = program.replaced_by(Program::new());
    program.run(&pay("bob", 7));
    let mut program = program.replaced_by(Program::old());
    assert_eq!(decode_reply(&program.run(&pay("ada", 1))), Ok(6_i64));
    let mut program = program.replaced_by(Program::new());
    program.raise(2);
    assert_eq!(program.level(), 2);
    assert_eq!(decode_reply(&program.run(&sent(&noted("bob", 1)))), Ok(8_i64));
    assert_eq!(decode_reply(&program.run(&pay("bob", 1))), Ok(9_i64), "clients of before go on");
    let ImageParts { system, objects } = program.image();
    let refused = Program::old().stage.restore(&system, &objects).expect_err("too old");
    assert_eq!(refused, CheckpointError::ServiceTooOld { level: 2, version: 1 });
    let mut program = program.replaced_by(Program::new());
    assert_eq!(program.level(), 2, "the level is a part of the state");
    assert_eq!(decode_reply(&program.run(&sent(&new::Command::Close("bob".into())))), Ok(9_i64));
}

/// Migration sees the agreed time and seq only, so replicas that execute it at other moments have the same state.
#[test]
fn all_replicas_migrate_at_the_same_seq() {
    let (mut early, mut late) = (Program::new(), Program::new());
    for program in [&mut early, &mut late] {
        program.run(&pay("ada", 5));
    }
    early.raise(2);
    early.run(&sent(&noted("ada", 1)));
    // This one hears of all of it at once.
    let raise = late.stage.agreed().seq().next();
    late.stage.batch(raise, batch(raise.number(), 1, &[]));
    late.stage.raise_service(2);
    late.number += 1;
    let ask = commands(late.session, late.number, late.number, &[&sent(&noted("ada", 1))]);
    late.stage.batch(raise.next(), batch(raise.next().number(), 1, &[ask]));
    late.finish();
    assert_eq!(early.whole(), late.whole());
    late.raise(2);
    early.raise(1);
    assert_eq!((early.level(), late.level()), (2, 2), "a level that is there is not raised, and none falls");
    assert_eq!(early.whole(), late.whole());
}

/// What a failed migration did to the state is taken back, and the service goes on at the level of before.
#[test]
pub(crate) fn a_migration_that_fails_leaves_state_and_level() {
    let (mut program, mut other) = (Program::new(), Program::new());
    for program in [&mut program, &mut other] {
        program.run(&pay("ada", -5));
    }
    program.raise(2);
    let next = other.stage.agreed().seq().next();
    other.stage.batch(next, batch(next.number(), 1, &[]));
    other.finish();
    assert_eq!(program.level(), 1);
    assert_eq!(program.whole(), other.whole(), "as if there had been no raise");
    let raise = program.stage.state().service_raise().cloned().expect("it is told");
    assert_eq!((raise.level, raise.failed.as_deref()), (2, Some("an account is overdrawn")));
    let reply = program.run(&sent(&noted("ada", 1)));
    assert_eq!(decode_reply::<i64>(&reply), Err(TypedError::TooNew { needs: 2, level: 1 }));
    program.run(&pay("ada", 5));
    program.raise(2);
    assert_eq!(program.level(), 2, "it can be tried again");
}

/// A program that says it has a version, and has no migration, is not raised.
#[test]
fn a_missing_migration_raises_nothing() {
    #[derive(Default, Serialize, Deserialize)]
    struct Forgot(u64);
    impl TypedService for Forgot {
        type Command = u64;
        type Reply = u64;
        type Query = ();
        type Answer = u64;
        const VERSION: u32 = 2;
        fn execute(&mut self, more: u64, _: &Context) -> u64 {
            self.0 += more;
            self.0
        }
        fn query(&self, (): (), _: &Context) -> u64 {
            self.0
        }
    }
    let mut program = Program::of(Box::new(Typed(Forgot::default())));
    program.raise(2);
    let raise = program.stage.state().service_raise().cloned().expect("it is told");
    assert_eq!(program.level(), 1);
    assert!(raise.failed.expect("it failed").contains("has no `migrate`"));
}

/// States and commands of programs from before names and versions are read.
#[test]
fn what_was_written_before_is_read() {
    let mut bytes = Vec::new();
    for (name, balance) in [("ada", 10), ("bob", 3)] {
        bytes.extend([3]);
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(balance);
    }
    let bytes = [vec![2], bytes].concat();
    let mut bank = Typed(new::Bank { notes: BTreeMap::new(), ..new::Bank::default() });
    assert!(bank.restore(&mut bytes.as_slice()).is_err(), "a field of the second version is missing there");
    let mut bank = Typed(old::Bank::default());
    bank.restore(&mut bytes.as_slice()).expect("postcard");
    assert_eq!(bank.0.accounts["ada"], 5, "zigzag");
    let mut program = Program::old();
    let bare = [vec![0, 3], b"ada".to_vec(), vec![8]].concat();
    assert_eq!(program.run(&bare), [0, 8], "and answered in its form");
}

/// A state with a field that this program does not know is refused: what the field held would be lost.
#[test]
fn a_state_of_a_newer_program_is_refused() {
    let mut bank = new::Bank::default();
    bank.notes.insert("ada".into(), "rent".into());
    let mut bytes = Vec::new();
    Typed(bank).checkpoint(&mut bytes).expect("a vector takes everything");
    let refused = Typed(old::Bank::default()).restore(&mut bytes.as_slice()).expect_err("too new");
    assert!(refused.to_string().contains("the service's state"), "{refused}");
}
