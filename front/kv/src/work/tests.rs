//! The tables that commands take on real threads.

use super::Work;

#[test]
fn a_table_is_had_by_one_at_a_time() {
    let Work { tables } = Work::default();
    assert!(tables.take(5) && !tables.take(5) && !tables.take(5));
    assert!(tables.take(6), "another one");
    tables.leave(5);
    assert!(tables.take(5) && !tables.take(6));
}
