//! Questions to the disk.

use super::id;
use crate::ledger::loads::{Loads, Question};
use crate::{Effect, Effects};

#[test]
fn the_lowest_record_of_all_open_questions_is_known() {
    let (mut loads, mut out) = (Loads::default(), Effects::new());
    assert_eq!(loads.ask(1, 0, vec![], &mut out), None, "a question for nothing is none");
    let first = loads.ask(7, 2, vec![id(9), id(8), id(12)], &mut out);
    let second = loads.ask(3, 1, vec![id(5)], &mut out);
    assert_eq!(first, Some(Question { load: 1, first: 7, count: 2 }));
    assert_eq!(second, Some(Question { load: 2, first: 3, count: 1 }));
    let asked: Vec<Effect> = out.drain().collect();
    assert_eq!(asked[0], Effect::Load { load: 1, records: vec![id(9), id(8), id(12)] });
    assert_eq!((asked.len(), loads.lowest()), (2, Some(id(5))));
    loads.answered(2);
    loads.answered(2);
    assert_eq!(loads.lowest(), Some(id(8)));
    loads.answered(1);
    assert_eq!(loads.lowest(), None);
}
