use super::super::tests::one;
use super::*;

#[test]
fn a_subject_is_read_whole() {
    let mut findings = Findings::default();
    let (fits, long) = ("x".repeat(72), "y".repeat(73));
    judge(&format!("abc1 {fits}\nabc2 {long}\n"), &mut findings);
    one(&findings.problems, "abc2: the subject has 73 characters");
}
