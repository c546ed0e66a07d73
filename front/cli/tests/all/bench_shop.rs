//! The figures of `quorate bench figure` with the bookshop, as short as they can be: every order is kept by every server, and what is shipped is counted.

use crate::harness::{Ran, program};
use serde_json::Value;
use std::fs;

const SMALL: &str = "--durability memory --rounds 1 --secs 0.3 --warm 0.1 --workers 2 --transaction-us 500 --shop-items 100 --shop-orders 50";

/// Runs a figure. Gives what it says, its page and its numbers.
fn figure(name: &str, more: &str) -> (String, String, Value) {
    let directory = tempfile::tempdir().expect("a directory");
    let all = format!("bench figure {name} {SMALL} {more} --out drawn --scratch scratch");
    let ran = program().args(all.split_whitespace()).current_dir(directory.path()).output();
    let said = Ran::from(ran.expect("the program runs")).ok();
    let read = |end: &str| {
        fs::read_to_string(directory.path().join(format!("drawn/{name}.{end}"))).expect("what was drawn")
    };
    let left = fs::read_dir(directory.path().join("scratch")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "nothing is left of the clusters");
    let document: Value = serde_json::from_str(&read("json")).expect("JSON");
    assert_eq!(document["valid"], true, "{said}");
    (said, read("html"), document)
}

#[test]
fn options_that_can_not_be_are_refused() {
    let refused = |more: &str, why: &str| {
        let directory = tempfile::tempdir().expect("a directory");
        let all = format!("bench figure eve-10 {more}");
        let ran = program().args(all.split_whitespace()).current_dir(directory.path()).output();
        Ran::from(ran.expect("the program runs")).fails(2, &[why]);
    };
    refused("--transaction-us 1000001", "--transaction-us is at most 1000000");
    refused("--shop-items 0", "--shop-items is 1 to 20000");
    refused("--shop-orders 20001", "--shop-orders at most 20000");
    refused("--shoppers 0", "--shoppers is a list of numbers from 1 to 1000");
    refused("--backup-mbit 0", "--backup-mbit is 1 to 100000");
    refused("--ship-ms 1001", "--ship-ms 1 to 1000");
}

#[test]
fn a_shop_is_compared_with_a_server_that_is_not_replicated() {
    let (said, html, document) = figure("eve-3", "");
    assert!(said.contains("6.5 times one at a time") && said.contains("not replicated"), "{said}");
    assert_eq!(html.matches("<figure>").count(), 1);
    let points = document["points"].as_array().expect("a list");
    let kinds: Vec<_> =
        points.iter().map(|point| (point["kind"].as_str(), point["workers"].as_u64())).collect();
    let expected = [
        ("sequential", 0),
        ("alone", 1),
        ("ordered", 2),
        ("verified", 2),
        ("speculative", 2),
        ("pair", 2),
        ("alone", 2),
    ];
    assert_eq!(kinds, expected.map(|(kind, workers)| (Some(kind), Some(workers))));
    for point in points {
        assert!(point["per_s"]["median"].as_f64() > Some(0.0), "{point}");
        assert_eq!(point["share"].is_null(), point["workers"] == 0, "{point}");
        assert!(point["seen"]["rollbacks"].is_u64(), "{point}");
    }
    assert!(points[4]["seen"]["waves"].as_u64() > Some(0), "a speculative replica has waves: {}", points[4]);
}

#[test]
fn a_pair_is_compared_with_a_primary_that_ships_its_state() {
    let (said, html, document) = figure("eve-10", "--shoppers 1,8 --ship-ms 5");
    assert!(said.contains("235, which is 5.2 times (the text says 4.7 times)"), "{said}");
    assert_eq!(html.matches("<figure>").count(), 2);
    let curves = document["curves"].as_array().expect("a list");
    let kinds: Vec<_> = curves.iter().map(|curve| curve["kind"].as_str().expect("a word")).collect();
    assert_eq!(kinds, ["pair", "alone", "pages", "row-pages", "writes"]);
    for curve in curves {
        let points = curve["points"].as_array().expect("a list");
        assert_eq!(
            points.iter().map(|point| point["callers"].as_u64()).collect::<Vec<_>>(),
            [Some(1), Some(8)]
        );
        for point in points {
            assert!(point["per_s"]["median"].as_f64() > Some(0.0), "{point}");
            let bytes = point["bytes_per_transaction"]["median"].as_f64().expect("a number");
            let ships = matches!(curve["kind"].as_str(), Some("pair" | "pages"));
            assert!(bytes > 0.0 || !ships, "{curve}");
            assert!(bytes == 0.0 || curve["kind"] != "alone", "{curve}");
        }
    }
    // Whatever the machine does, pages are more than the commands.
    assert!(curves[2]["bytes_beside_pair"]["median"].as_f64() > Some(1.0), "{}", curves[2]);
}
