//! What is read of files and programs, and what is written, without a cluster.

use super::lines::chosen;
use super::page::{placed, table};
use super::peers::{Measured, measured, parse, rows};
use super::result::{Document, Earlier, Round, Row};
use super::*;
use clap::Parser;
use quorate_command::machine::Machine;

#[derive(Parser)]
struct Words {
    #[command(flatten)]
    args: TableArgs,
}

fn args(words: &str) -> TableArgs {
    Words::try_parse_from(["table"].into_iter().chain(words.split_whitespace())).expect("arguments").args
}

fn names(words: &str) -> Vec<&'static str> {
    chosen(&args(words)).expect("lines").iter().map(|line| line.name).collect()
}

fn round(ours: f64, floor: f64) -> Round {
    Round {
        unit: "puts",
        ours: Some(ours),
        floor: Some(floor),
        per_cpu_s: Some(ours / 2.0),
        p50_us: Some(30.0),
        floor_p50_us: Some(10.0),
        ..Round::default()
    }
}

fn row(rounds: &[Round]) -> Row {
    Row::of("kv-put", "bench kv".into(), rounds.iter(), true)
}

fn document(lines: Vec<Row>, peers: Vec<peers::PeerRow>) -> Document {
    let machine = Machine::ask(Path::new("."));
    Document {
        benchmark: "table".into(),
        version: "1".into(),
        rounds: 3,
        seconds: 5.0,
        machine,
        lines,
        peers,
    }
}

#[test]
fn every_line_is_a_command_line_and_words_choose_them() {
    let all = names("");
    assert_eq!((all.len(), all.contains(&"kv-put-many")), (11, false));
    assert_eq!(names("--keys-many").len(), 12);
    assert_eq!(names("--only kv-put,idle"), ["kv-put", "idle"]);
    assert_eq!(names("--only kv"), ["kv-put", "kv-put-one", "kv-read", "kv-weak-read"]);
    assert_eq!(names("--only kv-put-many"), ["kv-put-many"]);
    assert_eq!(names("--only append --secs 0.5 --warm 0").len(), 4);
    for (words, why) in [("--only appen", "no line \"appen\""), ("--secs 0", "--secs")] {
        let refused = chosen(&args(words)).err().expect("it is refused").to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn ratios_are_taken_within_a_round() {
    // The machine had half the speed in the second round, and a third of it in the last one.
    let row = row(&[round(60.0, 120.0), round(30.0, 60.0), round(20.0, 40.0)]);
    let ratio = row.ratio.expect("a ratio");
    assert_eq!((ratio.low, ratio.median, ratio.high, ratio.of), (0.5, 0.5, 0.5, 3));
    assert_eq!(row.ours.map(|ours| (ours.low, ours.median, ours.high)), Some((20.0, 30.0, 60.0)));
    assert_eq!(row.p50_ratio.map(|ratio| ratio.median), Some(3.0));
    assert_eq!(row.failed, None);
    let without = Row::of("append", String::new(), [round(1.0, 2.0)].iter(), false);
    assert_eq!(without.p50_ratio, None, "the floor's latency means something else");
}

#[test]
fn a_round_that_failed_makes_the_line_invalid_and_not_the_others() {
    let bad = row(&[round(1000.0, 2000.0), Round::failed("a | b".into())]);
    assert_eq!((bad.ours.map(|ours| ours.of), bad.failed.as_deref()), (Some(1), Some("a | b")));
    let text = table(&document(vec![bad, row(&[round(5000.0, 50_000.0)])], Vec::new()), None);
    assert!(text.contains("- kv-put is NOT VALID: a \\| b"), "{text}");
    assert!(
        text.contains(
            "| `bench kv` | 5.00 k [5.00 k, 5.00 k] puts/s | 50.0 k/s | 0.100 [0.100, 0.100] | 2.50 k"
        ),
        "{text}"
    );
}

#[test]
fn replicas_at_rest_have_no_floor() {
    let row = Row::of("idle", "bench idle".into(), [Round::at_rest(16.0, 0.2, 0.1)].iter(), false);
    let text = table(&document(vec![row], Vec::new()), None);
    let cells = "| `bench idle` | 16.0 [16.0, 16.0] MiB for each replica | - | - | leader 0.20 % [0.20 %, 0.20 %], others 0.10 %";
    assert!(text.contains(cells), "{text}");
}

#[test]
fn an_earlier_run_stands_beside_this_one() {
    let json = |ours| {
        quorate_command::print::json(&document(vec![row(&[round(ours, 100.0)])], Vec::new())).expect("JSON")
    };
    // Of several documents the last.
    let earlier = Earlier::parse(&format!("{}\n{}\n", json(10.0), json(40.0))).expect("a result");
    let text = table(&document(vec![row(&[round(50.0, 100.0)])], Vec::new()), Some(&earlier));
    assert!(text.contains("50.0 [50.0, 50.0] puts/s, was 40.0, +25.0 %"), "{text}");
    assert!(text.contains("0.500 [0.500, 0.500], was 0.400, +25.0 %"), "{text}");
    assert!(text.contains("3.00 [3.00, 3.00], was 3.00, +0.0 % |"), "{text}");
    for (text, why) in [
        ("", "the file is empty"),
        ("{\"benchmark\":\"kv\",\"lines\":[],\"peers\":[]}", "\"kv\""),
        ("{\"lines\":3}", "invalid type"),
    ] {
        let refused = Earlier::parse(text).err().expect("it is refused");
        assert!(refused.contains(why) && refused.contains("bench table --json"), "{refused}");
    }
}

#[test]
fn peers_are_named_by_a_file() {
    let two = "[[peer]]\nname = \"a\"\ncommand = \"echo\"\n[[peer]]\nname = \"b\"\ncommand = \"false\"\n";
    assert_eq!(parse(two).map(|peers| peers.len()), Ok(2));
    for (text, why) in [
        ("", "missing field `peer`"),
        ("[[peer]]\nname = \"a\"\n", "missing field `command`"),
        ("[[peer]]\nname = \"a\"\ncommand = \"x\"\nspeed = 1\n", "unknown field `speed`"),
        ("[[peer]]\nname = \" \"\ncommand = \"x\"\n", "not empty"),
        (&two.replace('b', "a"), "two peers have the name \"a\""),
    ] {
        let refused = parse(text).expect_err("it is refused");
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn peers_print_lines_of_json() {
    let out = "{\"name\":\"put\",\"per_s\":10,\"p50_us\":2.5,\"more\":true}\n\n{\"name\":\"get\",\"per_s\":1e3,\"per_cpu_s\":null}\n";
    let put = Measured { name: "put".into(), per_s: 10.0, per_cpu_s: None, p50_us: Some(2.5), p99_us: None };
    let get = Measured { name: "get".into(), per_s: 1000.0, p50_us: None, ..put.clone() };
    assert_eq!(measured(out), Ok(vec![put, get]));
    for (out, why) in [
        ("{\"name\":\"put\",\"per_s\":1}\nready\n", "line 2 of its output"),
        ("{\"name\":\"put\"}", "missing field `per_s`"),
        ("{\"name\":\"put\",\"per_s\":-1}", "below 0"),
    ] {
        let refused = measured(out).expect_err("it is refused");
        assert!(refused.contains(why), "{refused}");
    }
}

/// A program that fails is a row with its error; what it said in other rounds, and what others said, counts.
#[test]
fn a_peer_that_fails_is_named_and_the_others_go_on() {
    let peers = parse(
        "[[peer]]\nname = \"good\"\ncommand = '''echo '{\"name\":\"put <b>\",\"per_s\":7}' '''\n\
         [[peer]]\nname = \"bad\"\ncommand = \"echo no room >&2; exit 3\"\n\
         [[peer]]\nname = \"mute\"\ncommand = \"true\"\n",
    )
    .expect("peers");
    let said: Vec<Vec<Said>> = (0..3).map(|_| peers.iter().map(Peer::ask).collect()).collect();
    let rows = rows(&peers, &said);
    let shown: Vec<_> = rows.iter().map(|row| (row.peer.as_str(), row.per_s.map(|rate| rate.of))).collect();
    assert_eq!(shown, [("good", Some(3)), ("bad", None), ("mute", None)]);
    let why = |at: usize| rows[at].failed.as_deref().unwrap_or_default();
    assert!(why(1).starts_with("3 of 3 rounds failed") && why(1).contains("3: no room"), "{}", why(1));
    assert!(why(2).contains("no line of JSON"), "{}", why(2));
    let text = table(&document(Vec::new(), rows.clone()), None);
    assert!(text.contains("| good | put &lt;b> | 7.00 [7.00, 7.00] | - | - | - |"), "{text}");
    assert!(text.contains("| bad | 3 of 3 rounds failed"), "{text}");
}

#[test]
fn the_table_goes_between_the_marks_and_all_else_stays() {
    let (begin, end) = ("<!-- begin: quorate bench table -->", "<!-- end -->");
    let text = format!("# Page\n\n{begin}\nold\n{end}\n\nmore {end}\n");
    let new = placed(&text, "new\nlines").expect("it has marks");
    assert_eq!(new, format!("# Page\n\n{begin}\nnew\nlines\n{end}\n\nmore {end}\n"));
    assert_eq!(placed(&new, "new\nlines").as_ref(), Ok(&new), "it can be done again");
    for text in
        ["# Page\n".to_owned(), format!("{end}\n{begin}\n"), format!("{begin}{begin}{end}"), text.repeat(2)]
    {
        assert!(placed(&text, "new").expect_err("it is refused").contains(begin), "{text}");
    }
}
