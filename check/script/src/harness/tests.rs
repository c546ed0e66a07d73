use super::{Failure, Harness, compare, run};
use crate::Command;

/// Says its arguments, one a line.
struct Echo;

impl Harness for Echo {
    fn run(&mut self, command: &Command) -> Result<String, String> {
        if command.name == "echo" { Ok(command.args.join("\n")) } else { Err("no such command".into()) }
    }
}

#[test]
fn a_script_that_prints_what_it_says_passes() {
    let text = "# Echo.\necho a b; echo c\n---\na\nb\nc\n\necho\n---\n(nothing)\n";
    assert_eq!(run(text, &mut Echo).expect("runs").to_string(), text);
}

#[test]
fn a_difference_is_shown_as_one() {
    let text = "# Echo.\necho a b\n---\na\nx\n";
    let printed = run(text, &mut Echo).expect("runs");
    let differs = Failure::Differs { line: 2, diff: "    a\n  - x\n  + b\n".into() };
    assert_eq!(compare(text, &printed), [differs]);
}

#[test]
fn output_that_is_missing_is_a_difference() {
    let text = "# Echo.\necho a\n";
    let printed = run(text, &mut Echo).expect("runs");
    assert_eq!(printed.to_string(), "# Echo.\necho a\n---\na\n");
    assert_eq!(compare(text, &printed).len(), 1);
}

#[test]
fn a_mistake_fails_with_its_line() {
    let failure = run("# Echo.\necho a\ncry\n---\n", &mut Echo).expect_err("no such command");
    assert_eq!(failure, Failure::Script { line: 3, why: "cry: no such command".into() });
}

/// The whole way over a file: the file is read, what it says is compared, and an update makes it right.
#[test]
fn files_are_checked() {
    let path = std::env::temp_dir().join(format!("quorate-script-{}.txt", std::process::id()));
    std::fs::write(&path, "# Echo.\necho a\n---\nb\n").expect("writes");
    let error = super::check_file(&path, &mut Echo, false).expect_err("differs");
    assert!(error.contains("- b\n  + a") && error.contains("QUORATE_UPDATE=1"), "{error}");
    assert_eq!(super::check_file(&path, &mut Echo, true), Ok(()));
    assert_eq!(std::fs::read_to_string(&path).expect("reads"), "# Echo.\necho a\n---\na\n");
    assert_eq!(super::check_file(&path, &mut Echo, false), Ok(()));
    std::fs::remove_file(&path).expect("removes");
}
