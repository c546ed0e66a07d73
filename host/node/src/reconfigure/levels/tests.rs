//! The levels of a program. How the level is raised is tested with whole clusters (check/sim).

use super::*;

fn level(cluster: u32, highest: u32) -> LevelConfig {
    LevelConfig { highest, ..LevelConfig::made_with(cluster) }
}

#[test]
fn a_program_works_at_its_levels_and_no_others() {
    let own = level(1, 2);
    assert_eq!((own.check(1), own.check(2)), (Ok(()), Ok(())));
    assert_eq!(own.check(3), Err(Halt::FeatureLevel { cluster: 3, lowest: 1, highest: 2 }));
    assert_eq!(own.check(0), Err(Halt::FeatureLevel { cluster: 0, lowest: 1, highest: 2 }));
    assert!(own.check(3).is_err_and(|halt| halt.to_string().contains("newer program")));
    assert!(own.check(0).is_err_and(|halt| halt.to_string().contains("version before")));
}

#[test]
fn a_log_that_was_written_at_a_level_stops_programs_that_can_not_do_it() {
    let mut levels = Levels::default();
    assert_eq!(levels.restore(&record(LEVEL, 2), &level(1, 2)), Ok(()));
    assert_eq!(levels.noted, 2);
    let stopped = levels.restore(&record(LEVEL, 2), &level(1, 1));
    assert_eq!(stopped, Err(Halt::FeatureLevel { cluster: 2, lowest: 1, highest: 1 }));
    let cut = Record { head: record(LEVEL, 2).head.slice(..3), ..record(LEVEL, 2) };
    assert!(matches!(levels.restore(&cut, &level(1, 2)), Err(Halt::LogInconsistent { .. })));
}

#[test]
fn the_level_of_the_service_is_noted_once() {
    let mut levels = Levels::default();
    assert_eq!(levels.restore_service(&record(SERVICE_LEVEL, 3)), Ok(()));
    assert_eq!(levels.service_noted(), 3);
    let cut = Record { head: record(SERVICE_LEVEL, 2).head.slice(..3), ..record(SERVICE_LEVEL, 2) };
    assert!(matches!(levels.restore_service(&cut), Err(Halt::LogInconsistent { .. })));
}
