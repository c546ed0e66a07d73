//! Reading and writing histories: what is written is read back, and what is wrong is named with its line.

use crate::common::{append, cas, fail, ok, put, unknown, value};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use quorate_history::jsonl::LINE_BYTES_MAX;
use quorate_history::{Answer, Event, Op, Options, Outcome, Reader, Writer, check_reader};
use std::io::{self, BufReader, Read};

fn write(events: &[Event]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    events.iter().for_each(|event| writer.write(event).expect("a valid event"));
    writer.finish().expect("memory does not fail")
}

fn error_of(text: &str) -> String {
    let result: Result<Vec<Event>, _> = Reader::new(text.as_bytes()).collect();
    result.expect_err("a bad line").to_string()
}

/// The bytes are the format's contract: other programs write them.
#[test]
fn the_lines_are_those_of_the_document() {
    let events = [
        ok(1, "k", put("a"), Answer::Done, 10, 25),
        ok(2, "k", Op::Get, value("a"), 30, 41),
        ok(2, "k", Op::Delete, Answer::Flag(true), 42, 43),
        unknown(2, "k", cas(None, "b"), 50),
        fail(3, "l", append("t1"), 60, 70),
        ok(3, "l", Op::ReadWeak, Answer::Value(None), 80, 80),
    ];
    let lines = r#"{"client":1,"op":"put","key":"k","value":"a","result":null,"call":10,"return":25,"outcome":"ok"}
{"client":2,"op":"get","key":"k","result":"a","call":30,"return":41,"outcome":"ok"}
{"client":2,"op":"delete","key":"k","result":true,"call":42,"return":43,"outcome":"ok"}
{"client":2,"op":"cas","key":"k","expect":null,"value":"b","result":null,"call":50,"return":null,"outcome":"unknown"}
{"client":3,"op":"append","key":"l","value":"t1","result":null,"call":60,"return":70,"outcome":"fail"}
{"client":3,"op":"read-weak","key":"l","result":null,"call":80,"return":80,"outcome":"ok"}
"#;
    assert_eq!(String::from_utf8_lossy(&write(&events)), lines);
    let read: Vec<Event> = Reader::new(lines.as_bytes()).map(|event| event.expect("a good line")).collect();
    assert_eq!(read, events);
}

#[test]
fn blank_lines_and_a_missing_last_newline_do_no_harm() {
    let text = "\n{\"client\":1,\"op\":\"get\",\"key\":\"k\",\"result\":null,\"call\":1,\"return\":2,\"outcome\":\"ok\"}\n \r\n\
                {\"client\":1,\"op\":\"get\",\"key\":\"k\",\"call\":3,\"outcome\":\"unknown\"}";
    assert_eq!(Reader::new(text.as_bytes()).filter(Result::is_ok).count(), 2);
}

/// Bad lines, and what the message must contain.
const BAD_LINES: &[(&str, &str)] = &[
    (r#"{"client":1,"op":"get""#, "EOF"),
    (r#"nonsense"#, "expected a JSON object"),
    (r#"[1,"get","k",null,null,null,1,2,"ok"]"#, "expected a JSON object"),
    (
        r#"{"client":-1,"op":"get","key":"k","result":null,"call":1,"return":2,"outcome":"ok"}"#,
        "invalid value",
    ),
    (
        r#"{"client":1,"op":"get","key":"k","result":null,"call":1.5,"return":2,"outcome":"ok"}"#,
        "invalid type",
    ),
    (r#"{"client":1,"op":"increment","key":"k","call":1,"return":2,"outcome":"ok"}"#, "unknown variant"),
    (r#"{"client":1,"op":"get","key":"k","call":1,"return":2,"outcome":"maybe"}"#, "unknown variant"),
    (r#"{"client":1,"op":"get","call":1,"return":2,"outcome":"ok"}"#, "missing field `key`"),
    (
        r#"{"client":1,"op":"get","key":"k","result":null,"call":1,"retrun":2,"outcome":"ok"}"#,
        "unknown field",
    ),
    (r#"{"client":1,"client":2,"op":"get","key":"k","call":1,"outcome":"fail"}"#, "duplicate field"),
    (r#"{"client":1,"op":"get","key":"k","call":1,"return":2,"outcome":"ok"}"#, "needs a `result`"),
    (
        r#"{"client":1,"op":"get","key":"k","result":true,"call":1,"return":2,"outcome":"ok"}"#,
        "a string or null",
    ),
    (
        r#"{"client":1,"op":"get","key":"k","result":7,"call":1,"return":2,"outcome":"ok"}"#,
        "must be a string",
    ),
    (r#"{"client":1,"op":"get","key":"k","result":null,"call":1,"outcome":"ok"}"#, "needs a `return`"),
    (
        r#"{"client":1,"op":"get","key":"k","result":null,"call":9,"return":2,"outcome":"ok"}"#,
        "before its call",
    ),
    (
        r#"{"client":1,"op":"get","key":"k","value":"x","result":null,"call":1,"return":2,"outcome":"ok"}"#,
        "no `value`",
    ),
    (
        r#"{"client":1,"op":"get","key":"k","expect":"x","result":null,"call":1,"return":2,"outcome":"ok"}"#,
        "only cas",
    ),
    (r#"{"client":1,"op":"put","key":"k","call":1,"return":2,"outcome":"ok"}"#, "need a string in `value`"),
    (
        r#"{"client":1,"op":"put","key":"k","value":null,"call":1,"return":2,"outcome":"ok"}"#,
        "need a string in `value`",
    ),
    (
        r#"{"client":1,"op":"put","key":"k","value":"x","result":"x","call":1,"return":2,"outcome":"ok"}"#,
        "needs null",
    ),
    (
        r#"{"client":1,"op":"cas","key":"k","value":"x","result":true,"call":1,"return":2,"outcome":"ok"}"#,
        "cas needs `expect`",
    ),
    (
        r#"{"client":1,"op":"cas","key":"k","expect":"a","value":"x","result":null,"call":1,"return":2,"outcome":"ok"}"#,
        "true or false",
    ),
    (
        r#"{"client":1,"op":"delete","key":"k","result":true,"call":1,"return":2,"outcome":"unknown"}"#,
        "only outcome ok",
    ),
    (
        r#"{"client":1,"op":"append","key":"k","value":"a,b","call":1,"return":2,"outcome":"ok"}"#,
        "contains a comma",
    ),
    (r#"{"client":1,"op":"append","key":"k","value":"","call":1,"return":2,"outcome":"ok"}"#, "is empty"),
];

/// Each bad line stands third, after a blank one, and the message must say so and why.
#[test]
fn a_bad_line_is_named_with_its_number_and_the_reason() {
    let good = r#"{"client":1,"op":"get","key":"k","result":null,"call":1,"return":2,"outcome":"ok"}"#;
    for (line, why) in BAD_LINES {
        let error = error_of(&format!("{good}\n\n{line}\n{good}\n"));
        assert!(error.starts_with("line 3") && error.contains(why), "{line}\n gives: {error}\n want: {why}");
        assert!(!error.contains("line 1"), "two line numbers: {error}");
    }
}

#[test]
fn bytes_that_are_no_text_are_named_with_their_line() {
    let result: Result<Vec<Event>, _> = Reader::new(&b"\n{\"key\":\"\xff\xfe\"}\n"[..]).collect();
    assert!(result.expect_err("no text").to_string().starts_with("line 2"));
}

/// A line without end must not fill the memory.
#[test]
fn an_endless_line_is_refused() {
    let endless = BufReader::with_capacity(1 << 20, io::repeat(b'x').take(4 * LINE_BYTES_MAX as u64));
    let error = check_reader(endless, Options::default()).expect_err("too long");
    assert!(error.to_string().starts_with("line 1: longer than"), "{error}");
}

#[test]
fn a_failing_source_is_an_error_and_not_an_end() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let error = check_reader(BufReader::new(Broken), Options::default()).expect_err("broken");
    assert_eq!(error.to_string(), "line 1: cannot read: the disk is gone");
}

#[test]
fn an_event_that_cannot_be_is_not_written() {
    let mut writer = Writer::new(Vec::new());
    assert!(writer.write(&ok(1, "k", Op::Get, Answer::Done, 1, 2)).is_err());
    assert!(writer.write(&ok(1, "k", put("a"), Answer::Done, 3, 2)).is_err());
    assert!(writer.finish().expect("memory does not fail").is_empty());
}

fn any_event() -> impl Strategy<Value = Event> {
    let text = ".{0,8}";
    let token = "[a-z0-9\"\\\\ ]{1,8}";
    let op = prop_oneof![
        text.prop_map(|value| (Op::Put { value }, Answer::Done)),
        proptest::option::of(text).prop_map(|value| (Op::Get, Answer::Value(value))),
        proptest::option::of(text).prop_map(|value| (Op::ReadWeak, Answer::Value(value))),
        any::<bool>().prop_map(|flag| (Op::Delete, Answer::Flag(flag))),
        (proptest::option::of(text), text, any::<bool>())
            .prop_map(|(expect, value, flag)| (Op::Cas { expect, value }, Answer::Flag(flag))),
        token.prop_map(|value| (Op::Append { value }, Answer::Done)),
    ];
    let times = (any::<u64>(), any::<u64>()).prop_map(|(x, y)| (x.min(y), x.max(y)));
    (any::<u64>(), text, op, times, 0..3, any::<bool>()).prop_map(
        |(client, key, (op, answer), (call, ret), kind, has_ret)| {
            let maybe = has_ret.then_some(ret);
            let outcome = match kind {
                0 => Outcome::Fail { ret: maybe },
                1 => Outcome::Unknown { ret: maybe },
                _ => Outcome::Ok { ret, answer },
            };
            Event { client, key, op, call, outcome }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_written_is_read_back(events in proptest::collection::vec(any_event(), 0..8)) {
        let read: Vec<Event> = Reader::new(write(&events).as_slice()).map(|event| event.unwrap()).collect();
        prop_assert_eq!(read, events);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for event in Reader::new(bytes.as_slice()) {
            let _ = event;
        }
    }

    /// A valid line with one byte changed is read or refused, and whatever is read can be judged.
    #[test]
    fn damaged_lines_never_panic(event in any_event(), at in any::<usize>(), byte in any::<u8>()) {
        let mut line = write(&[event]);
        let at = at % line.len();
        line[at] = byte;
        let _ = check_reader(line.as_slice(), Options::default());
    }
}
