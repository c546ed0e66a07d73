//! What a builder writes, the reader reads; what it did not write, the reader refuses.

use super::*;

fn encode(items: &[&[u8]]) -> Vec<u8> {
    let mut builder = ItemsBuilder::new();
    for item in items {
        builder.push(item);
    }
    let mut out = Vec::new();
    builder.write_to(&mut out);
    assert_eq!(out.len(), builder.encoded_len());
    out
}

#[test]
fn strings_of_one_length_cost_no_length_each() {
    let encoded = encode(&[b"abcd", b"efgh"]);
    assert_eq!(encoded, b"\x02\0\0\0\x04\0\0\0abcdefgh");
    let items = Items::parse(&encoded).unwrap();
    assert_eq!(items.common_len(), Some(4));
    assert_eq!(items.iter().collect::<Vec<_>>(), [b"abcd", b"efgh"]);
}

#[test]
fn mixed_lengths_round_trip() {
    let strings: &[&[u8]] = &[b"", b"a", b"long enough", b""];
    let encoded = encode(strings);
    let items = Items::parse(&encoded).unwrap();
    assert_eq!(items.common_len(), None);
    assert_eq!(items.iter().collect::<Vec<_>>(), strings);
    assert_eq!(items.iter().len(), 4);
}

#[test]
fn empty_lists_and_empty_strings_differ() {
    assert_eq!(Items::parse(&encode(&[])).unwrap().len(), 0);
    assert_eq!(Items::parse(&encode(&[b"", b"", b""])).unwrap().len(), 3);
}

#[test]
fn any_cut_or_extension_is_refused() {
    for strings in [&[b"abcd" as &[u8], b"efgh"] as &[&[u8]], &[b"", b"a", b"bc"]] {
        let encoded = encode(strings);
        for cut in 0..encoded.len() {
            assert!(Items::parse(&encoded[..cut]).is_err(), "cut at {cut}");
        }
        let longer = [&encoded[..], b"x"].concat();
        assert!(Items::parse(&longer).is_err());
    }
    assert!(Items::parse(&[0xff; 16]).is_err());
}

#[test]
fn truncate_undoes_the_last_strings() {
    let mut builder = ItemsBuilder::new();
    builder.push(b"keep");
    builder.push(b"drop");
    builder.push_with(|out| out.extend_from_slice(b"drop too"));
    builder.truncate(1);
    let mut out = Vec::new();
    builder.write_to(&mut out);
    assert_eq!(Items::parse(&out).unwrap().iter().collect::<Vec<_>>(), [b"keep"]);
}
