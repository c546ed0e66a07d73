use super::{Look, Reaction};
use serde_json::json;

fn look(replica: u16, view: u64, times: u64, problems: &[&str]) -> Look {
    let mut look = Look::default();
    let suspects = if times == 0 {
        json!([])
    } else {
        json!([{ "replica": 3, "times": times, "what": "it proposed two things" }])
    };
    let each = json!([{ "instance": 1, "view": view }, { "instance": 2, "view": 4 }]);
    look.take(replica, &json!({ "instances": { "each": each }, "suspects": suspects }), view);
    look.problems = problems.iter().map(|text| (replica, (*text).to_owned())).collect();
    look
}

#[test]
fn what_changed_is_told_and_nothing_else() {
    let before = look(1, 7, 0, &["r2 lacks 5 MiB of the log"]);
    let same = look(1, 7, 0, &["r2 lacks 900 MiB of the log"]);
    assert_eq!(before.until(&same), Reaction::default());
    let after = look(1, 9, 2, &["r2 lacks 5 MiB of the log", "r3 lacks 5 MiB of the log"]);
    let reaction = before.until(&after);
    assert_eq!(reaction.view_changes, 2);
    assert_eq!(reaction.suspicions, vec![(1, 3, "it proposed two things".to_owned())]);
    assert_eq!(reaction.problems, vec![(1, "r3 lacks 5 MiB of the log".to_owned())]);
    assert_eq!(after.until(&look(1, 9, 2, &[])), Reaction::default());
    assert_eq!(after.until(&look(1, 9, 3, &[])).suspicions.len(), 1, "it did it again");
    // Nobody answered before, so it is unknown how many changes there were.
    assert_eq!(Look::default().until(&after).view_changes, 0);
}
