use super::{Act, Audit, DiskRoom};
use std::fs;
use std::time::{Duration, SystemTime};

fn act(what: &str) -> Act {
    let text = |text: &str| text.to_owned();
    Act { who: text("admin alice"), from: text("10.0.0.1:5"), what: text(what), outcome: text("begun") }
}

#[test]
fn a_line_says_who_did_what_from_where_and_what_came_of_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let audit = Audit::new(directory.path().join("audit.jsonl"));
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400 * 365);
    audit.write(&act("hand over to \"r2\"\nand more"), time).expect("it is written");
    let text = fs::read_to_string(&audit.path).expect("the file is there");
    assert_eq!(
        text,
        "{\"time\":\"1971-01-01T00:00:00Z\",\"who\":\"admin alice\",\"from\":\"10.0.0.1:5\",\
         \"what\":\"hand over to \\\"r2\\\"\\nand more\",\"outcome\":\"begun\"}\n"
    );
}

#[test]
fn old_lines_go_when_there_are_too_many() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut audit = Audit::new(directory.path().join("audit.jsonl"));
    audit.bytes_max = 500;
    for number in 0..100 {
        audit.write(&act(&format!("act {number}")), SystemTime::UNIX_EPOCH).expect("it is written");
    }
    let mut names: Vec<_> = fs::read_dir(directory.path())
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["audit.1.jsonl", "audit.2.jsonl", "audit.3.jsonl", "audit.4.jsonl", "audit.jsonl"]);
    let newest = fs::read_to_string(&audit.path).expect("the file is there");
    assert!(newest.contains("act 99") && newest.len() < 700, "{newest}");
    let before = fs::read_to_string(audit.numbered(1)).expect("the file is there");
    assert!(before.contains("act 9") && !before.contains("act 99"), "{before}");
}

#[test]
fn little_room_is_a_problem() {
    let room = |free_bytes, total_bytes| DiskRoom { free_bytes, total_bytes };
    assert_eq!(room(1 << 30, 1 << 40).problem(false), None);
    assert_eq!(room(6 << 20, 100 << 20).problem(false), None, "a small disk");
    assert_eq!(room(0, 0).problem(false), None, "nobody looked yet");
    assert_eq!(room(300 << 20, 1 << 40).problem(true), None, "the log says that the disk is full");
    let text = room(300 << 20, 1 << 40).problem(false).expect("a problem");
    assert!(
        text.starts_with("the disk of this replica has only 300 MiB left")
            && text.contains("`quorate doctor`")
    );
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations/alarms.md");
    assert!(
        std::fs::read_to_string(page).unwrap().contains("`the disk of this replica has only X MiB left`")
    );
    let here = DiskRoom::of(&std::env::temp_dir()).expect("a disk");
    assert!(here.total_bytes > 0 && here.free_bytes <= here.total_bytes);
}
