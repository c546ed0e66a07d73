use super::{Placement, STAY, reader_of};
use quorate_types::{ConnId, InstanceId, Span, Time};

fn lanes(placement: &Placement) -> Vec<u16> {
    (0..placement.links()).map(|link| placement.of(link)).collect()
}

const fn at(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

#[test]
fn links_are_spread_over_the_lanes_and_the_main_one_has_other_work_too() {
    let spread = |links, count| lanes(&Placement::spread(links, count, true));
    assert_eq!(spread(1, 1), [0]);
    assert_eq!(
        spread(3, 2),
        [0, 1, 0],
        "the second one fits better beside the engine than beside the first one"
    );
    assert_eq!(spread(3, 3), [0, 1, 2]);
    assert_eq!(spread(5, 3), [0, 1, 2, 1, 2]);
    assert_eq!(spread(5, 2), [0, 1, 1, 0, 1]);
    assert_eq!(spread(9, 9), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

/// Then the main lane has all pillars, and the others only connections.
#[test]
fn with_pillars_on_the_main_lane_it_has_no_further_links() {
    assert_eq!(lanes(&Placement::spread(5, 3, false)), [0, 1, 2, 1, 2]);
    assert_eq!(lanes(&Placement::spread(3, 2, false)), [0, 1, 1]);
    let mut placement = Placement::spread(3, 2, false);
    let why = placement.wish(&[(InstanceId::new(1), 0)], 2).expect_err("no lane for it");
    assert!(why.contains("lanes 2 to 2"), "{why}");
}

#[test]
fn an_operator_moves_instances_and_then_none_moves_by_itself() {
    let mut placement = Placement::spread(3, 3, true);
    let [first, second, third] = [1, 2, 3].map(InstanceId::new);
    assert_eq!(placement.wish(&[(first, 2), (second, 2)], 3), Ok(vec![(1, 2)]));
    placement.put(at(1), 1, 2);
    assert_eq!(placement.on(2).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(placement.of_instance(third), 2, "it shares the link of the first one");
    let busy = [(0, 100), (1, 0), (2, 1000)];
    assert_eq!(placement.wanted(at(100), &busy), None);
    assert!(placement.wish(&[(first, 0), (third, 1)], 3).is_err(), "they share a link");
    assert!(placement.wish(&[(first, 3)], 3).is_err(), "there is no such lane");
    assert_eq!(placement.wish(&[], 3), Ok(Vec::new()));
    assert_eq!(placement.wanted(at(100), &busy), Some((2, 1)), "the one that has stood there for longer");
    let why = placement.wish(&[(InstanceId::new(9), 1)], 3).expect_err("there is none");
    assert!(why.contains("instances 1 to 3"), "{why}");
    let mut one = Placement::spread(1, 1, true);
    assert!(one.wish(&[(first, 0)], 1).is_err());
    assert_eq!(one.wish(&[], 1), Ok(Vec::new()), "it does that anyway");
}

#[test]
fn a_link_moves_if_that_pays_and_then_stays_for_a_while() {
    let mut placement = Placement::spread(5, 3, true);
    // Two links on each of lanes 1 and 2, the engine on lane 0.
    assert_eq!(placement.wanted(at(100), &[(0, 600), (1, 700), (2, 700)]), None);
    assert_eq!(
        placement.wanted(at(100), &[(0, 400), (1, 700), (2, 900)]),
        None,
        "450 more would be nearly as much"
    );
    assert_eq!(placement.wanted(at(100), &[(0, 0), (1, 10), (2, 600)]), None, "it has time left");
    assert_eq!(placement.wanted(at(100), &[(0, 100), (1, 700), (2, 900)]), Some((2, 0)));
    placement.put(at(100), 2, 0);
    let after = [(0, 100), (1, 900), (2, 400)];
    assert_eq!(placement.wanted(at(101), &after), None, "it is not in what was measured yet");
    let later = at(100).plus(STAY).plus(Span::from_millis(1));
    assert_eq!(placement.wanted(later, &after), Some((1, 0)));
}

/// To move the only link of a lane would move the work, not spread it. The engine never moves. A lane that no link can relieve does not
/// keep others from being relieved.
#[test]
fn a_lane_with_one_link_keeps_it() {
    let placement = Placement::spread(3, 3, true);
    assert_eq!(placement.wanted(at(100), &[(0, 0), (1, 1000), (2, 0)]), None);
    assert_eq!(placement.wanted(at(100), &[(0, 1000), (1, 0), (2, 0)]), None);
    let placement = Placement::spread(5, 3, true);
    assert_eq!(placement.wanted(at(100), &[(0, 910), (1, 900), (2, 0)]), Some((1, 2)));
}

/// Merging and executing stay: so the only link of the main lane can go.
#[test]
fn the_main_lane_can_give_its_only_link_away() {
    let placement = Placement::spread(3, 2, true);
    assert_eq!(lanes(&placement), [0, 1, 0]);
    assert_eq!(placement.wanted(at(100), &[(0, 1000), (1, 100)]), Some((2, 1)));
    assert_eq!(placement.wanted(at(100), &[(0, 1000), (1, 400)]), None);
}

/// Where pillars stand on lanes, a client on another lane than its instance would make work.
#[test]
fn clients_move_alone_only_with_all_pillars_on_the_main_lane() {
    assert!(!Placement::spread(5, 3, true).clients_move());
    let mut placement = Placement::spread(5, 3, false);
    assert!(placement.clients_move());
    placement.wish(&[(InstanceId::new(1), 2)], 4).expect("there is such a lane");
    assert!(!placement.clients_move());
}

/// One lane executes, one has all pillars, and the others share the connections, whatever link these belong to. Nothing moves.
#[test]
fn in_a_staged_replica_each_step_has_a_lane() {
    let mut placement = Placement::staged(3, 4);
    assert!(placement.is_staged() && !Placement::spread(3, 4, true).is_staged());
    assert_eq!([1, 2, 3].map(|id| placement.of_instance(InstanceId::new(id))), [1, 1, 1]);
    assert_eq!((0..4).map(|lane| placement.on(lane).count()).collect::<Vec<_>>(), [0, 2, 0, 0]);
    for number in 2..20 {
        let conn = ConnId::new(number);
        let lane = placement.of_connection(conn, 1);
        assert_eq!(lane, placement.of_connection(conn, 0), "a connection of the first link, too");
        assert_eq!(usize::from(lane), 2 + reader_of(conn, 2), "the lane with the pillars finds it");
    }
    let of = |number| placement.of_connection(ConnId::new(number), 1);
    assert_eq!(std::collections::BTreeSet::from([of(2), of(3)]), [2, 3].into());
    assert_eq!(Placement::staged(2, 3).of_connection(ConnId::new(7), 1), 2);
    let steps = (0..4).map(|lane| placement.step(lane));
    let names = ["execution", "agreement", "connections", "connections"];
    assert!(steps.eq(names.map(Some)));
    assert_eq!(Placement::spread(3, 4, true).step(1), None);
    for wish in [&[(InstanceId::new(1), 2)][..], &[]] {
        let why = placement.wish(wish, 2).expect_err("nothing moves");
        assert!(why.contains("it is staged") && why.contains("remove `placement`"), "{why}");
    }
    assert_eq!(placement.wanted(at(100), &[(0, 0), (1, 1000), (2, 0), (3, 0)]), None);
    assert!(!placement.clients_move());
}
