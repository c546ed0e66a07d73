use super::{ANCHOR_BYTES_MAX, Anchor};

/// What goes in comes out, and nothing else fits.
#[test]
fn an_anchor_is_its_bytes() {
    for len in [0, 1, 16, ANCHOR_BYTES_MAX] {
        let bytes: Vec<u8> = (0..len as u8).collect();
        let anchor = Anchor::decode(&bytes).expect("short enough");
        assert_eq!(anchor.encode(), bytes);
        assert_eq!(Anchor::decode(anchor.encode()), Ok(anchor));
    }
    assert!(Anchor::decode(&[0; ANCHOR_BYTES_MAX + 1]).is_err());
    assert_ne!(Anchor::decode(&[0]), Anchor::decode(&[0, 0]), "the length counts");
}
