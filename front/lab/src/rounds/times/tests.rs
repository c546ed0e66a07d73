use super::*;

fn times(rounds: &[(u64, u64)], never: u64) -> Times {
    let mut times = Times::default();
    for (ms, count) in rounds {
        (0..*count).for_each(|_| times.add(Some(Duration::from_millis(*ms))));
    }
    (0..never).for_each(|_| times.add(None));
    times
}

fn measured(replies: Vec<Times>) -> Measured {
    Measured {
        members: replies.len() + 1,
        processes: 1,
        message_bytes: 100,
        every_ms: 1000,
        local: false,
        strangers: 0,
        replies,
    }
}

#[test]
fn shares_are_of_all_rounds() {
    let some = times(&[(1, 90), (5, 9)], 1);
    assert_eq!((some.rounds(), some.never(), some.longest()), (100, 1, Some(5.0)));
    for (share, ms) in
        [(0.0, Some(1.0)), (0.9, Some(1.0)), (0.91, Some(5.0)), (0.99, Some(5.0)), (0.991, None)]
    {
        assert_eq!(some.within(share), ms, "{share}");
    }
    for (ms, share) in [(0.5, 1.0), (1.0, 0.1), (4.9, 0.1), (5.0, 0.01), (1e9, 0.01), (-1.0, 1.0)] {
        assert!((some.later_than(ms) - share).abs() < 1e-9, "{ms}");
    }
    assert_eq!(some.distribution(), [(1.0, 0.9), (5.0, 0.99)]);
    let none = Times::default();
    assert_eq!((none.within(0.5), none.longest(), none.later_than(1.0)), (None, None, 1.0));
}

#[test]
fn times_are_never_shown_shorter_than_they_were() {
    for (us, rounded) in
        [(0, 0), (7, 7), (999, 999), (1000, 1000), (1001, 1010), (123_456, 124_000), (999_999, 1_000_000)]
    {
        assert_eq!(three_digits(us), rounded, "{us}");
    }
    assert!(three_digits(u128::MAX) >= u64::MAX / 2, "and never too long to add");
}

#[test]
fn results_of_one_group_are_put_together() {
    let one = measured(vec![times(&[(1, 3)], 0), times(&[(2, 2)], 1)]);
    let two = Measured { strangers: 4, ..measured(vec![times(&[(1, 1)], 0), times(&[(9, 1)], 0)]) };
    let both = one.clone().merge(&two).expect("one group");
    assert_eq!((both.processes, both.strangers, both.rounds()), (2, 4, 4));
    assert_eq!(both.replies[1], times(&[(2, 2), (9, 1)], 1));
    let other = Measured { message_bytes: 7, ..two };
    let why = one.merge(&other).expect_err("another group").to_string();
    assert!(why.contains("different groups"), "{why}");
}

#[test]
fn files_are_read_as_they_were_written_and_nonsense_is_refused() {
    let directory = std::env::temp_dir().join(format!("quorate-rounds-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let file = directory.join("results.json");
    let read = |text: String| {
        std::fs::write(&file, text).expect("it is written");
        Measured::read(&[&file]).map_err(|why| why.to_string())
    };
    let one = measured(vec![times(&[(1, 3)], 0), times(&[(2, 2)], 1)]);
    let document = |measured: &Measured| serde_json::json!({ "other": 1, "measured": measured }).to_string();
    assert_eq!(read(document(&one)), Ok(one.clone()));
    let twice = Measured::read(&[&file, &file]).expect("one group");
    assert_eq!(twice.rounds(), 6);
    for wrong in [
        Measured { members: 7, ..one.clone() },
        Measured { members: 1, replies: vec![], ..one.clone() },
        measured(vec![times(&[(1, 3)], 0), times(&[(1, 2)], 0)]),
        measured(vec![Times::default()]),
    ] {
        let why = read(document(&wrong)).expect_err("nonsense");
        assert!(why.contains("has no results") && why.contains("quorate doctor visigoth --json"), "{why}");
    }
    assert!(read("[]".to_owned()).is_err() && read(String::new()).is_err());
    let most = u64::MAX.to_string();
    let huge = document(&one).replace(":3", &format!(":{most}")).replace(":2}", &format!(":{most}}}"));
    let huge = read(huge);
    assert!(huge.is_err() || huge.is_ok_and(|measured| measured.replies[0].later_than(0.1) <= 1.0));
    std::fs::remove_dir_all(&directory).expect("it is removed");
    let why = Measured::read(&[&file]).expect_err("nothing is there").to_string();
    assert!(why.contains("results.json"), "{why}");
}
