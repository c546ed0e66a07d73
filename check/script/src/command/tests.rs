use super::Command;

#[test]
fn words_options_and_quotation_marks() {
    let commands =
        Command::parse_line("cluster n=3 auto; propose r1 \"two words; a=b\" \"\"").expect("parses");
    assert_eq!(commands.len(), 2);
    assert_eq!((commands[0].name.as_str(), commands[0].number("n")), ("cluster", Ok(Some(3))));
    assert_eq!(commands[0].args, ["auto"]);
    assert_eq!(commands[1].args, ["r1", "two words; a=b", ""]);
    assert!(commands[1].options.is_empty());
    assert_eq!(commands[1].to_string(), "propose r1 \"two words; a=b\" \"\"");
}

#[test]
fn mistakes_are_named() {
    let error = |line| Command::parse_line(line).expect_err("does not parse");
    assert_eq!(error("propose r1 \"a"), "a quotation mark is missing");
    assert_eq!(error("run; ;run"), "a command is missing");
    assert_eq!(error("cluster n=3 n=5"), "n is given twice");
    let command = &Command::parse_line("cluster m=3 n=x").expect("parses")[0];
    assert!(command.only_options(&["n"]).is_err());
    assert!(command.number("n").is_err());
    assert!(command.only_arg().is_err());
}
