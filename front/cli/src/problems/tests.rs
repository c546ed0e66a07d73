use super::{Problem, Suspicions, refused, remedy_in_dev};
use crate::control::{ChildReport, Life};

#[test]
fn what_to_do_depends_on_what_dev_knows_of_the_process() {
    let report = |replica, life| ChildReport { replica, pid: None, life, apart: Vec::new(), error: None };
    let why = ChildReport { error: Some("no key".into()), ..report(5, Life::Ended) };
    let lives = [
        report(1, Life::Running),
        report(2, Life::Paused),
        report(3, Life::Killed),
        report(4, Life::Ended),
        why,
    ];
    let said = |replica, dir| remedy_in_dev(replica, Some(&lives), dir);
    assert_eq!(said(2, ""), "it is paused: `quorate chaos resume 2`");
    assert_eq!(said(2, " --dir ./d"), "it is paused: `quorate chaos resume 2 --dir ./d`");
    for replica in [1, 3] {
        assert_eq!(said(replica, ""), format!("`quorate chaos restart {replica}`"));
    }
    let ended = said(4, "");
    assert!(ended.contains("log.txt") && ended.ends_with("then `quorate chaos restart 4`"), "{ended}");
    assert_eq!(
        said(5, " --dir ./d"),
        "its process ended: no key. Do what that says, then `quorate chaos restart 5 --dir ./d`"
    );
    assert!(said(6, "").contains("`quorate serve`"), "one that was added later");
    assert!(remedy_in_dev(2, None, "").contains("no `quorate dev` runs"));
}

#[test]
fn full_disks_are_named_as_the_reason() {
    let said = refused(&[2, 3]).to_string();
    assert!(
        said.starts_with(
            "writes are refused: too few replicas have room on their disks (full: replicas 2, 3)"
        ),
        "{said}"
    );
    assert!(refused(&[2]).to_string().contains("(full: replica 2)"));
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations/alarms.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    assert!(page.contains("`writes are refused: too few replicas have room on their disks`"));
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

/// Who says of whom that it does what no honest replica does.
fn suspicions(said: &[(u64, &[u64])]) -> Suspicions {
    let mut suspicions = Suspicions { by: Default::default(), truth: 2 };
    for (from, whom) in said {
        let whom: Vec<_> = whom.iter().map(|id| serde_json::json!({ "replica": id })).collect();
        suspicions.add(*from, &whom.into());
    }
    suspicions
}

const OF_3: &str = "r3 is suspected: this replica saw it do what no honest replica does";

#[test]
fn what_more_say_than_can_lie_is_certain() {
    let all = suspicions(&[(1, &[3]), (2, &[3]), (4, &[3])]);
    assert_eq!(all.weighed(1, OF_3), format!("{OF_3}. 3 replicas say so, and so many do not all lie"));
}

#[test]
fn a_liar_that_accuses_others_is_not_believed() {
    let all = suspicions(&[(1, &[3]), (2, &[1, 4]), (3, &[2]), (4, &[2])]);
    let text = all.weighed(2, "r1 is suspected: ...");
    assert!(text.starts_with("do not act on this: this replica is itself suspected by 2 others"), "{text}");
    let many = suspicions(&[(2, &[1, 3]), (4, &[2])]).weighed(2, OF_3);
    assert!(many.starts_with("do not act on this: this replica accuses 2 others"), "{many}");
    let turned = suspicions(&[(3, &[1, 2]), (4, &[3])]).weighed(4, OF_3);
    assert!(turned.ends_with("r3 accuses 2 others itself, and so many do not all lie: it does"), "{turned}");
    let word = all.weighed(1, OF_3);
    assert!(word.ends_with("look at both before you stop one"), "one against one: {word}");
    let other = suspicions(&[(1, &[3]), (2, &[1])]);
    assert!(other.weighed(1, OF_3).ends_with("look at both before you stop one"));
}

#[test]
fn one_accuser_that_is_accused_by_one_more_is_looked_at_first() {
    let mut all = suspicions(&[(2, &[1]), (1, &[1])]);
    all.truth = 3;
    assert_eq!(all.count(1), 1, "what a replica says of itself does not count");
    let text = all.weighed(1, OF_3);
    assert!(text.ends_with("This replica is itself suspected by more replicas: look at it first"), "{text}");
    assert_eq!(all.weighed(1, "no leader is known"), "no leader is known");
}
