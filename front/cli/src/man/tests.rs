use super::write;
use crate::Cli;
use clap::CommandFactory as _;
use std::collections::BTreeSet;

/// The names of the pages that a command and those in it should have.
fn names(command: &clap::Command, before: &str, all: &mut BTreeSet<String>) {
    let name = format!("{before}{}", command.get_name());
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
    shown.for_each(|below| names(below, &format!("{name}-"), all));
    all.insert(format!("{name}.1"));
}

#[test]
fn each_command_has_a_page_that_says_what_help_says() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let count = write(directory.path(), Cli::command()).expect("the pages can be written");
    let mut wanted = BTreeSet::new();
    names(&Cli::command(), "", &mut wanted);
    let entries = std::fs::read_dir(directory.path()).expect("a directory can be read");
    let found: BTreeSet<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
    assert_eq!((found.len(), &found), (count, &wanted));
    let page = |name: &str| std::fs::read_to_string(directory.path().join(name)).expect("a page");
    let put = page("quorate-kv-put.1");
    assert!(put.contains(".TH quorate-kv-put 1"), "{put}");
    assert!(put.contains("quorate kv put") || put.contains("\\fBquorate kv put\\fR"), "{put}");
    assert!(page("quorate.1").contains("Replication for any deterministic service"));
    assert!(page("quorate-serve.1").contains("QUORATE_LOG"));
}
