//! A service for measurements: it counts commands, sums their contents, and answers a whole request with one reply. Its own cost is
//! negligible beside that of replication. A lost, repeated or damaged command shows in the sum.

use quorate_execute::{
    BatchReplies, CheckpointError, CheckpointSink, CheckpointSource, Context, ReplySink, Service, read_exact,
};
use quorate_types::Items;

/// The count and the sum so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of commands.
    pub count: u64,
    /// The wrapping sum of their 8-byte words, little-endian. An incomplete last word is filled up with zeros.
    pub sum: u64,
}

impl Totals {
    /// Decodes an answer of [`Tally`]; `None` when the bytes are something else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (count, sum) = bytes.split_first_chunk::<8>()?;
        let sum = <[u8; 8]>::try_from(sum).ok()?;
        Some(Self { count: u64::from_le_bytes(*count), sum: u64::from_le_bytes(sum) })
    }
    /// The totals as 16 bytes: count, sum.
    pub fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.count.to_le_bytes());
        bytes[8..].copy_from_slice(&self.sum.to_le_bytes());
        bytes
    }
    /// Counts one command.
    pub fn add(&mut self, command: &[u8]) {
        self.count = self.count.wrapping_add(1);
        self.sum = self.sum.wrapping_add(sum(command));
    }
}

/// The service. Commands and queries are any bytes; it answers a request, or a query, with [`Totals`].
#[derive(Clone, Debug, Default)]
pub struct Tally {
    totals: Totals,
}

impl Service for Tally {
    fn execute(&mut self, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        self.totals.add(command);
        reply.write(&self.totals.encode());
    }

    fn execute_batch(&mut self, commands: Items<'_>, _: &Context, replies: &mut BatchReplies) {
        if commands.common_len().is_some_and(|len| len % 8 == 0) {
            // Whole words everywhere: where one command ends does not matter for the sum.
            self.totals.count = self.totals.count.wrapping_add(commands.len() as u64);
            self.totals.sum = self.totals.sum.wrapping_add(sum(commands.bytes()));
        } else {
            commands.iter().for_each(|command| self.totals.add(command));
        }
        replies.push(&self.totals.encode());
    }

    fn query(&self, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(&self.totals.encode());
    }

    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        out.write(&self.totals.encode())
    }

    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        let mut bytes = [0; 16];
        read_exact(from, &mut bytes)?;
        self.totals = Totals::decode(&bytes).ok_or(CheckpointError::Malformed("totals"))?;
        if from.read(&mut [0])? == 0 {
            Ok(())
        } else {
            Err(CheckpointError::Malformed("bytes after the totals"))
        }
    }
}

fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().fold(u64::from_le_bytes(last), |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
}
