use super::super::tests::{one, problems};
use super::check;

const GLOSSARY: &str = "# G\nfrob is used here\n## Words we do not use\n\n| banned | say instead |\n| --- | --- |\n| `frob`, gizmo (as a noun) | widget |\n| lever arm | slot |\n## After\n| knob | - |\n";

fn in_file(path: &str, text: &str) -> Vec<String> {
    problems(check, &[("GLOSSARY.md", GLOSSARY), (path, text)])
}

#[test]
fn a_banned_word_is_found_in_code_comments_and_documents() {
    one(
        &in_file("base/a.rs", "\nlet last_frob = 1;\n"),
        "base/a.rs:2: \"frob\" is a word we do not use; say widget",
    );
    for text in ["struct FrobTable;", "// the frobs", "let frob2 = 1; let frob = 2;", "\"a Frob\"", "gizmo"] {
        one(&in_file("base/a.rs", text), "say widget");
        one(&in_file("docs/a.md", text), "say widget");
    }
}

#[test]
fn a_phrase_is_found_however_it_is_written() {
    for text in ["lever_arm", "LeverArm", "the lever arm", "lever_arms"] {
        one(&in_file("a.rs", text), "say slot");
    }
    assert_eq!(in_file("a.rs", "a lever, an arm, lever_armed"), [""; 0]);
}

#[test]
fn parts_of_words_and_other_sections_are_no_matter() {
    assert_eq!(in_file("a.rs", "frobnicate afrob noun as knob"), [""; 0]);
}

#[test]
fn citing_a_paper_is_fine() {
    assert_eq!(in_file("a.rs", "// the view (paper: frob)"), [""; 0]);
    assert_eq!(in_file("docs/protocols/x.md", "frob"), [""; 0]);
    assert_eq!(in_file("notes.txt", "frob"), [""; 0]);
}

#[test]
fn the_table_must_be_there() {
    one(&problems(check, &[]), "GLOSSARY.md: is missing");
    one(&problems(check, &[("GLOSSARY.md", "# G\n")]), "no heading");
    one(&problems(check, &[("GLOSSARY.md", "# G\n## Words we do not use\n")]), "no rows");
}
