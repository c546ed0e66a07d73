use super::amount;

#[test]
fn amounts_have_three_digits_and_a_letter() {
    let shown = [0.5, 12.34, 999.96, 53_488_000.0, 2e9].map(amount);
    assert_eq!(shown, ["0.50", "12.3", "1000", "53.5 M", "2.00 G"]);
}
