use super::{AutoCompaction, Plan, is_over};
use quorate_etcd::SizeNow;
use std::time::Duration;
use tokio::time::Instant;

fn parsed(text: &str) -> Result<AutoCompaction, String> {
    AutoCompaction::try_from(text.to_owned())
}

#[test]
fn retentions_are_times_or_numbers_of_revisions() {
    let time = |seconds| Ok(AutoCompaction::OlderThan(Duration::from_secs(seconds)));
    assert_eq!(parsed("90s"), time(90));
    assert_eq!(parsed("5m"), time(300));
    assert_eq!(parsed("1h"), time(3600));
    assert_eq!(parsed("2d"), time(172_800));
    assert_eq!(parsed("10000 revisions"), Ok(AutoCompaction::AllBut(10_000)));
    assert_eq!(parsed("off"), Ok(AutoCompaction::Off));
    for wrong in
        ["", "1", "0h", "h", "-1h", "1.5h", "1w", "0 revisions", "99999999999h", "Off", "1 revision s"]
    {
        let why = parsed(wrong).expect_err(wrong);
        assert!(why.contains("\"1h\", \"10000 revisions\" or \"off\""), "{why}");
    }
}

#[test]
fn revisions_as_old_as_the_retention_are_compacted_each_tenth_of_it() {
    let begin = Instant::now();
    let mut plan = Plan::new(AutoCompaction::OlderThan(Duration::from_secs(100)));
    let mut compacted = 0;
    // One revision is made each second.
    for second in 0..400 {
        let due = plan.due(begin + Duration::from_secs(second), 1 + second as i64, compacted);
        match due {
            Some(revision) => {
                assert_eq!(second % 10, 0, "each tenth of the retention");
                assert_eq!(revision, second as i64 - 99, "what was the newest then");
                compacted = revision;
            }
            None => assert!(second < 100 || second % 10 != 0, "nothing was due at {second}"),
        }
        assert!(plan.past.len() <= 11, "{}", plan.past.len());
    }
    assert_eq!(compacted, 291);
    let later = begin + Duration::from_secs(5000);
    assert_eq!(plan.due(later, 400, 400), None, "all is compacted already");
}

#[test]
fn the_newest_revisions_are_kept() {
    let mut plan = Plan::new(AutoCompaction::AllBut(1000));
    let now = Instant::now();
    assert_eq!(plan.due(now, 900, 0), None);
    assert_eq!(plan.due(now, 1099, 0), None, "too few to be worth it");
    assert_eq!(plan.due(now, 1100, 0), Some(100));
    assert_eq!(plan.due(now, 1199, 100), None);
    assert_eq!(plan.due(now, 9000, 100), Some(8000));
    let mut one = Plan::new(AutoCompaction::AllBut(1));
    assert_eq!(one.due(now, 5, 4), None);
    assert_eq!(one.due(now, 6, 4), Some(5));
    assert_eq!(Plan::new(AutoCompaction::Off).due(now, 1_000_000, 0), None);
}

#[test]
fn a_store_that_is_being_swept_may_hold_a_little_more() {
    let size = |bytes, is_sweeping| SizeNow { bytes, objects: 1, compacted: 1, is_sweeping };
    assert!(!is_over(&size(1000, false), 1000));
    assert!(is_over(&size(1001, false), 1000));
    assert!(!is_over(&size(1100, true), 1000));
    assert!(is_over(&size(1101, true), 1000));
    assert!(!is_over(&size(u64::MAX, true), u64::MAX), "no quota");
}
