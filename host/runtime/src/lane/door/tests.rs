use super::Door;
use quorate_types::{ConnId, Span, Time};
use std::net::IpAddr;

fn ip(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

fn conn(number: u64) -> ConnId {
    ConnId::new(number)
}

fn at(ms: u64) -> Time {
    Time::ZERO.plus(Span::from_millis(ms))
}

#[test]
fn addresses_take_turns_and_members_come_first() {
    let mut door = Door::default();
    door.know(ip(9));
    (1..=3).for_each(|number| door.came(conn(number), ip(1)));
    door.came(conn(4), ip(2));
    door.came(conn(5), ip(9));
    let read: Vec<u64> = std::iter::from_fn(|| door.next(at(1))).map(ConnId::number).collect();
    assert_eq!(read, [5, 1, 4, 2, 3]);
    assert_eq!(door.opens(at(1)), None);
}

#[test]
fn a_busy_lane_gives_them_a_part_of_its_time() {
    let mut door = Door::default();
    (1..=3).for_each(|number| door.came(conn(number), ip(1)));
    assert_eq!(door.next(at(10)), Some(conn(1)));
    door.served(at(11), Span::from_millis(1), true);
    assert_eq!((door.next(at(17)), door.opens(at(17))), (None, Some(at(18))));
    assert_eq!(door.next(at(18)), Some(conn(2)));
    door.served(at(19), Span::from_millis(1), false);
    assert_eq!(door.next(at(19)), Some(conn(3)), "there is nothing else to do");
    // A clock that jumps, forth and back, closes it for nobody.
    (4..=6).for_each(|number| door.came(conn(number), ip(1)));
    door.served(at(9_000_000), Span::from_secs(9000), true);
    assert_eq!(door.next(at(9_000_140)), Some(conn(4)));
    door.served(at(9_000_141), Span::from_millis(1), true);
    assert_eq!(door.next(at(5)), Some(conn(5)));
}
