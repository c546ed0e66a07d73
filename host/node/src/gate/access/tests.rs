use super::{Access, Permissions};
use quorate_execute::KeyUse;
use quorate_types::{ClusterId, Holder, Identity, Name};
use std::sync::Arc;

fn permissions(read: &[&[u8]], write: &[&[u8]]) -> Permissions {
    let list = |keys: &[&[u8]]| keys.iter().map(|key| key.to_vec()).collect();
    Permissions { read: list(read), write: list(write) }
}

#[test]
fn keys_are_covered_by_their_beginning() {
    let shop = permissions(&[b"shop/", b"common/"], &[b"shop/"]);
    for (used, covered) in [
        (KeyUse::Read(b"shop/1"), true),
        (KeyUse::Read(b"shop/"), true),
        (KeyUse::Read(b"shop"), false),
        (KeyUse::Read(b"common/x"), true),
        (KeyUse::Write(b"shop/1"), true),
        (KeyUse::Write(b"common/x"), false),
        (KeyUse::Read(b""), false),
        (KeyUse::ReadRange { start: b"shop/", end: Some(b"shop0") }, true),
        (KeyUse::ReadRange { start: b"shop/a", end: Some(b"shop/b") }, true),
        (KeyUse::ReadRange { start: b"shop/", end: Some(b"shop00") }, false),
        (KeyUse::ReadRange { start: b"shop/", end: Some(b"shop1") }, false),
        (KeyUse::ReadRange { start: b"shop/", end: None }, false),
        (KeyUse::ReadRange { start: b"", end: Some(b"shop0") }, false),
    ] {
        assert_eq!(shop.cover(&used), covered, "{used:?}");
    }
    let all = permissions(&[b""], &[]);
    assert!(all.cover(&KeyUse::ReadRange { start: b"", end: None }) && all.cover(&KeyUse::Read(b"x")));
    assert!(!all.cover(&KeyUse::Write(b"x")));
    let last = permissions(&[b"\xff\xff"], &[]);
    assert!(last.cover(&KeyUse::ReadRange { start: b"\xff\xff\x01", end: None }));
    assert!(!last.cover(&KeyUse::ReadRange { start: b"\xff", end: None }));
    let mixed = permissions(&[b"a\xff"], &[]);
    assert!(mixed.cover(&KeyUse::ReadRange { start: b"a\xff", end: Some(b"b") }));
    assert!(!mixed.cover(&KeyUse::ReadRange { start: b"a\xff", end: Some(b"b\0") }));
}

/// Every covered range holds only covered keys.
#[test]
fn a_covered_range_holds_nothing_else() {
    let keys: Vec<Vec<u8>> = (0..4_u32.pow(4))
        .map(|number| (0..4).map(|digit| [0, 1, 0xfe, 0xff][(number >> (2 * digit)) as usize & 3]).collect())
        .collect();
    let mut sorted: Vec<Vec<u8>> =
        keys.iter().flat_map(|key| (0..=4).map(|len| key[..len].to_vec())).collect();
    sorted.sort();
    sorted.dedup();
    let mut covered_ranges = 0;
    for prefix in sorted.iter().filter(|key| key.len() <= 2) {
        let own = permissions(&[prefix], &[]);
        for (at, start) in sorted.iter().enumerate().step_by(7) {
            for (to, end) in sorted.iter().enumerate().skip(at).step_by(5) {
                if own.cover(&KeyUse::ReadRange { start, end: Some(end) }) {
                    covered_ranges += 1;
                    assert!(
                        sorted[at..to].iter().all(|key| key.starts_with(prefix)),
                        "{prefix:?} {start:?} {end:?}"
                    );
                }
            }
        }
    }
    assert!(covered_ranges > 1000, "{covered_ranges}");
}

#[test]
fn who_may_do_what() {
    let name = |text: &str| Name::parse(text).expect("a name");
    let identity = |holder| Arc::new(Identity { cluster: ClusterId::new(7), holder });
    let shop = Arc::new(permissions(&[b"shop/"], &[]));
    let others = Arc::new(Permissions::default());
    let mut access = Access::default();
    access.named.insert(name("shop"), shop.clone());
    let client = identity(Holder::Client(name("shop")));
    let stranger = identity(Holder::Client(name("stranger")));
    assert_eq!(access.of(Some(&client)), Some(&shop));
    assert_eq!(access.of(Some(&stranger)), None, "without a word about the others they may do everything");
    access.others = Some(others.clone());
    assert_eq!(access.of(Some(&stranger)), Some(&others));
    assert_eq!(access.of(Some(&identity(Holder::Admin(name("shop"))))), None);
}
