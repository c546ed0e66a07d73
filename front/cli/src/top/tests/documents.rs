use super::made::{HOSTILE, healthy, look, said, status, with};
use crate::top::document::document;
use crate::top::look::Look;
use quorate_command::print::{clean, json_line};
use serde_json::{Value, json};

#[test]
fn a_document_has_the_rates() {
    let document = document(Some(&healthy(3, 2, 10)), &healthy(3, 2, 12));
    assert_eq!(document["seconds"], 2.0);
    assert_eq!((&document["leader"], &document["answered"]), (&json!(1), &json!(3)));
    assert_eq!((&document["requests_per_s"], &document["reads_per_s"]), (&json!(1000.0), &json!(600.0)));
    let ordering = json!({ "count": 4000, "p50": { "at_most_us": 256 }, "p99": { "at_most_us": 1024 } });
    assert_eq!(document["ordering"], ordering);
    assert_eq!(document["instances"][1], json!({ "instance": 2, "view": 3, "leader": 2 }));
    let second = &document["replicas"][1];
    assert_eq!((&second["role"], &second["lag_bytes"]), (&json!("leader"), &json!(200)));
    assert_eq!((&second["cpu_cores"], &second["log_bytes_per_s"]), (&json!(0.5), &json!(2_097_152.0)));
    assert_eq!((&second["leads"], &document["replicas"][2]["leads"]), (&json!(1), &json!(0)));
    assert_eq!(second["checkpoint"]["durable"], 500);
}

#[test]
fn what_is_not_known_is_null() {
    let away = look(12, vec![(1, Err("no route"))]);
    let first = document(None, &away);
    for name in ["seconds", "leader", "requests_per_s", "reads_per_s"] {
        assert_eq!(first[name], Value::Null, "{name}");
    }
    assert_eq!(
        (&first["replicas"][0]["answers"], &first["replicas"][0]["error"]),
        (&json!(false), &json!("no route"))
    );
    let nothing = document(None, &Look::nothing(5, "no cluster".into()));
    assert_eq!((&nothing["error"], &nothing["replicas"]), (&json!("no cluster"), &json!([])));
}

#[test]
fn hostile_texts_are_whole_in_a_line_that_can_be_printed() {
    let now = with(look(12, vec![(1, Ok(status(1, 1, 1, 12)))]), |found| {
        found.problems = vec![said(1, HOSTILE, 4)]
    });
    let line = json_line(&document(None, &now));
    assert_eq!((clean(&line), line.lines().count()), (line.clone(), 1));
    let read: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(
        read["problems"][0],
        json!({ "replica": 1, "text": format!("replica 1: {HOSTILE}"), "for_s": 4 })
    );
}
