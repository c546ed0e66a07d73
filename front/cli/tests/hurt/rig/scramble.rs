//! What a machine that loses power does to a log: everything that was not synced may be anything.

use super::cluster::Cluster;
use super::random::Random;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const SECTOR: u64 = 512;
/// The fields of a block's header that are used here (docs/formats/log.md).
const MAGIC: &[u8] = b"QLOG";
const HEADER: u64 = 64;
const LEN: usize = 24;
const COUNT: usize = 28;
/// Those of a record, and the kinds VOTE and FLOOR.
const RECORD: u64 = 24;
const INSTANCE: usize = 12;
const KIND: usize = 14;
const KINDS_WITH_VOTE: [u8; 2] = [2, 3];

/// By segment, where the last sync of all lives of this replica ended that is known to have completed. A segment that was
/// never synced with anything in it is not there.
pub(crate) fn synced(cluster: &Cluster, at: usize) -> BTreeMap<u64, u64> {
    let mut ends = BTreeMap::new();
    for trace in cluster.traces(at) {
        let text = std::fs::read_to_string(trace).unwrap_or_default();
        // A last line without its end: the process was killed before it told anybody of that sync.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            let line: serde_json::Value = serde_json::from_str(line).expect("a line of the trace");
            let (segment, end) = (line["segment"].as_u64().unwrap(), line["end"].as_u64().unwrap());
            let known: &mut u64 = ends.entry(segment).or_default();
            *known = end.max(*known);
        }
    }
    ends
}

fn segments(cluster: &Cluster, at: usize) -> Vec<(u64, PathBuf)> {
    let files = std::fs::read_dir(cluster.log(at)).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<(u64, PathBuf)> = files
        .filter_map(|path| {
            let number = path.file_name()?.to_str()?.strip_suffix(".segment")?.parse().ok()?;
            Some((number, path))
        })
        .collect();
    segments.sort();
    segments
}

/// Spoils what the replica, which is down, never synced. Returns in how many ways.
pub(crate) fn scramble(cluster: &Cluster, at: usize, random: &mut Random) -> u32 {
    let synced = synced(cluster, at);
    let mut ways = 0;
    for (number, path) in segments(cluster, at) {
        let from = synced.get(&number).copied().unwrap_or(0);
        assert!(from.is_multiple_of(SECTOR), "a sync ends with a whole sector, not at {from}");
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let size = file.metadata().unwrap().len();
        if from < size {
            ways += u32::from(one_way(&file, from, size, random));
        }
        let now = file.metadata().unwrap().len();
        assert_eq!(now, size, "{}: the test must not change its size", path.display());
    }
    ways
}

fn one_way(file: &File, from: u64, size: u64, random: &mut Random) -> bool {
    let near = size.min(from + (1 << 20));
    match random.below(7) {
        0 => return false, // as the process left it
        1 => write(file, from, &random.bytes((near - from).min(64 << 10) as usize)),
        2 => write(file, from, &vec![0; (near - from) as usize]),
        3 | 4 => some_sectors(file, from, near, random),
        5 => half_a_block(file, from, size, random),
        _ => cut_the_tail(file, from, near, random),
    }
    true
}

/// Sectors reach the disk in any order, or not at all; some hold garbage.
fn some_sectors(file: &File, from: u64, to: u64, random: &mut Random) {
    for sector in (from..to).step_by(SECTOR as usize) {
        match random.below(4) {
            0 => write(file, sector, &[0; SECTOR as usize]),
            1 => write(file, sector, &random.bytes(SECTOR as usize)),
            _ => {}
        }
    }
}

/// Something that looks like a block: a copy of an older one, cut off in the middle or whole.
fn half_a_block(file: &File, from: u64, size: u64, random: &mut Random) {
    let blocks = blocks(file, from);
    if blocks.is_empty() {
        return write(file, from, &random.bytes(SECTOR as usize));
    }
    let block = blocks[random.below(blocks.len() as u64) as usize];
    let len = if random.percent(70) { block.len / 2 + random.below(SECTOR) } else { block.len };
    let mut bytes = vec![0; len.min(size - from) as usize];
    file.read_exact_at(&mut bytes, block.at).unwrap();
    write(file, from, &bytes);
}

/// The beginning of what was written stays.
fn cut_the_tail(file: &File, from: u64, to: u64, random: &mut Random) {
    let keep = random.below(8 * SECTOR).min(to - from);
    write(file, from + keep, &vec![0; (to - from - keep) as usize]);
}

fn write(file: &File, at: u64, bytes: &[u8]) {
    file.write_all_at(bytes, at).unwrap();
}

/// A block in a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) at: u64,
    pub(crate) len: u64,
    pub(crate) records: u32,
}

/// The blocks of a segment that end before `to`.
fn blocks(file: &File, to: u64) -> Vec<Block> {
    let (mut blocks, mut at) = (Vec::new(), 0);
    while at + HEADER <= to {
        let mut header = [0; HEADER as usize];
        file.read_exact_at(&mut header, at).unwrap();
        let number = |from: usize| u32::from_le_bytes(*header[from..].first_chunk().unwrap());
        let (len, records) = (u64::from(number(LEN)), number(COUNT));
        if &header[..4] != MAGIC || len == 0 {
            break;
        }
        blocks.push(Block { at, len, records });
        at += len;
    }
    blocks
}

/// The last `count` blocks that a replica synced are gone, as if its disk had only said that it has them. The replica is down.
pub(crate) fn forget_end(cluster: &Cluster, at: usize, count: usize) {
    let (&last, &end) = synced(cluster, at).last_key_value().expect("it synced something");
    let (_, path) =
        segments(cluster, at).into_iter().find(|(number, _)| *number == last).expect("it is there");
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let size = file.metadata().unwrap().len();
    let blocks = blocks(&file, end);
    // What the node notes once, of itself and the others, and the latest vote stay: who forgets those does not start.
    let first =
        blocks.iter().rposition(|block| has(&file, block, |head| is_vote(head) || is_of_the_node(head)));
    let first = first.map_or(0, |at| at + 1).max(blocks.len().saturating_sub(count));
    let from = blocks.get(first).expect("there are blocks behind its vote").at;
    write(&file, from, &vec![0; (size.min(end + (1 << 20)) - from) as usize]);
}

/// What the damage is before or behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    /// Records behind it say view and vote again.
    BeforeVote,
    /// None does.
    BehindVotes,
    /// Either may be.
    Anywhere,
}

/// One byte that lies below synced data, and its value.
pub(crate) struct Damage {
    path: PathBuf,
    at: u64,
    was: u8,
}

impl Damage {
    /// Flips a byte of a record that was synced long before the end of the log, while the replica is down.
    pub(crate) fn new(cluster: &Cluster, at: usize, spot: Spot, random: &mut Random) -> Self {
        let (_, path) = segments(cluster, at).swap_remove(0);
        let end = synced(cluster, at)[&0];
        let file = File::open(&path).unwrap();
        let blocks = blocks(&file, end);
        // So many blocks come behind it that one of them knows that it was synced.
        let early = blocks.len().saturating_sub(10);
        let votes = blocks.iter().rposition(|block| has(&file, block, is_vote)).expect("it voted");
        let there = match spot {
            // The very first block is what all numbers begin with.
            Spot::BeforeVote => 1..votes.min(early),
            Spot::BehindVotes => votes + 1..early,
            Spot::Anywhere => 0..early,
        };
        // What the node notes once, of itself and the others, no later vote makes good: that replica does not start.
        let lasting = |block: &Block| spot == Spot::BeforeVote && has(&file, block, is_of_the_node);
        let fits = |block: &&Block| block.records > 0 && !lasting(block);
        let there: Vec<Block> = blocks[there].iter().filter(fits).copied().collect();
        let block = there[random.below(there.len() as u64) as usize];
        // Behind the checksum and the length of the first record, inside what it says of itself and of its command.
        let offset = if random.percent(50) { random.below(60) } else { HEADER + 12 + random.below(24) };
        let damage = Self { at: block.at + offset, was: byte(&path, block.at + offset), path };
        damage.set(damage.was ^ 1 << random.below(8));
        damage
    }

    pub(crate) fn repair(&self) {
        self.set(self.was);
    }

    fn set(&self, value: u8) {
        let file = OpenOptions::new().write(true).open(&self.path).unwrap();
        write(&file, self.at, &[value]);
    }
}

/// Whether a block has such records (docs/formats/log.md).
fn has(file: &File, block: &Block, fits: impl Fn(&[u8; RECORD as usize]) -> bool) -> bool {
    let mut at = block.at + HEADER;
    (0..block.records).any(|_| {
        let mut head = [0; RECORD as usize];
        file.read_exact_at(&mut head, at).unwrap();
        at += RECORD + u64::from(u32::from_le_bytes(*head[4..].first_chunk().unwrap()));
        fits(&head)
    })
}

/// Whether it says view and vote (docs/protocols/raft.md).
fn is_vote(head: &[u8; RECORD as usize]) -> bool {
    !is_of_the_node(head) && KINDS_WITH_VOTE.contains(&head[KIND])
}

/// Whether it is of no instance.
fn is_of_the_node(head: &[u8; RECORD as usize]) -> bool {
    head[INSTANCE..INSTANCE + 2] == [0, 0]
}

fn byte(path: &Path, at: u64) -> u8 {
    let mut byte = [0];
    File::open(path).unwrap().read_exact_at(&mut byte, at).unwrap();
    byte[0]
}
