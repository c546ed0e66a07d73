//! Requests under way in a checkpoint: what is wrong there is refused, and never a danger.

use super::histories::Log;
use super::service::steps;
use super::world::Replica;
use proptest::prelude::*;
use quorate_execute::{
    CheckpointError, Executor, ImageParts, NestedRules, Schedule, ServiceId, SessionLimits, fuzzing,
};
use quorate_types::{AgreedTime, Span};
use std::fs;
use std::path::Path;

fn rules(schedule: Schedule) -> NestedRules {
    NestedRules::of(ServiceId(1), schedule)
}

/// Where the requests under way begin in a system part.
fn begin(system: &[u8]) -> usize {
    system.windows(8).rposition(|window| window == b"quonest\x01").expect("requests under way")
}

/// The richest state of a random history.
fn image(rules: &NestedRules, seed: u64, apart: u64) -> ImageParts {
    let log = Log::random(rules, seed, apart).played(seed);
    let mut replica = Replica::new(&log.rules);
    let images = log.batches.iter().map(|place| {
        replica.run(place);
        replica.image()
    });
    images.max_by_key(|image| image.system.len() - begin(&image.system)).expect("a batch")
}

fn restored(system: &[u8], image: &ImageParts) -> Result<Executor, CheckpointError> {
    let service = steps(&rules(Schedule::Answered));
    let mut executor = Executor::new(service, SessionLimits::default(), AgreedTime::ZERO);
    executor.restore_image(system, &image.objects)?;
    executor.invariants(true);
    Ok(executor)
}

fn images() -> [(&'static str, ImageParts); 5] {
    let (answered, ring) = (rules(Schedule::Answered), rules(Schedule::Ring(3)));
    // Some of what it asked was given up.
    let late = NestedRules { patience: Span::from_nanos(5), ..answered.clone() };
    [
        ("answered_1", image(&answered, 1, 0)),
        ("answered_2", image(&answered, 2, 0)),
        ("ring_1", image(&ring, 1, 0)),
        ("ring_2", image(&ring, 2, 0)),
        ("late", image(&late, 3, 3)),
    ]
}

#[test]
fn what_is_cut_off_is_refused() {
    for (name, image) in images() {
        assert!(restored(&image.system, &image).is_ok(), "{name}");
        for len in begin(&image.system) + 1..image.system.len() {
            assert!(restored(&image.system[..len], &image).is_err(), "{name} cut off at {len}");
        }
        let longer = [&image.system[..], &[0]].concat();
        assert!(matches!(restored(&longer, &image), Err(CheckpointError::Malformed(_))), "{name}");
    }
}

/// A service that asks nobody has no requests under way, and one that asks others always has that part.
#[test]
fn a_checkpoint_of_another_kind_of_service_is_refused() {
    let (_, image) = &images()[0];
    assert!(matches!(
        restored(&image.system[..begin(&image.system)], image),
        Err(CheckpointError::Malformed(_))
    ));
    let service = Box::new(crate::support::Echo::default());
    let mut plain = Executor::new(service, SessionLimits::default(), AgreedTime::ZERO);
    assert!(matches!(plain.restore_image(&image.system, &image.objects), Err(CheckpointError::Malformed(_))));
}

/// The seeds of the fuzz target are states of random histories; each file of the corpus is read.
#[test]
fn the_corpus_is_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/nested_part");
    fs::create_dir_all(&folder).expect("the corpus can be created");
    for (name, image) in images() {
        let (path, bytes) = (folder.join(format!("seed_{name}")), &image.system[begin(&image.system)..]);
        if std::env::var_os("QUORATE_APPROVE").is_some() {
            fs::write(&path, bytes).expect("a seed can be written");
        }
        let found = fs::read(&path).unwrap_or_default();
        assert!(found == bytes, "{path:?} is out of date; write it anew with QUORATE_APPROVE=1");
    }
    for file in fs::read_dir(folder).expect("the corpus is there") {
        fuzzing::nested_part(&fs::read(file.expect("an entry").path()).expect("a readable file"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Damaged bytes are refused, or are another state that holds its invariants and goes on; never a panic.
    #[test]
    fn damage_is_no_danger(which in 0..5_usize, damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let (_, image) = &images()[which];
        let mut system = image.system.clone();
        let from = begin(&system) + 8;
        for (at, value) in damage {
            let at = from + at.index(system.len() - from);
            system[at] = value;
        }
        fuzzing::nested_part(&system[from - 8..]);
        if let Ok(mut executor) = restored(&system, image) {
            let mut out = quorate_execute::Outcomes::new();
            let late = crate::support::batch(1 << 62, 1, &[]);
            executor.execute(executor.seq().next(), &late, &mut out);
            executor.invariants(true);
        }
    }
}
