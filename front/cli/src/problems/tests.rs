use super::{Problem, remedy_in_dev};
use crate::control::{ChildReport, Life};

#[test]
fn what_to_do_depends_on_what_dev_knows_of_the_process() {
    let report = |replica, life| ChildReport { replica, pid: None, life, apart: Vec::new() };
    let lives =
        [report(1, Life::Running), report(2, Life::Paused), report(3, Life::Killed), report(4, Life::Ended)];
    assert_eq!(remedy_in_dev(2, Some(&lives)), "it is paused: `quorate chaos resume 2`");
    for replica in [1, 3, 4] {
        assert_eq!(remedy_in_dev(replica, Some(&lives)), format!("`quorate chaos restart {replica}`"));
    }
    assert!(remedy_in_dev(2, None).contains("no `quorate dev` runs"));
}

#[test]
fn a_problem_says_whose_it_is() {
    let text = || "its disk is full".to_owned();
    let said = Problem::Said { replica: 2, text: text() };
    assert_eq!(said.to_string(), "replica 2: its disk is full");
    let away = Problem::Away { replica: 2, text: "at h:1: no route; check the network".into() };
    assert_eq!(away.to_string(), "replica 2 is unreachable at h:1: no route; check the network");
    assert_eq!(Problem::Whole(text()).to_string(), text());
}
