use super::{News, Troubles};

const SLOW: &str = "r2 at 127.0.0.1:7002 is not connected";

fn one(text: &str) -> Vec<String> {
    vec![text.to_owned()]
}

#[test]
fn a_problem_that_stays_is_told_once_and_so_is_its_end() {
    let mut troubles = Troubles::default();
    assert_eq!(troubles.look(one(SLOW)), []);
    assert_eq!(troubles.look(one(SLOW)), [News::Began(SLOW.into())]);
    assert_eq!(troubles.look(one(SLOW)), []);
    assert_eq!(troubles.look(vec![]), []);
    assert_eq!(troubles.look(vec![]), [News::Over(SLOW.into())]);
    assert_eq!(troubles.look(vec![]), []);
}

#[test]
fn what_passes_by_itself_is_not_told() {
    let mut troubles = Troubles::default();
    for _ in 0..4 {
        assert_eq!(troubles.look(one(SLOW)), []);
        assert_eq!(troubles.look(vec![]), []);
    }
    troubles.look(one(SLOW));
    troubles.look(one(SLOW));
    for _ in 0..4 {
        assert_eq!(troubles.look(vec![]), [], "it was away for one look only");
        assert_eq!(troubles.look(one(SLOW)), []);
    }
}

#[test]
fn other_numbers_are_the_same_problem_and_other_replicas_are_not() {
    let lags = |replica: u32, bytes: u32| one(&format!("r{replica} is {bytes} MiB behind (the limit is 64)"));
    let mut troubles = Troubles::default();
    troubles.look(lags(2, 70));
    assert_eq!(troubles.look(lags(2, 80)).len(), 1);
    assert_eq!(troubles.look(lags(2, 90)), []);
    let both = [lags(2, 90), lags(3, 70)].concat();
    assert_eq!(troubles.look(both.clone()), []);
    assert_eq!(troubles.look(both), [News::Began(lags(3, 70).remove(0))]);
}
