//! Stays that end and begin again.

use super::*;
use crate::node::tests::joins;

/// The log holds a stay that began and was never executed here, because a later checkpoint was fetched. Its records are kept no longer than
/// those of a stay that was in force.
#[test]
fn stays_before_the_one_in_force_are_over() {
    let config = joins();
    let others =
        [(4, 0), (4, 2), (5, 0)].map(|(id, stay)| new_instance(&config, &mut Volumes::default(), id, stay));
    let mut stays = Groups::new(Vec::new(), others.into(), Generation::begin(1));
    let ends = |stays: &Groups| stays.others.iter().map(|other| other.stay().away).collect::<Vec<_>>();
    stays.end_before((InstanceId::new(4), 1), Seq::new(557));
    assert_eq!(
        ends(&stays),
        [Some(Seq::new(557)), None, None],
        "not those that come, nor another instance's"
    );
    stays.end_before((InstanceId::new(4), 3), Seq::new(900));
    assert_eq!(ends(&stays), [Some(Seq::new(557)), Some(Seq::new(900)), None], "each ends once");
}

/// A wrong state goes back to before an instance came, and the instance comes once more. If it counted as over, it would say nothing, and
/// the merge would wait for it.
#[test]
fn a_stay_that_comes_in_force_again_is_not_over() {
    let config = joins();
    let others = [(4, 0), (4, 1)].map(|(id, stay)| new_instance(&config, &mut Volumes::default(), id, stay));
    let mut stays = Groups::new(Vec::new(), others.into(), Generation::begin(1));
    stays.end_before((InstanceId::new(4), 1), Seq::new(557));
    let again = stays.take_known((InstanceId::new(4), 0)).expect("it is known");
    assert_eq!((again.stay().number(), again.stay().away), (0, None));
    assert!(stays.take_known((InstanceId::new(4), 0)).is_none(), "it is in force now");
    assert_eq!(stays.others.len(), 1);
}
