use super::{Part, Script};

const TEXT: &str = "# The story.\n# More of it.\n\n# About this block.\none; two\n# inside\nthree a=1\n---\nout 1\nout 2\n\nfour\n";

#[test]
fn a_script_is_its_text() {
    let script = Script::parse(TEXT).expect("parses");
    assert_eq!(script.to_string(), TEXT);
    let blocks: Vec<_> =
        script.parts.iter().filter_map(|p| if let Part::Block(b) = p { Some(b) } else { None }).collect();
    assert_eq!(blocks.len(), 2);
    let names: Vec<_> = blocks[0].commands.iter().map(|(line, c)| (*line, c.name.as_str())).collect();
    assert_eq!(names, [(5, "one"), (5, "two"), (7, "three")]);
    assert_eq!(blocks[0].expected.as_deref(), Some(&["out 1".to_string(), "out 2".to_string()][..]));
    assert_eq!(blocks[1].expected, None);
}

#[test]
fn mistakes_are_found_with_their_line() {
    assert_eq!(Script::parse("run\n---\n").expect_err("no story").line, 1);
    assert_eq!(Script::parse("# a\n\n---\nout\n").expect_err("no command").line, 3);
    assert_eq!(Script::parse("# a\nrun \"\n").expect_err("no end of the word").line, 2);
}
