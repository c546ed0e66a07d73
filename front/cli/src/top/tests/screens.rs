use super::made::{HOSTILE, healthy, look, said, status, took, with};
use crate::problems::Problem;
use crate::top::layout::{Size, View, screen};
use crate::top::line::Line;
use crate::top::look::{Known, Look};
use crate::top::table::Sort;
use quorate_command::print::clean;
use serde_json::json;
use std::time::Duration;
use unicode_width::UnicodeWidthStr as _;

const SMALL: Size = Size { columns: 80, lines: 24 };
const WIDE: Size = Size { columns: 200, lines: 50 };

fn shown(before: Option<&Look>, now: &Look, view: &View, size: Size) -> Vec<String> {
    let lines = screen(before, now, view, size);
    assert!(lines.len() <= size.lines, "{} lines", lines.len());
    for line in &lines {
        assert!(line.width() <= size.columns, "{} columns: {}", line.width(), line.text());
        assert_eq!(clean(&line.text()), line.text());
    }
    lines.iter().map(Line::text).collect()
}

fn plain(before: &Look, now: &Look, size: Size) -> Vec<String> {
    shown(Some(before), now, &View::default(), size)
}

#[test]
fn three_replicas_on_a_small_screen() {
    let lines = plain(&healthy(3, 1, 10), &healthy(3, 1, 12), SMALL);
    let screen = [
        "cluster 485f5bbc  crash faults  3 of 3 replicas answer  02:35:02 UTC",
        "leader 1, view 3  1.00 k requests/s  600 reads/s",
        "ordering p50 <= 256 us, p99 <= 1.03 ms  no problems",
        "",
        "id role      req/s reads/s executed      lag    log/s  write p99   memory   cpu",
        " 1 leader   1.00 k     200    12000        -  2.0 MiB  <= 512 us 50.0 MiB  50 %",
        " 2 follower 1.00 k     200    12000    200 B  2.0 MiB  <= 512 us 50.0 MiB  50 %",
        " 3 follower 1.00 k     200    12000    300 B  2.0 MiB  <= 512 us 50.0 MiB  50 %",
    ];
    assert_eq!(lines, screen, "{lines:#?}");
}

#[test]
fn a_wide_screen_shows_every_column() {
    let lines = plain(&healthy(3, 1, 10), &healthy(3, 1, 12), WIDE);
    let head = lines.iter().find(|line| line.starts_with("id")).expect("a head");
    for column in ["address", "log/s", "checkpoint", "lanes busy", "disk free", "clients", "waiting"] {
        assert!(head.contains(column), "{column}: {head}");
    }
    let row = lines.iter().find(|line| line.starts_with(" 2")).expect("a row");
    for cell in [
        "127.0.0.1:4002",
        "follower",
        "1.00 k",
        "200 B",
        "2.0 MiB",
        "<= 512 us",
        "durable 500",
        "50 %",
        "42 4 %",
        "20.0 GiB",
    ] {
        assert!(row.contains(cell), "{cell}: {row}");
    }
}

#[test]
fn the_first_look_has_no_rates_and_says_so() {
    let lines = shown(None, &healthy(3, 1, 10), &View::default(), SMALL);
    assert!(lines.iter().any(|line| line.contains("- requests/s  - reads/s")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("ordering p50 -, p99 -")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("10000")), "{lines:#?}");
}

#[test]
fn a_replica_that_began_again_has_no_rates_and_the_others_do() {
    let mut again = status(2, 3, 1, 12);
    again["process"]["start_time_s"] = json!(2000);
    let all = |second| vec![(1, Ok(status(1, 3, 1, 12))), (2, Ok(second)), (3, Ok(status(3, 3, 1, 12)))];
    // Once as another process, which has done more than the one before, and once with counters that fell: a clock may lie.
    for (second, executed) in [(again, "12000"), (status(2, 3, 1, 1), "1000")] {
        let lines = plain(&healthy(3, 1, 10), &look(12, all(second)), SMALL);
        assert!(lines[1].contains("1.00 k requests/s  400 reads/s"), "{lines:#?}");
        let row: Vec<&str> =
            lines.iter().find(|line| line.starts_with(" 2")).expect("a row").split_whitespace().collect();
        assert_eq!(row[..5], ["2", "follower", "-", "-", executed], "{row:?}");
        assert_eq!(row.last(), Some(&"-"), "{row:?}");
    }
}

#[test]
fn a_replica_that_is_away_stays_in_the_table_with_the_reason() {
    let why = "connection refused";
    let now = look(12, vec![(1, Ok(status(1, 3, 1, 12))), (2, Err(why)), (3, Ok(status(3, 3, 1, 12)))]);
    let now = with(now, |found| {
        let text = format!("at 127.0.0.1:4002: {why}; `quorate chaos restart 2`");
        found.problems = vec![Known { problem: Problem::Away { replica: 2, text }, seconds: 3 }];
    });
    let lines = plain(&healthy(3, 1, 10), &now, SMALL);
    let all = lines.join("\n");
    assert!(lines[0].contains("2 of 3 replicas answer"), "{all}");
    assert!(all.contains(" 2 not answering: connection refused"), "{all}");
    assert!(all.contains("1 problem"), "{all}");
    assert!(all.contains("3 s    replica 2 is unreachable at 127.0.0.1:4002"), "{all}");
}

#[test]
fn a_cluster_that_is_down_and_none_at_all() {
    let away = |seconds| look(seconds, (1..=3).map(|id| (id, Err("connection refused"))).collect());
    let lines = plain(&away(10), &away(12), SMALL);
    assert!(lines[0].contains("0 of 3 replicas answer") && lines[1].contains("nobody leads"), "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line.contains("not answering: connection refused")).count(), 3);

    let nothing = Look::nothing(0, "no cluster is known here.\nStart one with `quorate dev`".into());
    let lines = plain(&healthy(3, 1, 10), &nothing, SMALL);
    assert_eq!(lines[0], "no cluster  00:00:00 UTC");
    assert_eq!(lines[2..], ["no cluster is known here.", "Start one with `quorate dev`"]);
}

#[test]
fn rates_of_another_cluster_in_the_same_place_are_not_compared() {
    let other = with(healthy(3, 1, 12), |found| found.cluster = "f".repeat(32));
    let lines = plain(&healthy(3, 1, 10), &other, SMALL);
    assert!(lines[1].contains("- requests/s"), "{lines:#?}");
}

#[test]
fn sixty_four_replicas_and_eight_instances() {
    let (before, now) = (healthy(64, 8, 10), healthy(64, 8, 12));
    let lines = plain(&before, &now, SMALL);
    assert_eq!(lines.len(), 24);
    let all = lines.join("\n");
    assert!(lines[1].contains("leaders 1-8, view 3"), "{all}");
    assert!(all.contains("8 instances:  r1 leads 1  r2 leads 2"), "{all}");
    assert!(all.contains("more replicas"), "{all}");
    // Whoever goes down sees the last one.
    let below = View { above: 63, ..View::default() };
    assert!(shown(Some(&before), &now, &below, SMALL).join("\n").contains("64 follower"));
    let keys = View { keys: true, ..View::default() };
    assert!(shown(Some(&before), &now, &keys, SMALL).join("\n").contains("more replicas (Down shows them)"));
    // Nobody scrolls what a program reads.
    let lines = plain(&before, &now, Size::WITHOUT_END);
    assert!(
        lines.iter().any(|line| line.starts_with("64")) && !lines.join("\n").contains("..."),
        "{lines:#?}"
    );
}

#[test]
fn instances_that_nobody_leads_come_first() {
    let mut said: Vec<_> = (1..=3).map(|id| (id, Ok(status(id, 3, 4, 12)))).collect();
    said[1].1 = Err("no route");
    let all = plain(&healthy(3, 4, 10), &look(12, said), SMALL).join("\n");
    assert!(all.contains("4 instances:  nobody leads 2  r1 leads 1 4  r3 leads 3"), "{all}");
    assert!(all.contains("leaders 1 3, view 3") && all.contains("leads 2"), "{all}");
}

#[test]
fn a_liar_alone_decides_neither_who_leads_nor_how_fast_it_is() {
    let mut lie = status(3, 4, 1, 12);
    lie["requests"] = json!(u64::MAX);
    lie["instances"]["each"][0] =
        json!({ "instance": 1, "view": 99, "leader": 3, "leading": true, "state": "here" });
    let honest = |id| (id, Ok(status(id, 4, 1, 12)));
    let now = look(12, vec![honest(1), honest(2), (3, Ok(lie)), honest(4)]);
    let lines = plain(&healthy(4, 1, 10), &now, SMALL);
    assert!(lines[1].starts_with("leader 1, view 3  1.00 k requests/s"), "{lines:#?}");
}

#[test]
fn hostile_texts_reach_no_terminal_and_do_not_break_the_screen() {
    let mut liar = status(2, 3, 1, 12);
    liar["calls"] =
        json!({ HOSTILE: [{ "call": HOSTILE.repeat(9), "failed": 1, "took": took(&[(16, 5)], 0) }] });
    let long = format!("{HOSTILE}{}", "東".repeat(5000));
    let now = look(12, vec![(1, Ok(status(1, 3, 1, 12))), (2, Ok(liar)), (3, Err(&long))]);
    let now = with(now, |found| {
        found.replicas[0].address = HOSTILE.to_owned();
        found.problems = (0..50).map(|n| said(2, &format!("{n} {long}"), 0)).collect();
    });
    for size in [
        SMALL,
        WIDE,
        Size { columns: 1, lines: 1 },
        Size { columns: 3, lines: 70 },
        Size { columns: 20, lines: 8 },
    ] {
        for keys in [false, true] {
            let view = View {
                keys,
                paused: true,
                age: Some(Duration::from_secs(9)),
                sort: Sort::Cpu,
                ..View::default()
            };
            let lines = screen(Some(&healthy(3, 1, 10)), &now, &view, size);
            assert!(lines.len() <= size.lines);
            for line in &lines {
                assert!(line.width() <= size.columns, "{size:?}: {}", line.text());
                for char in line.for_terminal(false).chars() {
                    assert!(clean(&char.to_string()) == char.to_string(), "{char:?} in {}", line.text());
                }
            }
        }
    }
    let lines = plain(&healthy(3, 1, 10), &now, WIDE);
    assert!(lines.iter().any(|line| line.contains(r"\u{1b}[2J\u{1b}]0;owned")), "{lines:#?}");
    assert!(lines.iter().all(|line| line.width() <= 200));
}

#[test]
fn what_is_no_number_is_not_known() {
    let wrong = json!({
        "process": { "pid": "x", "cpu_s": "1", "memory_bytes": -1 }, "requests": [], "reads": 1.5, "executed": null,
        "log": 7, "latencies": { "ordered": { "count": 1, "buckets": [[2, 5], [1, 1]] }, "written": { "count": -1, "buckets": [] } },
        "lanes": { "busy": 3 }, "checkpoints": [], "instances": { "each": [{ "instance": 70000, "view": 1 }] }, "view": 2,
        "members": [{ "replica": 1e9, "lag_bytes": 5 }], "calls": [1],
    });
    let twice = |seconds| look(seconds, vec![(1, Ok(wrong.clone()))]);
    let lines = plain(&twice(1), &twice(2), SMALL);
    assert!(lines[1].contains("nobody leads, view 2  - requests/s"), "{lines:#?}");
}

#[test]
fn a_checkpoint_under_way_is_seen_on_a_small_screen() {
    let mut fetching = status(3, 3, 1, 12);
    fetching["checkpoints"]["transfer"] =
        json!({ "bytes_done": 45, "bytes_total": 100, "installing": false });
    let now = look(12, vec![(1, Ok(status(1, 3, 1, 12))), (2, Ok(status(2, 3, 1, 12))), (3, Ok(fetching))]);
    let all = plain(&healthy(3, 1, 10), &now, SMALL).join("\n");
    assert!(all.contains("fetches 45 %"), "{all}");
}

#[test]
fn a_lag_that_needs_a_checkpoint_says_so() {
    let mut leader = status(1, 3, 1, 12);
    leader["members"] = json!([{ "replica": 2, "lag_bytes": u64::MAX }, { "replica": 3, "lag_bytes": 5 }]);
    let now = look(12, vec![(1, Ok(leader)), (2, Ok(status(2, 3, 1, 12))), (3, Ok(status(3, 3, 1, 12)))]);
    let lines = plain(&healthy(3, 1, 10), &now, SMALL);
    let row = |id: &str| lines.iter().find(|line| line.starts_with(id)).expect("a row").clone();
    assert!(row(" 2").contains("checkpoint") && row(" 3").contains("5 B"), "{lines:#?}");
}

/// What `sort` puts first, of replicas with different loads; the one that is away comes last.
#[test]
fn rows_are_sorted_and_those_that_say_nothing_come_last() {
    let mut second = status(2, 4, 1, 12);
    second["process"]["cpu_s"] = json!(11.0);
    let now = look(
        12,
        vec![(1, Err("away")), (2, Ok(second)), (3, Ok(status(3, 4, 1, 12))), (4, Ok(status(4, 4, 1, 12)))],
    );
    let view = View { sort: Sort::Cpu, ..View::default() };
    let lines = shown(Some(&healthy(4, 1, 10)), &now, &view, SMALL);
    assert!(lines.contains(&"sorted by cpu".to_owned()), "{lines:#?}");
    let ids: Vec<&str> =
        lines.iter().filter_map(|line| line.strip_prefix(' ')?.split_whitespace().next()).collect();
    assert_eq!(ids, ["2", "3", "4", "1"], "{lines:#?}");
}

#[test]
fn calls_are_counted_over_all_replicas_and_stand_beside_each_other() {
    let calls = |seconds: u64, id: u16| {
        let mut one = status(id, 3, 1, seconds);
        let kind = |call: &str, n: u64, failed: u64| json!({ "call": call, "failed": failed, "took": took(&[(512, n), (4096, n / 50)], 0) });
        one["calls"] = json!({ "etcd": [kind("put", 100 * seconds, seconds), kind("range", 50 * seconds, 0), kind("txn", seconds, 0), kind("watch", 7, 0)] });
        // A kind that was not called before is not named there.
        if seconds == 12 && id == 1 {
            one["calls"]["etcd"].as_array_mut().expect("a list").push(kind("lease grant", 50, 0));
        }
        (id, Ok(one))
    };
    let at = |seconds| look(seconds, (1..=3).map(|id| calls(seconds, id)).collect());
    let lines = plain(&at(10), &at(12), SMALL);
    let row = lines.iter().find(|line| line.starts_with("etcd put")).expect("a row");
    let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(cells, ["etcd put", "306", "3.0", "<= 512 us", "<= 4.10 ms"], "{lines:#?}");
    let range = lines.iter().position(|line| line.starts_with("etcd range"));
    assert!(lines.iter().any(|line| line.starts_with("etcd lease grant")), "{lines:#?}");
    assert!(lines.iter().position(|line| line.starts_with("etcd put")) < range, "the busiest comes first");
    assert!(lines.iter().any(|line| line.starts_with("etcd watch") && line.contains("  0  ")), "{lines:#?}");
    // There is room for three beside each other.
    let wide = plain(&at(10), &at(12), WIDE);
    assert!(wide.iter().any(|line| line.matches("calls/s").count() == 3), "{wide:#?}");
}

#[test]
fn problems_are_said_once_with_the_replicas_and_as_many_as_fit() {
    let now = with(healthy(3, 1, 12), |found| {
        found.problems = vec![
            said(3, "the newest", 0),
            said(2, "its disk is full: free some room", 5),
            said(3, "its disk is full: free some room", 9),
        ];
        found.problems.extend((0..40).map(|n| said(1, &format!("problem {n} of many"), 7300)));
    });
    let lines = plain(&healthy(3, 1, 10), &now, SMALL);
    let all = lines.join("\n");
    assert!(all.contains("43 problems"), "{all}");
    assert!(all.contains("0 s    replica 3: the newest\n5 s    replicas 2 3: its disk is full"), "{all}");
    assert!(all.contains("2 h    replica 1: problem 0 of many"), "{all}");
    assert_eq!((lines.len(), lines[23].starts_with("... ")), (24, true), "{all}");
}

#[test]
fn help_and_notes_fit() {
    let view =
        View { help: true, keys: true, paused: true, age: Some(Duration::from_secs(7)), ..View::default() };
    let lines = shown(None, &healthy(3, 1, 10), &view, SMALL);
    let all = lines.join("\n");
    assert!(
        all.contains("q, Ctrl-C     ends") && all.contains("replicas count in buckets that double."),
        "{all}"
    );
    assert!(all.contains("PAUSED: p goes on  the last look is 7 s old"), "{all}");
}
