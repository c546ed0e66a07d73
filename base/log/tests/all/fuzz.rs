//! The body of the fuzz target over a corpus: real logs, whole and damaged at random, and plain noise.

use crate::common::{Rng, record};
use quorate_log::fuzzing::{LOG_ID, SEGMENT_BYTES, config, fuzz_segment};
use quorate_log::{Class, Log, LogEffect};

/// A log of a few blocks in two segments, as bytes.
fn real_log(rng: &mut Rng) -> Vec<u8> {
    let mut disk = vec![0; SEGMENT_BYTES * 2];
    let mut log = Log::create(LOG_ID, config());
    for _ in 0..rng.below(25) {
        let payload = vec![rng.next() as u8; rng.below(1200) as usize];
        let _ = log.append(record(1, 2, b"head", &payload), Class::Vital);
        while let Some(effect) = log.poll() {
            match effect {
                LogEffect::Write(write) => {
                    let from = write.segment as usize * SEGMENT_BYTES + write.offset as usize;
                    let bytes = write.data.concat();
                    if let Some(place) = disk.get_mut(from..from + bytes.len()) {
                        place.copy_from_slice(&bytes);
                    }
                    log.written(write.id);
                }
                LogEffect::Prepare { segment } => log.prepared(segment, Ok(())),
                LogEffect::Sync { id, .. } => log.synced(id),
            }
        }
    }
    disk
}

#[test]
fn damaged_logs_never_panic() {
    let mut rng = Rng(1);
    for round in 0..3000 {
        let first = if rng.below(4) == 0 { rng.below(5) as u8 } else { 0 };
        let sealed = if rng.coin() { 0x80 } else { 0 };
        let mut data = vec![first | sealed];
        data.extend(real_log(&mut rng));
        for _ in 0..round % 6 {
            // Half of the damage goes where lengths, counts and numbers stand.
            let sector = rng.below((data.len() as u64 - 1) / 512) * 512;
            let span = if rng.coin() { 112 } else { 512 };
            let at = 1 + (sector + rng.below(span)) as usize;
            data[at] = if rng.coin() { data[at] ^ (1 << rng.below(8)) } else { rng.next() as u8 };
        }
        if rng.below(8) == 0 {
            data.truncate(rng.below(data.len() as u64) as usize);
        }
        fuzz_segment(&data);
    }
}

#[test]
fn noise_never_panics() {
    let mut rng = Rng(2);
    fuzz_segment(&[]);
    for _ in 0..500 {
        let len = rng.below(3 * SEGMENT_BYTES as u64);
        let mut data: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
        for at in (1..data.len().saturating_sub(4)).step_by(512) {
            data[at..at + 4].copy_from_slice(b"QLOG");
        }
        fuzz_segment(&data);
    }
}
