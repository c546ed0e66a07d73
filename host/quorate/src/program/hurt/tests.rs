use super::{Hurt, MIB_MAX, Parts, told};

#[test]
fn a_replica_hears_what_its_file_says() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("hurt");
    let hurt = Hurt { apart: vec![2, 3], disk_mib: Some(5), clock_ms: -7 };
    hurt.tell(&file).expect("it is written");
    let parts = told(file.clone()).expect("a thread");
    assert_eq!((parts.partition.others(), parts.quota.left()), (vec![2, 3], Some(5 << 20)));
    // A file that is not there, or holds anything else, hurts nobody.
    for text in ["", "nonsense", "{\"apart\":7}"] {
        std::fs::write(&file, text).expect("it is written");
        let parts = told(file.clone()).expect("a thread");
        assert_eq!((parts.partition.others(), parts.quota.left()), (vec![], None), "{text}");
    }
}

#[test]
fn each_part_hears_what_changed() {
    let (parts, none) = (Parts::default(), Hurt::default());
    let much = Hurt { disk_mib: Some(u64::MAX), ..Hurt::default() };
    parts.hear(&none, &much);
    assert_eq!(parts.quota.left(), Some(MIB_MAX << 20), "no more than a number holds");
    parts.hear(&much, &none);
    assert_eq!(parts.quota.left(), None);
}
