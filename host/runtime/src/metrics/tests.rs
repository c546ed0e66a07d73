//! What stands in the text, and that the documents name only metrics that there are.

use super::*;
use serde_json::json;
use std::collections::BTreeSet;

fn status() -> Value {
    json!({
        "replica": 2, "cluster": "ab\"c", "leader": 1, "requests": 17,
        "instances": { "each": [{ "instance": 1, "leading": false }] },
        "agreed_time_ns": 1_500_000_000_u64,
        "problems": ["one", "two"],
        "log": { "durability": "group", "disk_full": false },
        "process": { "version": "0.1.0" },
        "members": [{ "replica": 1, "lag_bytes": 5 }, { "replica": 3, "lag_bytes": u64::MAX }],
        "checkpoints": { "transfer": null, "diverged": 7 },
        "turns": { "count": 3, "sum_s": 0.5, "buckets": [[0.001, 1], [0.002, 2]] },
        "fronts": {},
    })
}

/// The lines of a metric.
fn lines(text: &str, name: &str) -> Vec<String> {
    let of = |line: &&str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ', '_']))
            && !line.starts_with('#')
    };
    text.lines().filter(of).map(str::to_owned).collect()
}

#[test]
fn each_place_of_the_status_becomes_a_line() {
    let text = text(&status());
    for (name, expected) in [
        ("quorate_info", "{cluster=\"ab\\\"c\",version=\"0.1.0\",durability=\"group\",replica=\"2\"} 1"),
        ("quorate_requests_total", " 17"),
        ("quorate_leading", " 0"),
        ("quorate_has_leader", " 1"),
        ("quorate_agreed_time_seconds", " 1.5"),
        ("quorate_problems", " 2"),
        ("quorate_diverged", " 1"),
        ("quorate_transfer", " 0"),
        ("quorate_log_disk_full", " 0"),
        ("quorate_member_lag_bytes", "{member=\"1\"} 5"),
    ] {
        assert_eq!(lines(&text, name), [format!("{name}{expected}")], "{text}");
    }
    assert!(text.contains(
        "\n# HELP quorate_requests_total Requests executed.\n# TYPE quorate_requests_total counter\n"
    ));
    assert!(lines(&text, "quorate_sessions").is_empty(), "what is not known is left out");
}

#[test]
fn durations_are_a_histogram() {
    let text = text(&status());
    let expected = [
        "quorate_turn_seconds_bucket{le=\"0.001\"} 1",
        "quorate_turn_seconds_bucket{le=\"0.002\"} 2",
        "quorate_turn_seconds_bucket{le=\"+Inf\"} 3",
        "quorate_turn_seconds_sum 0.5",
        "quorate_turn_seconds_count 3",
    ];
    assert_eq!(lines(&text, "quorate_turn_seconds"), expected);
}

#[test]
fn names_of_etcd_are_there_where_its_clients_are_served() {
    let mut status = status();
    assert!(!text(&status).contains("etcd_"));
    status["fronts"]["etcd"] = "127.0.0.1:2379".into();
    assert!(text(&status).contains("\netcd_server_has_leader 1\n"));
}

#[test]
fn no_name_comes_twice() {
    let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), METRICS.len());
    for metric in METRICS {
        let is_total = metric.name.ends_with("_total");
        assert_eq!(is_total, matches!(metric.kind, Kind::Counter(_)), "{} counts", metric.name);
        // Prometheus gives these labels itself.
        assert!(metric.each.is_none_or(|(_, label, _)| !["instance", "job"].contains(&label)));
        assert!(metric.help.ends_with('.') && metric.at.starts_with('/'), "{}", metric.name);
    }
}

/// The words of a text that look like metrics.
fn named(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !word(c)).filter(|word| {
        ["quorate_", "etcd_server_", "etcd_disk_", "process_"].iter().any(|start| word.starts_with(start))
    });
    let plain = |word: &str| {
        let ends = ["_bucket", "_sum", "_count"];
        let base = ends.iter().find_map(|end| word.strip_suffix(end));
        let base = base.filter(|base| METRICS.iter().any(|metric| metric.name == *base));
        base.unwrap_or(word).to_owned()
    };
    words.map(plain).collect()
}

#[test]
fn dashboards_and_alerts_name_only_metrics_that_there_are() {
    let known: BTreeSet<String> = METRICS.iter().map(|metric| metric.name.to_owned()).collect();
    let own = ["quorate_info".to_owned()];
    for (file, text) in [
        ("metrics.md", include_str!("../../../../docs/operations/metrics.md")),
        ("grafana.json", include_str!("../../../../docs/operations/grafana.json")),
        ("alerts.yml", include_str!("../../../../docs/operations/alerts.yml")),
    ] {
        let names = named(text);
        assert!(names.len() > 5, "{file} names some");
        let unknown: Vec<&String> =
            names.iter().filter(|name| !known.contains(*name) && !own.contains(name)).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
}

/// `docs/operations/metrics.md` has a row for each of them, which is written here.
#[test]
fn the_page_lists_all() {
    let row = |metric: &Metric| {
        let label = metric.each.map_or(String::new(), |(_, label, _)| format!(" by `{label}`"));
        format!("| `{}`{label} | {} | {} |", metric.name, metric.kind.name(), metric.help)
    };
    let rows: Vec<String> = METRICS.iter().map(row).collect();
    let page = include_str!("../../../../docs/operations/metrics.md");
    let there: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(there, rows, "write these lines:\n{}", rows.join("\n"));
}
