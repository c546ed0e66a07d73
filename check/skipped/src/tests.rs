use super::{line, note};

#[test]
fn each_leaves_a_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("skipped");
    note(&file, &line(Some("one"), "there is no etcd"));
    note(&file, &line(None, 7));
    let text = std::fs::read_to_string(&file).expect("it is there");
    assert_eq!(text, "skipped: one: there is no etcd\nskipped: a test: 7\n");
}
