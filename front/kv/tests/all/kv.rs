//! The key-value service, command by command, at its limits, and through checkpoints.

use crate::support::{self, checkpoint, ctx, delete, encoded, get, put, query, raw, run, scan};
use quorate_execute::{BatchReplies, ReplySink, Service};
use quorate_kv::{
    Compare, Condition, Echo, KvCommand, KvConfig, KvError, KvQuery, KvReply, Operation, Scan, Tally, Totals,
    echo_command, echo_query,
};
use quorate_types::{Items, ItemsBuilder};

fn decoded(bytes: &[u8]) -> KvReply<'_> {
    KvReply::decode(bytes).expect("the service's replies decode")
}

/// Puts, gets and deletes say what was there.
#[test]
fn single_operations() {
    let kv = &mut support::kv();
    assert_eq!(decoded(&run(kv, &get(b"a"))), KvReply::Value(None));
    assert_eq!(decoded(&run(kv, &put(b"a", b"1"))), KvReply::Put { replaced: false });
    assert_eq!(decoded(&run(kv, &put(b"a", b"22"))), KvReply::Put { replaced: true });
    assert_eq!(decoded(&run(kv, &get(b"a"))), KvReply::Value(Some(b"22")));
    assert_eq!(decoded(&query(kv, &KvQuery::Get { key: b"a" })), KvReply::Value(Some(b"22")));
    assert_eq!(decoded(&run(kv, &put(b"", b""))), KvReply::Put { replaced: false });
    assert_eq!(decoded(&run(kv, &get(b""))), KvReply::Value(Some(b"")));
    assert_eq!(decoded(&run(kv, &delete(b"a"))), KvReply::Deleted { existed: true });
    assert_eq!(decoded(&run(kv, &delete(b"a"))), KvReply::Deleted { existed: false });
    assert_eq!(kv.objects().len(), 1);
}

/// A swap changes a key if what is expected holds, and otherwise says what is there.
#[test]
fn swaps() {
    let kv = &mut support::kv();
    let swap = |condition, value| KvCommand::Swap { key: b"k", condition, value };
    assert_eq!(decoded(&run(kv, &swap(Condition::Equals(b""), b"x"))), KvReply::NotSwapped { current: None });
    assert_eq!(decoded(&run(kv, &swap(Condition::Present, b"x"))), KvReply::NotSwapped { current: None });
    assert_eq!(decoded(&run(kv, &swap(Condition::Absent, b"1"))), KvReply::Swapped);
    assert_eq!(
        decoded(&run(kv, &swap(Condition::Absent, b"2"))),
        KvReply::NotSwapped { current: Some(b"1") }
    );
    assert_eq!(decoded(&run(kv, &swap(Condition::Equals(b"1"), b"2"))), KvReply::Swapped);
    assert_eq!(decoded(&run(kv, &swap(Condition::Present, b"3"))), KvReply::Swapped);
    assert_eq!(decoded(&run(kv, &get(b"k"))), KvReply::Value(Some(b"3")));
}

/// A transaction does one of its two lists, in order, each step seeing the one before.
#[test]
fn transactions() {
    let kv = &mut support::kv();
    run(kv, &put(b"a", b"1"));
    let transaction = |condition| KvCommand::Transaction {
        compares: vec![Compare { key: b"a", condition }, Compare { key: b"b", condition: Condition::Absent }],
        then: vec![
            Operation::Put { key: b"a", value: b"2" },
            Operation::Get { key: b"a" },
            Operation::Delete { key: b"a" },
            Operation::Put { key: b"b", value: b"2" },
        ],
        otherwise: vec![Operation::Get { key: b"b" }],
    };
    let reply = run(kv, &transaction(Condition::Equals(b"1")));
    let replies = vec![
        KvReply::Put { replaced: true },
        KvReply::Value(Some(b"2")),
        KvReply::Deleted { existed: true },
        KvReply::Put { replaced: false },
    ];
    assert_eq!(decoded(&reply), KvReply::Transaction { succeeded: true, replies });
    let reply = run(kv, &transaction(Condition::Absent));
    let replies = vec![KvReply::Value(Some(b"2"))];
    assert_eq!(decoded(&reply), KvReply::Transaction { succeeded: false, replies });
    assert_eq!(kv.objects().len(), 1);
}

/// Scans are cut by their limit and by bytes, and say where to go on; following them gives everything once.
#[test]
fn scans() {
    let kv =
        &mut support::with(KvConfig { scan_entries_max: 7, scan_bytes_max: 2000, ..KvConfig::default() });
    let keys: Vec<Vec<u8>> = (0..40u8).map(|n| vec![b'k', n]).collect();
    for key in &keys {
        run(kv, &put(key, &vec![1; usize::from(key[1]) * 20]));
    }
    for limit in [0, 1, 3, 7, 1000] {
        let (mut start, mut seen) = (vec![], vec![]);
        loop {
            let bytes = run(kv, &scan(&start, b"", limit));
            let scan = Scan { start: &start, end: b"", limit };
            assert_eq!(query(kv, &KvQuery::Scan(scan)), bytes, "a query answers as the command does");
            let KvReply::Entries { entries, next } = decoded(&bytes) else { panic!("a scan's reply") };
            assert!(
                !entries.is_empty() && entries.len() <= 7 && (limit == 0 || entries.len() as u64 <= limit)
            );
            assert!(bytes.len() <= 2100, "{}", bytes.len());
            seen.extend(entries.iter().map(|(key, _)| key.to_vec()));
            let Some(next) = next else { break };
            start = next.to_vec();
        }
        assert_eq!(seen, keys, "with limit {limit}");
    }
    let bytes = run(kv, &scan(&[b'k', 3], &[b'k', 5], 0));
    let KvReply::Entries { entries, next } = decoded(&bytes) else { panic!("a scan's reply") };
    assert_eq!((entries.len(), entries[0].0, next), (2, &[b'k', 3][..], None), "the end is not included");
    for (start, end) in [(&b"k"[..], &b"k"[..]), (b"z", b"a"), (b"z", b"")] {
        let bytes = run(kv, &scan(start, end, 0));
        assert_eq!(decoded(&bytes), KvReply::Entries { entries: vec![], next: None });
    }
}

/// What is over a limit changes nothing and names the limit, also deep in a transaction.
#[test]
fn limits_are_named() {
    let config =
        KvConfig { key_bytes_max: 4, value_bytes_max: 8, transaction_ops_max: 3, ..KvConfig::default() };
    let kv = &mut support::with(config);
    let key_error = KvReply::Error(KvError::KeyTooLong { max: 4 });
    let value_error = KvReply::Error(KvError::ValueTooLong { max: 8 });
    for command in
        [put(b"12345", b""), get(b"12345"), delete(b"12345"), scan(b"12345", b"", 0), scan(b"", b"12345", 0)]
    {
        assert_eq!(decoded(&run(kv, &command)), key_error);
    }
    assert_eq!(decoded(&query(kv, &KvQuery::Get { key: b"12345" })), key_error);
    assert_eq!(decoded(&run(kv, &put(b"1234", b"123456789"))), value_error);
    let swap = KvCommand::Swap { key: b"k", condition: Condition::Absent, value: b"123456789" };
    assert_eq!(decoded(&run(kv, &swap)), value_error);
    let ok = Operation::Put { key: b"a", value: b"1" };
    let transaction = |then, otherwise| KvCommand::Transaction { compares: vec![], then, otherwise };
    let bad = Operation::Put { key: b"a", value: b"123456789" };
    assert_eq!(decoded(&run(kv, &transaction(vec![ok, bad], vec![]))), value_error);
    assert_eq!(decoded(&run(kv, &transaction(vec![ok], vec![bad]))), value_error);
    let compares = vec![Compare { key: b"12345", condition: Condition::Absent }];
    let command = KvCommand::Transaction { compares, then: vec![ok], otherwise: vec![] };
    assert_eq!(decoded(&run(kv, &command)), key_error);
    let many = decoded(&run(kv, &transaction(vec![ok, ok], vec![ok, ok])))
        == KvReply::Error(KvError::TooManyOperations { max: 3 });
    assert!(many && kv.objects().is_empty());
    assert!(KvError::KeyTooLong { max: 4 }.to_string().contains("key_bytes_max (4)"));
    for bytes in [&b""[..], b"\x09", b"\x01\x05ab", &[&encoded(&get(b"a"))[..], b"x"].concat()] {
        assert_eq!(decoded(&raw(kv, bytes)), KvReply::Error(KvError::Malformed));
    }
}

/// The largest value and key that are allowed come back by get and by scan within the default limit for replies.
#[test]
fn the_largest_entry_fits_into_a_reply() {
    let kv = &mut support::kv();
    let (key, value) = (vec![7; 4 << 10], vec![8; 1 << 20]);
    let later = vec![9; 4 << 10];
    run(kv, &put(&key, &value));
    run(kv, &put(&later, b"x"));
    assert_eq!(decoded(&run(kv, &get(&key))), KvReply::Value(Some(&value)));
    let bytes = run(kv, &scan(b"", b"", 0));
    let entries = vec![(&key[..], &value[..])];
    assert_eq!(decoded(&bytes), KvReply::Entries { entries, next: Some(&later) });
}

/// The state comes back from its objects and from a stream; neither tells how it came about; a damaged stream is refused.
#[test]
fn checkpoints() {
    let (kv, other) = (&mut support::kv(), &mut support::kv());
    for n in 0..50u8 {
        run(kv, &put(&[n], &vec![n; usize::from(n)]));
        run(other, &put(&[49 - n], &vec![0; 500]));
    }
    for n in 0..50u8 {
        run(other, &put(&[n], &vec![n; usize::from(n)]));
    }
    run(other, &put(b"gone", b""));
    run(other, &delete(b"gone"));
    assert_eq!(kv.objects().version().root(), other.objects().version().root());
    let bytes = checkpoint(kv);
    assert_eq!(bytes, checkpoint(other));
    let restored = &mut support::kv();
    run(restored, &put(b"gone", b""));
    restored.restore(&mut &bytes[..]).expect("a good checkpoint");
    assert_eq!(checkpoint(restored), bytes);
    assert_eq!(restored.objects().version().root(), kv.objects().version().root());
    for len in 0..bytes.len() {
        assert!(support::kv().restore(&mut &bytes[..len]).is_err(), "cut off at {len}");
    }
    assert!(support::kv().restore(&mut &[&bytes[..], b"x"].concat()[..]).is_err());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x81;
        let _ = support::kv().restore(&mut &damaged[..]);
    }
}

/// What is in the store is the keys and their values, and nothing else.
#[test]
fn a_key_is_an_object() {
    let kv = &mut support::kv();
    for key in [&b""[..], b"a", b"\xff\xff"] {
        run(kv, &put(key, &[key, b"!"].concat()));
    }
    let objects: Vec<(&[u8], &[u8])> = kv.objects().range(b"", None).collect();
    assert_eq!(objects, [(&b""[..], &b"!"[..]), (b"a", b"a!"), (b"\xff\xff", b"\xff\xff!")]);
}

/// One reply for a whole request; words are summed whatever the commands' lengths.
#[test]
fn the_tally_counts_and_sums() {
    let tally = &mut Tally::default();
    let mut replies = BatchReplies::new(1000);
    let mut expected = Totals::default();
    for lens in [&[16usize, 16, 16][..], &[16, 8, 3, 0], &[5, 5], &[]] {
        let (mut builder, mut bytes, mut out) = (ItemsBuilder::new(), vec![], vec![]);
        for (n, len) in lens.iter().enumerate() {
            let command: Vec<u8> = (0..*len).map(|at| (at * 37 + n * 11 + 200) as u8).collect();
            builder.push(&command);
            expected.count += 1;
            for word in command.chunks(8) {
                let mut padded = [0; 8];
                padded[..word.len()].copy_from_slice(word);
                expected.sum = expected.sum.wrapping_add(u64::from_le_bytes(padded));
            }
        }
        builder.write_to(&mut bytes);
        replies.clear();
        tally.execute_batch(Items::parse(&bytes).expect("a list"), &ctx(), &mut replies);
        replies.write_to(&mut out).expect("one short reply");
        let replies: Vec<&[u8]> = Items::parse(&out).expect("a list").iter().collect();
        assert_eq!(replies, [&expected.encode()[..]]);
    }
    assert_eq!(Totals::decode(&query(tally, &KvQuery::Get { key: b"" })), Some(expected));
    let restored = &mut Tally::default();
    restored.restore(&mut &checkpoint(tally)[..]).expect("a good checkpoint");
    assert_eq!(checkpoint(restored), expected.encode());
    assert!(Tally::default().restore(&mut &[0; 17][..]).is_err());
}

/// Permissions go by what is named here, so nothing may be left out.
#[test]
fn every_key_of_a_command_is_named() {
    use quorate_execute::{KeyUse, Service as _};
    let service = support::kv();
    let named = |bytes: &[u8], is_query: bool| {
        let mut all = Vec::new();
        assert!(service.keys(bytes, is_query, &mut |used| all.push(format!("{used:?}"))));
        all
    };
    let of = |command: &KvCommand<'_>| named(&support::encoded(command), false);
    let (read, write) = (|key| format!("{:?}", KeyUse::Read(key)), |key| format!("{:?}", KeyUse::Write(key)));
    let range = |start, end| format!("{:?}", KeyUse::ReadRange { start, end });
    assert_eq!(of(&KvCommand::One(Operation::Get { key: b"a" })), [read(b"a")]);
    assert_eq!(of(&KvCommand::One(Operation::Put { key: b"a", value: b"1" })), [write(b"a")]);
    assert_eq!(of(&KvCommand::One(Operation::Delete { key: b"a" })), [write(b"a")]);
    assert_eq!(of(&KvCommand::Scan(Scan { start: b"a", end: b"b", limit: 1 })), [range(b"a", Some(b"b"))]);
    assert_eq!(of(&KvCommand::Scan(Scan { start: b"a", end: b"", limit: 0 })), [range(b"a", None)]);
    let swap = KvCommand::Swap { key: b"a", condition: Condition::Absent, value: b"1" };
    assert_eq!(of(&swap), [read(b"a"), write(b"a")]);
    let transaction = KvCommand::Transaction {
        compares: vec![Compare { key: b"c", condition: Condition::Present }],
        then: vec![Operation::Put { key: b"p", value: b"1" }, Operation::Get { key: b"g" }],
        otherwise: vec![Operation::Delete { key: b"d" }],
    };
    assert_eq!(of(&transaction), [write(b"p"), read(b"g"), write(b"d"), read(b"c")]);
    let mut bytes = Vec::new();
    KvQuery::Get { key: b"a" }.encode(&mut bytes);
    assert_eq!(named(&bytes, true), [read(b"a")]);
    bytes.clear();
    KvQuery::Scan(Scan { start: b"a", end: b"", limit: 0 }).encode(&mut bytes);
    assert_eq!(named(&bytes, true), [range(b"a", None)]);
    assert!(named(b"\xff", false).is_empty() && named(b"\xff", true).is_empty(), "nothing is done then");
}

/// Replies as long as wished, and as many commands as there were.
#[test]
fn the_echo_answers_as_wished_and_counts() {
    let echo = &mut Echo::default();
    for (request, reply) in [(0, 0), (0, 1), (4096, 0), (10, 5000)] {
        let command = echo_command(request, reply);
        assert_eq!(command.len(), if reply > 0 { request.max(4) } else { request });
        let mut out = Vec::new();
        let mut sink = ReplySink::new(&mut out, 1 << 20);
        echo.execute(&command, &ctx(), &mut sink);
        assert_eq!(out.len(), reply);
    }
    let asked = |query: &[u8]| {
        let mut out = Vec::new();
        echo.query(query, &ctx(), &mut ReplySink::new(&mut out, 1 << 20));
        out
    };
    assert_eq!(asked(b""), 4u64.to_le_bytes());
    assert_eq!([0, 3, 5000].map(|bytes| asked(&echo_query(bytes)).len()), [0, 3, 5000]);
    let restored = &mut Echo::default();
    restored.restore(&mut &checkpoint(echo)[..]).expect("a good checkpoint");
    assert_eq!(checkpoint(restored), 4u64.to_le_bytes());
    assert!(Echo::default().restore(&mut &[0; 9][..]).is_err());
}
