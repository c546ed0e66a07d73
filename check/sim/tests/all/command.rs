//! What `quorate sim` prints and writes.

use quorate_sim::Level;
use quorate_sim::campaign::Summary;
use quorate_sim::command::{Options, execute};

fn run(options: &Options) -> (bool, String) {
    let mut out = Vec::new();
    let clean = execute(options, &mut out, |_| {}).expect("the output is memory");
    (clean, String::from_utf8(out).expect("text"))
}

#[test]
fn one_seed_as_json_has_its_trace_hash() {
    let options = Options { seed: Some(5), json: true, ..Options::default() };
    let (clean, first) = run(&options);
    assert!(clean);
    let value: serde_json::Value = serde_json::from_str(&first).expect("one JSON line");
    assert_eq!(value["trace_hash"].as_str().map(str::len), Some(16));
    assert_eq!(first, run(&options).1, "the same seed, the same line");
}

#[test]
fn a_trace_names_replicas_and_leaders() {
    let (_, text) = run(&Options { seed: Some(5), trace: Some(Level::Events), ..Options::default() });
    for word in ["start", "Leader", "heal", "done", "clean"] {
        assert!(text.contains(word), "{word} in {text}");
    }
}

#[test]
fn an_interrupted_campaign_goes_on_where_it_was() {
    let name = format!("quorate-sim-{}.log", std::process::id());
    let path = std::env::temp_dir().join(name);
    let options = Options { count: 6, jobs: 2, json: true, log: Some(path.clone()), ..Options::default() };
    let runs = |text: &str| {
        let value: serde_json::Value = serde_json::from_str(text).expect("JSON");
        value["runs"].as_u64()
    };
    assert_eq!(runs(&run(&options).1), Some(6));
    // The process died while it wrote a line.
    let log = std::fs::read_to_string(&path).expect("the log");
    let whole: Vec<&str> = log.lines().take(4).collect();
    std::fs::write(&path, format!("{}\n{{\"seed\":", whole.join("\n"))).expect("written");
    assert_eq!(runs(&run(&options).1), Some(2), "four were clean");
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn a_page_stands_alone() {
    let path = std::env::temp_dir().join(format!("quorate-sim-{}.html", std::process::id()));
    run(&Options { seed: Some(5), html: Some(path.clone()), ..Options::default() });
    let page = std::fs::read_to_string(&path).expect("the page");
    std::fs::remove_file(path).expect("removed");
    assert!(
        page.contains("<svg") && page.matches("class=arrow").count() > 100 && page.contains("class=leader")
    );
    assert!(
        !page.contains("http://") && !page.contains("https://") && !page.contains("src="),
        "nothing is fetched"
    );
}

#[test]
fn a_campaign_fails_when_too_much_was_too_hard_to_judge() {
    let clean = |runs, unjudged| Summary { runs, unjudged, ..Summary::default() }.is_clean();
    assert!(clean(10, 0) && clean(10, 1) && clean(1000, 1) && clean(5000, 5));
    assert!(!clean(10, 2) && !clean(1999, 2) && !clean(5000, 6));
}
