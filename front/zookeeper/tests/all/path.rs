//! Which paths are allowed, beside the rule of ZooKeeper written out over the units of UTF-16.

use proptest::prelude::*;
use quorate_zookeeper::path::{PathError, ZkPath};

#[test]
fn each_rule_refuses_something() {
    let cases: [(&[u8], Result<(), PathError>); 20] = [
        (b"/", Ok(())),
        (b"/a", Ok(())),
        (b"/a/b.c/..d/e..", Ok(())),
        ("/\u{e9}/\u{4e2d}\u{d7ff}".as_bytes(), Ok(())),
        (b"/a b\xc2\xa0", Ok(())),
        (b"", Err(PathError::Empty)),
        (b"a", Err(PathError::Relative)),
        (b"a/b", Err(PathError::Relative)),
        (b"/a/", Err(PathError::EndsWithSlash)),
        (b"//", Err(PathError::EndsWithSlash)),
        (b"//a", Err(PathError::EmptyName)),
        (b"/a//b", Err(PathError::EmptyName)),
        (b"/.", Err(PathError::Dots)),
        (b"/a/../b", Err(PathError::Dots)),
        (b"/a\0", Err(PathError::Character)),
        (b"/a\x1f", Err(PathError::Character)),
        (b"/\x7f", Err(PathError::Character)),
        ("/\u{9f}".as_bytes(), Err(PathError::Character)),
        ("/\u{fff0}".as_bytes(), Err(PathError::Character)),
        (b"/\xff", Err(PathError::Character)),
    ];
    for (path, expected) in cases {
        assert_eq!(ZkPath::new(path).map(|_| ()), expected, "{:?}", String::from_utf8_lossy(path));
    }
    assert_eq!(ZkPath::new("/\u{1f600}".as_bytes()), Err(PathError::Character), "two units of UTF-16");
}

/// The rule as a loop over units: what stands before and behind decides.
fn is_allowed(path: &str) -> bool {
    let units: Vec<u16> = path.encode_utf16().collect();
    let (slash, dot) = (u16::from(b'/'), u16::from(b'.'));
    if units.first() != Some(&slash) || (units.len() > 1 && units.last() == Some(&slash)) {
        return false;
    }
    let ends = |at: usize| units.get(at).is_none_or(|unit| *unit == slash);
    (1..units.len()).all(|at| {
        let (unit, before) = (units[at], units[at - 1]);
        let empty = unit == slash && before == slash;
        let one = unit == dot && before == slash && ends(at + 1);
        let two = unit == dot && before == dot && units[at - 2] == slash && ends(at + 1);
        let refused = matches!(unit, 0..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..);
        !(empty || one || two || refused)
    })
}

proptest! {
    #[test]
    fn paths_are_allowed_as_in_zookeeper(path in "[/.a\u{0}\u{1f}\u{80}\u{d7ff}\u{e000}\u{f8ff}\u{f900}\u{ffef}\u{fff0}\u{1f600}]{0,8}") {
        prop_assert_eq!(ZkPath::new(path.as_bytes()).is_ok(), is_allowed(&path), "{:?}", path);
        let numbered = format!("{path}1");
        prop_assert_eq!(ZkPath::before_number(path.as_bytes()).is_ok(), is_allowed(&numbered), "{:?}", path);
    }

    #[test]
    fn any_bytes_are_judged(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
        let _ = ZkPath::new(&bytes);
        let _ = ZkPath::before_number(&bytes);
    }

    #[test]
    fn a_path_is_its_parents_child(names in proptest::collection::vec("[a-c]{1,2}", 0..5)) {
        let text = format!("/{}", names.join("/"));
        let path = ZkPath::new(text.as_bytes()).expect("it is allowed");
        prop_assert_eq!(path.depth(), names.len());
        prop_assert_eq!(path.name(), names.last().map_or("", String::as_str));
        match path.parent() {
            Some(parent) => {
                prop_assert_eq!(parent.depth() + 1, path.depth());
                prop_assert_eq!(parent.child(path.name()), path.text());
                prop_assert!(path.is_in(parent) && !parent.is_in(path));
            }
            None => prop_assert!(path.is_root()),
        }
        prop_assert!(path.is_in(ZkPath::ROOT) && path.is_in(path));
    }
}

#[test]
fn a_name_that_begins_alike_is_not_below() {
    let path = |text: &'static str| ZkPath::new(text.as_bytes()).expect("it is allowed");
    assert!(!path("/ab").is_in(path("/a")));
    assert!(path("/a/b").is_in(path("/a")));
}
