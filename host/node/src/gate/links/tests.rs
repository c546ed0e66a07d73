use super::{Incoming, Lines, Outgoing, carries, link_for, link_of};
use quorate_types::{ConnId, Time};
use quorate_wire::Link;

fn conn(number: u64) -> ConnId {
    ConnId::new(number)
}

fn link(number: u16, of: u16) -> Link {
    Link { number, of }
}

#[test]
fn instances_take_turns_on_the_links_beside_the_first() {
    let links = |count| (0..5).map(|at| link_of(at, count)).collect::<Vec<_>>();
    assert_eq!(links(1), [0; 5], "with one link there is one");
    assert_eq!(links(2), [1; 5]);
    assert_eq!(links(4), [1, 2, 3, 1, 2]);
    assert!(carries(Link::FIRST, 3), "the first one carries all where there is one");
    assert!(carries(link(1, 4), 3) && !carries(link(2, 4), 3));
    assert!((0..9).all(|at| !carries(link(0, 4), at)));
}

/// Two replicas may have different numbers of links.
#[test]
fn every_further_link_has_one_here_beside_the_first() {
    for (of, links) in [(2, 2), (4, 4), (8, 3), (3, 8), (64, 2)] {
        for number in 1..of {
            let here = link_for(link(number, of), links);
            assert!((1..links).contains(&here), "link {number} of {of} belongs to {here} of {links}");
            assert!(of != links || here == number);
        }
    }
    assert_eq!(link_for(link(3, 8), 1), 0);
    assert_eq!(link_for(Link::FIRST, 8), 0);
}

fn dialed(lines: &mut Lines) -> Vec<u16> {
    lines.dialable().map(|(link, _)| link).collect()
}

fn stands(lines: &mut Lines, link: u16) {
    lines.get_mut(link).expect("a line").outgoing = Outgoing::Ready(conn(100 + u64::from(link)));
}

#[test]
fn further_links_wait_for_the_first_one() {
    let mut lines = Lines::new(Time::ZERO, 4);
    assert_eq!(dialed(&mut lines), [0]);
    stands(&mut lines, 0);
    assert_eq!(dialed(&mut lines), [0, 1, 2, 3]);
    assert_eq!(lines.of(0).ready(), None, "nothing goes by another way");
    stands(&mut lines, 1);
    assert_eq!(lines.of(0).ready(), Some(conn(101)));
    assert_eq!(lines.of(1).ready(), None);
    assert_eq!(lines.of(3).ready(), Some(conn(101)));
    lines.forget_further(Time::ZERO);
    assert_eq!(lines.of(0).ready(), None);
    assert_eq!(lines.standing(), 1);
}

#[test]
fn a_broken_link_cuts_off_its_instances_until_it_is_there_again() {
    let mut incoming = Incoming::default();
    assert_eq!(incoming.came(Link::FIRST, conn(1)), None);
    assert_eq!(incoming.came(link(1, 3), conn(2)), None);
    assert!((0..4).all(|at| !incoming.broken_for(at)), "the other one may still come");
    incoming.broke(link(1, 3));
    let broken: Vec<bool> = (0..4).map(|at| incoming.broken_for(at)).collect();
    assert_eq!(broken, [true, false, true, false]);
    assert_eq!(incoming.came(link(1, 3), conn(3)), None);
    assert!(!incoming.broken_for(0));
    assert_eq!(incoming.came(link(1, 3), conn(4)), Some(conn(3)), "its place is taken");
    incoming.broke(link(1, 3));
    incoming.forget_further();
    assert!(!incoming.broken_for(0), "with the first one they all begin anew");
}
