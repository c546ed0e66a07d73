use super::{Described, Program, described};
use std::ffi::OsString;

fn program(words: &[&str]) -> Program {
    let words: Vec<OsString> = words.iter().map(Into::into).collect();
    Program::of(&words).expect("there is a program")
}

#[test]
fn a_program_says_which_service_it_is() {
    assert_eq!(described("bank 2\n"), Some(Described { service: "bank".into(), version: 2 }));
    for wrong in
        ["", "bank", "bank 0", "bank two", "kv 1", "my bank 1", "b\u{e4}nk 1", "Usage: bank [OPTIONS]"]
    {
        assert_eq!(described(wrong), None, "{wrong}");
    }
}

#[test]
fn arguments_come_before_the_question() {
    let said = program(&["echo", "store", "7", "#"]).describe().expect_err("too many words").to_string();
    assert!(said.contains("said \"store 7 # --service\"") && said.contains("quorate::run"), "{said}");
    let described = program(&["sh", "-c", "echo store 7", "$0"]).describe().expect("it says so");
    assert_eq!(described, Described { service: "store".into(), version: 7 });
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let said = program(&["./no-such-program"]).describe().expect_err("it is not there").to_string();
    assert!(said.contains("can not start ./no-such-program") && said.contains("build it first"), "{said}");
}
