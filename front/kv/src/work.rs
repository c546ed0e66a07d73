//! A service for measurements of execution: its commands take as long as they say, and change objects. They may run at the same time.
//!
//! After the key-value store of Eve's evaluation (Kapritsos, dissertation, section 3.5.2): the work, the size of the objects and the rate of
//! conflicts are the client's choice.
//!
//! It also has a bug on purpose, for commands that ask for it ([`WorkCommand::table`]): something that it holds outside of its state, where nobody
//! sees how commands meet. After the row counter of H2 (section 3.5.4).

use quorate_execute::{Context, KeyUse, ParallelService, ReplySink, StateView};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The most objects that a command changes.
const OBJECTS_MAX: usize = 64;
/// The largest object.
const BYTES_MAX: u32 = 1 << 20;
/// The longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// The most rounds of computing: some ten seconds.
const ROUNDS_MAX: u64 = 1 << 34;
/// How many tables there are.
const TABLES: usize = 64;
/// Bytes before the numbers of the objects.
const HEAD: usize = 25;

/// A command: how it spends its time, and which objects it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkCommand {
    /// How long it sleeps, in microseconds.
    pub sleep_us: u32,
    /// How many rounds it computes ([`compute`]).
    pub rounds: u64,
    /// The size of each object.
    pub object_bytes: u32,
    /// Its hints name nothing, as those of a service that forgets some keys.
    pub hidden: bool,
    /// Its hints also name this object, which it does not use.
    pub also: Option<u32>,
    /// It takes this table of the service's own memory, one of 64, for the first tenth of its time. If another command has it then, this one forgets to count
    /// its change of the first object: the bug. No hint names tables.
    pub table: Option<u32>,
    /// The numbers of the objects, 64 at most.
    pub objects: Vec<u32>,
}

impl WorkCommand {
    /// It has its table for its time divided by this, at its beginning.
    pub const TABLE_PART: u32 = 10;

    /// Its bytes: `sleep u32 | rounds u64 | object bytes u32 | flags u8 | also u32 | table u32 | object u32 ...`, little-endian. The flags are 1 if
    /// it is hidden, 2 if its hints name another object, too, and 4 if it takes a table.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.sleep_us.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.rounds.to_le_bytes());
        bytes.extend_from_slice(&self.object_bytes.to_le_bytes());
        let flags = [self.hidden, self.also.is_some(), self.table.is_some()];
        bytes.push(flags.iter().rev().fold(0, |all, flag| all << 1 | u8::from(*flag)));
        bytes.extend_from_slice(&self.also.unwrap_or(0).to_le_bytes());
        bytes.extend_from_slice(&self.table.unwrap_or(0).to_le_bytes());
        self.objects.iter().for_each(|object| bytes.extend_from_slice(&object.to_le_bytes()));
        bytes
    }

    /// Reads a command; `None` if the bytes are none, or it is over a limit.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, list) = bytes.split_at_checked(HEAD)?;
        let number = |at: usize| head[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let rounds = u64::from_le_bytes(*head[4..].first_chunk()?);
        let (chunks, rest) = list.as_chunks::<4>();
        let objects: Vec<u32> = chunks.iter().map(|object| u32::from_le_bytes(*object)).collect();
        let (flags, also, table) = (head[16], number(17)?, number(21)?);
        let (hidden, also) = (flags & 1 > 0, (flags & 2 > 0).then_some(also));
        let table = (flags & 4 > 0).then_some(table);
        let command =
            Self { sleep_us: number(0)?, rounds, object_bytes: number(12)?, hidden, also, table, objects };
        let sleep = Duration::from_micros(command.sleep_us.into());
        let fits = sleep <= SLEEP_MAX
            && rounds <= ROUNDS_MAX
            && command.object_bytes <= BYTES_MAX
            && (1..=OBJECTS_MAX).contains(&command.objects.len())
            && flags < 8
            && command.table.is_none_or(|table| (table as usize) < TABLES)
            && rest.is_empty();
        fits.then_some(command)
    }
}

/// Computes: each round takes about a nanosecond.
pub fn compute(rounds: u64) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..rounds {
        state = black_box(state ^ round).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29);
    }
    state
}

/// The tables that commands take and leave: memory of a service outside of its state.
pub trait Tables: Send + Sync {
    /// A command takes a table. Whether nobody had it.
    fn take(&self, table: u32) -> bool;

    /// The command that took it leaves it.
    fn leave(&self, table: u32);
}

/// A flag for each table: whether a command has it.
struct Flags([AtomicBool; TABLES]);

impl Tables for Flags {
    fn take(&self, table: u32) -> bool {
        self.0.get(table as usize).is_none_or(|flag| !flag.swap(true, Ordering::AcqRel))
    }

    fn leave(&self, table: u32) {
        if let Some(flag) = self.0.get(table as usize) {
            flag.store(false, Ordering::Release);
        }
    }
}

/// The service. Commands are those of [`WorkCommand`]; each is answered with how often its first object was changed. A query is answered with how
/// many changes there were in all, 8 bytes.
pub struct Work {
    tables: Box<dyn Tables>,
}

impl Work {
    /// With other tables, such as those of a simulation.
    pub fn with(tables: Box<dyn Tables>) -> Self {
        Self { tables }
    }

    /// Takes its time. Whether the command had its table for itself.
    fn spend(&self, command: &WorkCommand) -> bool {
        let time = Duration::from_micros(command.sleep_us.into());
        let had = command.table.map(|table| (table, self.tables.take(table)));
        if let Some((table, true)) = had {
            sleep(time / WorkCommand::TABLE_PART);
            self.tables.leave(table);
            sleep(time - time / WorkCommand::TABLE_PART);
        } else {
            sleep(time);
        }
        had.is_none_or(|(_, alone)| alone)
    }
}

impl Default for Work {
    fn default() -> Self {
        Self::with(Box::new(Flags([const { AtomicBool::new(false) }; TABLES])))
    }
}

fn sleep(time: Duration) {
    if !time.is_zero() {
        std::thread::sleep(time);
    }
}

/// How often an object was changed.
fn changes(object: Option<&[u8]>) -> u64 {
    object.and_then(<[u8]>::first_chunk).map_or(0, |count| u64::from_le_bytes(*count))
}

impl ParallelService for Work {
    fn execute(&self, view: &mut StateView<'_>, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let Some(command) = WorkCommand::decode(command) else { return reply.write(b"no command") };
        let counts = self.spend(&command);
        let computed = compute(command.rounds);
        for (at, object) in command.objects.iter().enumerate() {
            let key = object.to_be_bytes();
            let count = changes(view.get(&key).as_deref()) + u64::from(at > 0 || counts);
            let mut value = vec![computed as u8; 8.max(command.object_bytes as usize)];
            value[..8].copy_from_slice(&count.to_le_bytes());
            view.set(&key, &value);
            if at == 0 {
                reply.write(&count.to_le_bytes());
            }
        }
    }

    fn query(&self, view: &StateView<'_>, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let all: u64 = view.range(b"", None).map(|(_, object)| changes(Some(&object))).sum();
        reply.write(&all.to_le_bytes());
    }

    fn hints(&self, command: &[u8], uses: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        let Some(command) = WorkCommand::decode(command) else { return true };
        let own = command.objects.iter().filter(|_| !command.hidden);
        own.chain(&command.also).for_each(|object| uses(KeyUse::Write(&object.to_be_bytes())));
        true
    }

    fn keys(&self, bytes: &[u8], is_query: bool, used: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        if is_query {
            used(KeyUse::ReadRange { start: b"", end: None });
        } else if let Some(command) = WorkCommand::decode(bytes) {
            command.objects.iter().for_each(|object| used(KeyUse::Write(&object.to_be_bytes())));
        }
        true
    }
}

#[cfg(test)]
mod tests;
