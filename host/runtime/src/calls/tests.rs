use super::FrontCalls;
use quorate_types::{Durations, Span};

#[test]
fn the_status_has_each_kind_that_was_called() {
    let fronts = FrontCalls::default();
    let calls = fronts.of("etcd", &["Put", "Range", "Txn"]);
    calls.took(0, Span::from_millis(3));
    calls.failed(0, Span::from_millis(5));
    calls.failed(2, Span::from_millis(7));
    // A front that asks again goes on with the same numbers.
    fronts.of("etcd", &["Put", "Range", "Txn"]).took(0, Span::from_millis(1));
    let status = serde_json::to_value(fronts.status()).unwrap();
    let etcd = status["etcd"].as_array().unwrap();
    assert_eq!(etcd.len(), 2, "nobody called Range: {status}");
    assert_eq!(
        (&etcd[0]["call"], &etcd[0]["failed"], &etcd[0]["took"]["count"]),
        (&"Put".into(), &1.into(), &3.into())
    );
    assert_eq!(
        (&etcd[1]["call"], &etcd[1]["failed"], &etcd[1]["took"]["count"]),
        (&"Txn".into(), &1.into(), &1.into())
    );
    assert_eq!(etcd[0]["took"]["sum_s"], 0.009);
}

#[test]
fn a_front_that_counts_itself_replaces_its_numbers() {
    let fronts = FrontCalls::default();
    let calls = fronts.of("zookeeper", &["read"]);
    let mut took = Durations::NONE;
    took.add(Span::from_millis(2));
    calls.all(0, took);
    took.add(Span::from_millis(2));
    calls.all(0, took);
    assert_eq!(calls.each().map(|(kind, took)| (kind, took.count())).collect::<Vec<_>>(), [("read", 2)]);
}
