//! One file by itself: any bit that turns over anywhere is noticed, what is read from a sound one is the image, and nothing is
//! ever written.

use crate::checkpoint_common::{Disk, Rng};
use quorate_state::checkpoint::{
    Image, Job, Keeper, Kind, PIECE_BYTES, Report, Single, Step, SystemPart, Unusable,
};
use quorate_state::store::Store;
use quorate_types::Seq;

/// An image with system bytes of several pieces, and objects of several chunks.
pub(crate) fn image(rng: &mut Rng, objects: u64) -> Image {
    let mut store = Store::new();
    for _ in 0..objects {
        let key = rng.below(1 << 40).to_be_bytes();
        let len = rng.below(200) as usize;
        store.put(&key, &rng.bytes(len));
    }
    let (order, execution) = (rng.bytes(PIECE_BYTES + 77).into(), rng.bytes(2 * PIECE_BYTES + 5).into());
    let system = SystemPart { order, execution };
    Image { seq: Seq::new(90 + objects), border: 3, system, objects: store.version() }
}

fn work(keeper: &mut Keeper, disk: &mut Disk) -> Vec<Report> {
    while keeper.step(disk) != Step::Idle {}
    keeper.reports().collect()
}

/// The bytes of a file with this image.
pub(crate) fn file_of(image: &Image) -> Vec<u8> {
    let mut disk = Disk::default();
    let (mut keeper, _) = Keeper::open(&mut disk, false).expect("an empty disk");
    keeper.submit(Job::Install { image: image.clone() });
    work(&mut keeper, &mut disk);
    let names = disk.names();
    assert_eq!(names.len(), 1, "{names:?}");
    disk.content(&names[0])
}

pub(crate) fn with(bytes: Vec<u8>) -> Disk {
    let mut disk = Disk::default();
    disk.put("any name", bytes);
    disk
}

/// What is wrong with it, if anything.
pub(crate) fn examine(disk: &mut Disk) -> Result<Image, String> {
    let single = Single::open(disk, "any name").map_err(|why| why.to_string())?;
    let places = single.verify(disk, &mut |_| ());
    if !places.is_empty() {
        return Err(format!("{places:?}"));
    }
    single.load(disk, &mut |_| ()).map_err(|why| why.to_string())
}

#[test]
fn a_sound_file_gives_its_image_under_any_name() {
    let image = image(&mut Rng::new(1), 3000);
    let bytes = file_of(&image);
    let mut disk = with(bytes.clone());
    let single = Single::open(&mut disk, "any name").expect("it is sound");
    assert_eq!((single.digest(), single.bytes()), (image.digest(), bytes.len() as u64));
    assert_eq!((single.manifest().seq(), single.manifest().border()), (image.seq, 3));
    assert_eq!(single.system(&mut disk).expect("it is sound"), image.system);
    let mut progress = Vec::new();
    assert_eq!(single.verify(&mut disk, &mut |done| progress.push(done)), []);
    assert_eq!(progress.last(), Some(&(bytes.len() as u64)), "every byte is read");
    let loaded = single.load(&mut disk, &mut |_| ()).expect("it is sound");
    assert_eq!((loaded.digest(), loaded.objects.len()), (image.digest(), image.objects.len()));
    assert_eq!(disk.content("any name"), bytes);
    assert_eq!(file_of(&loaded), bytes, "the same image is the same file");
}

#[test]
fn every_bit_that_turns_over_is_noticed_and_nothing_is_mended() {
    let image = image(&mut Rng::new(2), 60);
    let bytes = file_of(&image);
    let mut disk = with(bytes.clone());
    for at in 0..bytes.len() {
        disk.flip("any name", at, at as u32);
        let found = examine(&mut disk);
        assert!(found.is_err(), "byte {at} of {}", bytes.len());
        disk.flip("any name", at, at as u32);
    }
    assert_eq!(disk.content("any name"), bytes);
    examine(&mut disk).expect("it is sound");
}

#[test]
fn a_file_that_is_cut_or_longer_is_noticed() {
    let bytes = file_of(&image(&mut Rng::new(3), 500));
    let mut rng = Rng::new(4);
    for _ in 0..200 {
        let mut changed = bytes.clone();
        if rng.one_in(2) {
            changed.truncate(rng.below(bytes.len() as u64) as usize);
        } else {
            let more = 1 + rng.below(9000) as usize;
            changed.extend(rng.bytes(more));
        }
        let len = changed.len();
        assert!(examine(&mut with(changed)).is_err(), "{len} of {}", bytes.len());
    }
    let what = |bytes: Vec<u8>| Single::open(&mut with(bytes), "any name").err().map(|why| why.to_string());
    assert_eq!(what(Vec::new()).as_deref(), Some("it is no checkpoint"));
    assert_eq!(what(vec![7; 20_000]).as_deref(), Some("it is no checkpoint"));
    let cut = what(bytes[..bytes.len() - 1].to_vec()).expect("it is damaged");
    assert!(cut.starts_with("it is damaged: its end is gone"), "{cut}");
}

#[test]
fn a_differential_checkpoint_is_not_taken_for_a_whole_one() {
    let mut disk = Disk::default();
    let (mut keeper, _) = Keeper::open(&mut disk, false).expect("an empty disk");
    let (mut rng, mut store) = (Rng::new(5), Store::new());
    for border in 1..=2 {
        (0..2000).for_each(|_| _ = store.put(&rng.below(1 << 40).to_be_bytes(), &[7; 90]));
        let (seq, system) = (Seq::new(border * 10), SystemPart::from("system"));
        let image = Image { seq, border, system, objects: store.version() };
        keeper.submit(Job::Border { image, write: Some(Kind::Differential) });
        work(&mut keeper, &mut disk);
    }
    let diff = disk.names().into_iter().find(|name| name.ends_with("diff")).expect("one is differential");
    match Single::open(&mut disk, &diff) {
        Err(Unusable::Differential(previous)) => assert_eq!(previous, Seq::new(10)),
        Err(why) => panic!("{why}"),
        Ok(_) => panic!("it is not whole"),
    }
}
