//! An era on disk: it is read as it was written, counts only once all of it is there, and what was before goes after that.

use super::{ERA_FILE, EraOnDisk, clean, enter, place};
use bytes::Bytes;
use quorate_node::{NextEra, System};
use quorate_order::Protocol;
use quorate_state::checkpoint::{Image, Keeper};
use quorate_state::store::Store;
use quorate_types::{ClusterId, Digest, FaultModel, MembershipId, ReplicaId, Seq};
use quorate_wire::{Era, EraFaults, EraNotice, Member, Membership};
use std::collections::BTreeMap;
use std::fs;

const SEGMENT: u64 = 1 << 20;

fn next(number: u64) -> NextEra {
    let member = |id: u16| Member {
        key: Some([id as u8; 32]),
        life: u64::from(id),
        address: format!("127.0.0.1:{id}"),
        ..Member::voter(ReplicaId::new(id))
    };
    let era = Era {
        number,
        protocol: Protocol::MOD_SMART.row().number,
        faults: EraFaults { model: FaultModel::Byzantine, most: None },
        members: Membership::new(MembershipId::FIRST, (1..=4).map(member).collect()).expect("members"),
        administrators: None,
    };
    let system = System::beginning(ClusterId::new(7), Protocol::MOD_SMART, 4, 3, Bytes::new());
    let image =
        Image { seq: Seq::FIRST, border: 1, system: system.encode(), objects: Store::new().version() };
    let lives = BTreeMap::from([(ReplicaId::new(1), u64::MAX), (ReplicaId::new(2), 5)]);
    NextEra { notice: EraNotice { began: Seq::FIRST, before: Digest::new([3; 32]), era }, image, lives }
}

#[test]
fn an_era_is_read_as_it_was_entered() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path();
    assert_eq!(EraOnDisk::read(data).expect("readable"), None, "the first era has no file");
    let next = next(2);
    enter(data, &next, SEGMENT).expect("it is entered");
    let read = EraOnDisk::read(data).expect("readable").expect("an era");
    assert_eq!((read.notice, read.lives), (next.notice, next.lives));
    let mut files = crate::CheckpointFiles::new(&place(data, 2).join("checkpoints")).expect("checkpoints");
    let (_, opened) = Keeper::open(&mut files, false).expect("they open");
    assert_eq!(opened.image.map(|image| image.digest()), Some(next.image.digest()));
    assert!(fs::read_dir(place(data, 2).join("log")).expect("a log").next().is_some(), "it has a file");
}

#[test]
fn until_the_file_is_there_the_era_before_counts() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path();
    fs::create_dir(data.join("log")).expect("the log of the first era");
    // A process that died on its way left a part of the next one.
    fs::create_dir_all(place(data, 2).join("log")).expect("a part");
    fs::write(place(data, 2).join("log/rest"), "of an attempt").expect("a part");
    assert_eq!(EraOnDisk::read(data).expect("readable"), None);
    clean(data, 1);
    assert!(data.join("log").exists() && !place(data, 2).exists(), "what nobody needs goes");
    fs::create_dir_all(place(data, 2).join("log")).expect("a part");
    fs::write(place(data, 2).join("log/rest"), "of an attempt").expect("a part");
    enter(data, &next(2), SEGMENT).expect("it is entered");
    assert!(!place(data, 2).join("log/rest").exists() && data.join("log").exists());
    clean(data, 2);
    assert!(!data.join("log").exists() && place(data, 2).exists());
    enter(data, &next(3), SEGMENT).expect("the next one");
    clean(data, 3);
    assert!(!place(data, 2).exists() && place(data, 3).exists());
}

#[test]
fn a_damaged_file_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path();
    enter(data, &next(2), SEGMENT).expect("it is entered");
    let text = fs::read_to_string(data.join(ERA_FILE)).expect("the file");
    for (from, to) in
        [("number = 2", "number = 3"), ("format = 1", "format = 2"), ("notice = \"", "notice = \"zz")]
    {
        fs::write(data.join(ERA_FILE), text.replacen(from, to, 1)).expect("written");
        let why = EraOnDisk::read(data).expect_err("it is damaged").to_string();
        assert!(why.contains(ERA_FILE), "{why}");
    }
}
