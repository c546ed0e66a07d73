//! The ids under which operators are served.

use super::{OPERATORS_MAX, free_number};
use quorate_types::{ConnId, ReplicaId};
use std::collections::BTreeMap;

#[test]
fn no_operator_is_taken_for_a_member() {
    let high: Vec<ReplicaId> = [65_534, 65_533, 65_520].into_iter().map(ReplicaId::new).collect();
    let mut operators = BTreeMap::new();
    while let Some(number) = free_number(&operators, |id| high.contains(&id)) {
        assert!(!high.contains(&number), "{number} is a member");
        let conn = ConnId::new(operators.len() as u64);
        assert_eq!(operators.insert(number, conn), None, "{number} is served already");
    }
    assert_eq!(operators.len(), OPERATORS_MAX);
}
