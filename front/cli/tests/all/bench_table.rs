//! The table of benchmarks, as short as it can be: each line beside the null program, other programs beside them, an earlier run beside this
//! one, and the page that it is written into.

use crate::harness::{Ran, program, quorate};
use serde_json::Value;
use std::fs;
use std::path::Path;

const MARKS: [&str; 2] = ["<!-- begin: quorate bench table -->", "<!-- end -->"];

fn table(home: &Path, arguments: &str) -> Ran {
    let all = format!("bench table --secs 0.3 --warm 0.1 --scratch scratch {arguments}");
    program().args(all.split_whitespace()).current_dir(home).output().expect("the program runs").into()
}

#[test]
fn a_table_is_measured_compared_and_written() {
    let home = tempfile::tempdir().expect("a directory");
    let at = |name: &str| home.path().join(name);
    let [begin, end] = MARKS;
    fs::write(at("page.md"), format!("# Page\n\n{begin}\nold\n{end}\n\nThe end.\n")).expect("a page");
    let peers = "[[peer]]\nname = \"other\"\ncommand = '''echo '{\"name\":\"puts\",\"per_s\":1000}' '''\n\
                 [[peer]]\nname = \"broken\"\ncommand = \"echo no disk >&2; exit 4\"\n";
    fs::write(at("peers.toml"), peers).expect("a file");
    let ran = table(home.path(), "--only kv-put-one,idle --rounds 2 --peers peers.toml --out page.md --json");
    let text = ran.ok();
    fs::write(at("before.json"), &text).expect("a file");
    let found: Value = serde_json::from_str(&text).expect("a JSON document");
    let row = |number: usize| &found["lines"][number];
    assert_eq!((&row(0)["line"], &row(1)["line"]), (&"kv-put-one".into(), &"idle".into()));
    for figure in ["ours", "floor", "ratio", "p50_ratio"] {
        assert_eq!(row(0)[figure]["of"], 2, "{found}");
        assert!(row(0)[figure]["low"].as_f64() > Some(0.0), "{found}");
    }
    assert!(row(1)["floor"].is_null() && row(1)["ours"]["low"].as_f64() > Some(1.0), "{found}");
    assert_eq!((&found["peers"][0]["peer"], &found["peers"][0]["per_s"]["of"]), (&"other".into(), &2.into()));
    let why = found["peers"][1]["failed"].as_str().unwrap_or_default();
    assert!(why.starts_with("2 of 2 rounds failed") && why.contains("no disk"), "{why}");
    let page = fs::read_to_string(at("page.md")).expect("the page");
    assert!(page.starts_with(&format!("# Page\n\n{begin}\n`quorate bench table`")), "{page}");
    assert!(page.ends_with(&format!("\n{end}\n\nThe end.\n")) && !page.contains("\nold\n"), "{page}");
    assert!(page.contains("| `bench kv --callers 1` |") && page.contains("| other | puts |"), "{page}");
    assert_eq!(fs::read_dir(at("scratch")).expect("a directory").count(), 0, "nothing is left");

    let shown = table(home.path(), "--only kv-put-one --rounds 1 --compare before.json").ok();
    assert!(shown.contains(", was ") && shown.contains("puts/s"), "{shown}");
}

/// All of this is said before anything is measured.
#[test]
fn what_can_not_be_used_is_refused_at_once() {
    let home = tempfile::tempdir().expect("a directory");
    fs::write(home.path().join("page.md"), "# Page\n").expect("a page");
    fs::write(home.path().join("peers.toml"), "[[peer]]\nname = \"other\"\n").expect("a file");
    fs::write(home.path().join("before.json"), "{}").expect("a file");
    for (arguments, why) in [
        ("--out page.md", "page.md: it needs the line <!-- begin"),
        ("--peers peers.toml", "missing field `command`"),
        ("--compare before.json", "bench table --json"),
        ("--only puts", "there is no line \"puts\""),
    ] {
        table(home.path(), arguments).fails(2, &[why]);
    }
    quorate(&["bench", "table", "--rounds", "0"]).fails(2, &["--rounds"]);
    assert!(!home.path().join("scratch").exists(), "nothing was measured");
}
