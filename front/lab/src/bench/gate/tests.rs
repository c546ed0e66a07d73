//! What is read of callgrind and of files, and what is said of it.

use super::*;

fn cost(trip: &str, instructions_per_operation: u64) -> Cost {
    Cost { trip: trip.into(), instructions_per_operation }
}

#[test]
fn what_callgrind_counted_is_its_last_words() {
    let told = "==7== Callgrind, a call-graph generating cache profiler\n==7== Events    : Ir\n==7== Collected : 48211993\n==7== \n";
    assert_eq!(collected(told), Some(48_211_993));
    assert_eq!(collected("valgrind: failed to start tool 'callgrind'"), None);
}

#[test]
fn three_percent_more_is_too_much() {
    let before = [cost("raft", 1000), cost("reads", 1000)];
    let with = |raft, reads| compare(vec![cost("raft", raft), cost("reads", reads)], Some(&before));
    assert_eq!(with(1030, 10).passed, Some(true));
    let document = with(900, 1031);
    assert_eq!(document.passed, Some(false));
    let text = table(&document);
    assert!(text.contains("was      1000   -10.0 %  single puts"), "{text}");
    assert!(text.contains("was      1000    +3.1 %  TOO MUCH"), "{text}");
    let document = compare(vec![cost("raft", 5), cost("new", 5)], Some(&before));
    assert_eq!(document.passed, Some(false), "{}", table(&document));
    assert_eq!(compare(vec![cost("raft", 5)], None).passed, None);
}

#[test]
fn a_file_that_is_none_is_refused() {
    let lines = "{\"trip\":\"raft\",\"instructions_per_operation\":7}\n{\"trip\":\"reads\",\"instructions_per_operation\":8}\n";
    assert_eq!(read(lines), Ok(vec![cost("raft", 7), cost("reads", 8)]));
    let why = read("{\"trip\":\"raft\",\"instructions_per_operation\":7}\nraft 7\n").unwrap_err();
    assert!(why.starts_with("line 2: "), "{why}");
}

/// Trips are clean, and longer ones have more operations on them.
#[test]
fn every_trip_can_be_made() {
    for trip in TRIPS {
        let of = |operations| trip.make(operations).map_err(|why| format!("{}: {why:?}", trip.name));
        // Calls of many commands may be a few commands too many.
        let (short, long) = (of(40).unwrap(), of(80).unwrap());
        assert!(short >= 160 && long >= short + 60, "{}: {short} and {long} operations", trip.name);
    }
}
