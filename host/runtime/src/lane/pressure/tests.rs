use super::problem;

#[test]
fn clients_that_hold_much_are_a_problem() {
    const MAX: usize = 256 << 20;
    assert_eq!(problem(MAX / 4 * 3, MAX), None);
    let text = problem(200 << 20, MAX).expect("a problem");
    assert!(
        text.starts_with("the connections of clients hold 200 of 256 MiB")
            && text.contains("limits.buffer_bytes")
    );
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations/alarms.md");
    assert!(std::fs::read_to_string(page).unwrap().contains("`the connections of clients hold X of X MiB`"));
}
