//! Values as they stand on the wire, and bytes that are none.

use quorate_zookeeper::jute::{Malformed, Reader, Write};

#[test]
fn values_have_the_bytes_that_zookeeper_gives_them() {
    let mut out = Vec::new();
    out.int(-2);
    out.long(258);
    out.flag(true);
    out.bytes(Some(b"ab"));
    out.bytes(None);
    out.list(Some(&[7, 8]), |out, number| out.int(*number));
    out.list(None::<&[i32]>, |out, number| out.int(*number));
    let expected = [
        &[0xff, 0xff, 0xff, 0xfe][..],
        &[0, 0, 0, 0, 0, 0, 1, 2],
        &[1],
        &[0, 0, 0, 2, b'a', b'b'],
        &[0xff; 4],
        &[0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 8],
        &[0xff; 4],
    ]
    .concat();
    assert_eq!(out, expected);
    let mut from = Reader::new(&out);
    assert_eq!((from.int(), from.long(), from.flag()), (Ok(-2), Ok(258), Ok(true)));
    assert_eq!((from.bytes(), from.bytes()), (Ok(Some(&b"ab"[..])), Ok(None)));
    assert_eq!((from.list(Reader::int), from.list(Reader::int)), (Ok(Some(vec![7, 8])), Ok(None)));
    assert_eq!((from.rest(), from.flag()), (&[][..], Err(Malformed)));
}

/// Lengths that were never meant, or that promise more than there is: nothing is reserved for them.
#[test]
fn lengths_are_not_believed() {
    for length in [-2, i32::MIN, 3, i32::MAX] {
        let bytes = [&length.to_be_bytes()[..], b"ab"].concat();
        assert_eq!(Reader::new(&bytes).bytes(), Err(Malformed), "{length}");
        assert_eq!(Reader::new(&bytes).list(Reader::int), Err(Malformed), "{length}");
    }
    for cut in 0..8 {
        assert_eq!(Reader::new(&[0; 8][..cut]).long(), Err(Malformed));
    }
}
