use super::made::healthy;
use crate::top::live::{Key, Shown, keys};
use crate::top::table::Sort;
use std::time::Instant;

#[test]
fn keys_are_read_one_by_one() {
    assert_eq!(keys(b"sq"), [Key::Sort, Key::Quit]);
    assert_eq!(keys(b"\x1b[A\x1b[Bj\x1b[6~"), [Key::Up, Key::Down, Key::Down, Key::Down]);
    assert_eq!(keys(b"\x03\x1c\x04\x1a"), [Key::Quit, Key::Quit, Key::Quit, Key::Stop]);
    // What no key is known for: function keys, a letter of two bytes.
    assert_eq!(keys(b"\x1b[15~s"), [Key::Other]);
    assert_eq!(keys("ä".as_bytes()), [Key::Other, Key::Other]);
    assert_eq!(keys(b"\x1b"), [Key::Other]);
    assert_eq!(keys(b""), []);
}

#[test]
fn keys_change_the_view() {
    let mut shown = Shown::new(true);
    shown.looked(healthy(3, 1, 1), Instant::now());
    assert!(shown.pressed(Key::Sort) && shown.view.sort == Sort::Requests);
    for _ in 0..9 {
        assert!(shown.pressed(Key::Down));
    }
    assert_eq!(shown.view.above, 2, "the last of three replicas stays");
    assert!(shown.pressed(Key::Up) && shown.view.above == 1);
    assert!(shown.pressed(Key::Help) && shown.view.help);
    assert!(shown.pressed(Key::Sort) && !shown.view.help, "any key goes back");
    assert_eq!(shown.view.sort, Sort::Requests, "and does nothing else");
    assert!(shown.pressed(Key::Help) && !shown.pressed(Key::Quit), "but the end is the end");
}

#[test]
fn a_paused_view_stands_still_and_then_shows_the_newest() {
    let mut shown = Shown::new(true);
    shown.looked(healthy(3, 1, 1), Instant::now());
    shown.pressed(Key::Pause);
    shown.looked(healthy(3, 1, 2), Instant::now());
    shown.looked(healthy(3, 1, 3), Instant::now());
    let at =
        |shown: &Shown| shown.looks().map(|(before, now)| (before.map(|look| look.time_ms), now.time_ms));
    let ms = |seconds| healthy(3, 1, seconds).time_ms;
    assert_eq!(at(&shown), Some((None, ms(1))));
    shown.pressed(Key::Pause);
    assert_eq!(at(&shown), Some((Some(ms(2)), ms(3))), "with the look just before it");
}
