use super::*;

/// Whoever sends, whoever receives, and each part of what is said: all of it decides the MAC.
#[test]
fn a_mac_is_of_everything_that_was_said() {
    let digest = digest(b"batch");
    let mac = Key::of(1, 2).mac(3, 4, &digest);
    assert_eq!(mac, Key::of(1, 2).mac(3, 4, &digest));
    let others = [
        Key::of(2, 1).mac(3, 4, &digest),
        Key::of(1, 3).mac(3, 4, &digest),
        Key::of(1, 2).mac(2, 4, &digest),
        Key::of(1, 2).mac(3, 5, &digest),
        Key::of(1, 2).mac(3, 4, &NO_BATCH),
    ];
    assert!(others.iter().all(|other| *other != mac));
}
