use super::table::What;
use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

/// All steps, samples included, each with the name of its campaign.
fn all_steps() -> impl Iterator<Item = (&'static str, &'static Step)> {
    TABLE.iter().flat_map(|row| row.steps.iter().chain(row.sample).map(|step| (row.name, step)))
}

#[test]
fn what_is_asked_for() {
    assert_eq!(asked(&words("")), Ok(Asked::List { json: false }));
    assert_eq!(asked(&words("--json")), Ok(Asked::List { json: true }));
    assert_eq!(asked(&words("--help")), Ok(Asked::Help));
    let run = |name: Option<&str>, sample| Ok(Asked::Run { name: name.map(String::from), sample });
    assert_eq!(asked(&words("kills")), run(Some("kills"), false));
    assert_eq!(asked(&words("--sample")), run(None, true));
    assert_eq!(asked(&words("kills --sample")), run(Some("kills"), true));
    for (line, said) in [("--fast", "no --fast"), ("a b", "one name"), ("kills --json", "the list alone")] {
        assert!(asked(&words(line)).unwrap_err().contains(said), "{line}");
    }
}

#[test]
fn an_unknown_name_says_which_there_are() {
    let said = chosen(Some("etcd")).err().expect("there is none");
    assert!(said.contains("etcd-kills, etcd-leases") && said.contains("lists them"), "{said}");
    assert_eq!(chosen(Some("kills")).expect("there is one")[0].name, "kills");
    assert_eq!(chosen(None).expect("all").len(), TABLE.len());
}

#[test]
fn each_row_says_what_it_is() {
    let names: BTreeSet<&str> = TABLE.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), TABLE.len(), "no name comes twice");
    for row in TABLE {
        assert!(row.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", row.name);
        assert!(!row.covers.is_empty() && !row.usual.is_empty() && !row.steps.is_empty(), "{}", row.name);
    }
    assert!(listed().lines().count() > TABLE.len());
}

#[test]
fn the_list_for_machines_has_all_of_it() {
    let json = as_json();
    assert_eq!(json.as_array().map(Vec::len), Some(TABLE.len()));
    let kills = json.as_array().and_then(|rows| rows.iter().find(|row| row["name"] == "kills"));
    let step = &kills.expect("a row")["steps"][0];
    assert_eq!(step["environment"]["QUORATE_KILLS"], "200");
    assert_eq!(step["command"], "cargo test -p quorate-cli --test hurt kills::killed");
}

#[test]
fn a_line_can_be_typed() {
    let planted = all_steps().find(|(_, step)| step.what == What::PlantedTests).expect("some");
    assert!(planted.1.line().starts_with("RUSTC_WORKSPACE_WRAPPER=xtask/rustc-planted cargo test "));
}

/// A sample is for the gate, which has no release build.
#[test]
fn a_sample_needs_no_release() {
    for row in TABLE {
        for step in row.sample {
            assert!(step.what != What::Release && !step.arguments.contains("--release"), "{}", row.name);
        }
    }
    for what in [What::Debug, What::Tests, What::PlantedTests] {
        assert!(TABLE.iter().flat_map(|row| row.sample).any(|step| step.what == what), "{what:?}");
    }
}

/// The folder of each package.
fn packages() -> BTreeMap<String, PathBuf> {
    let metadata = crate::commands::metadata(&crate::root()).expect("cargo knows the packages");
    let package = |package: &Value| {
        let manifest = PathBuf::from(package["manifest_path"].as_str()?);
        Some((package["name"].as_str()?.to_string(), manifest.parent()?.to_path_buf()))
    };
    metadata["packages"].as_array().expect("packages").iter().filter_map(package).collect()
}

/// The text of all sources below a folder.
fn sources(folder: &Path) -> String {
    let Ok(entries) = std::fs::read_dir(folder) else { return String::new() };
    let text = |path: PathBuf| match path.extension().is_some_and(|kind| kind == "rs") {
        true => std::fs::read_to_string(path).unwrap_or_default(),
        false if path.is_dir() => sources(&path),
        false => String::new(),
    };
    entries.filter_map(|entry| Some(text(entry.ok()?.path()))).collect()
}

/// Where a package, a binary of tests, a test or a variable got another name, a campaign would run nothing, or less than it says.
#[test]
fn what_the_table_names_exists() {
    let packages = packages();
    for (name, step) in all_steps().filter(|(_, step)| matches!(step.what, What::Tests | What::PlantedTests))
    {
        let words: Vec<&str> = step.arguments.split_whitespace().collect();
        let after = |option: &str| words.iter().position(|word| *word == option).map(|at| words[at + 1]);
        let folders: Vec<&PathBuf> = match after("-p") {
            Some(package) => vec![packages.get(package).unwrap_or_else(|| panic!("{name}: {package}"))],
            None => packages.values().collect(),
        };
        let has = |test: &str| {
            let files = [format!("tests/{test}.rs"), format!("tests/{test}/main.rs")];
            folders.iter().any(|folder| files.iter().any(|file| folder.join(file).exists()))
        };
        assert!(after("--test").is_none_or(has), "{name}: {}", step.arguments);
        let texts: String =
            folders.iter().map(|f| sources(&f.join("tests")) + &sources(&f.join("src"))).collect();
        for (variable, _) in step.environment {
            assert!(texts.contains(variable), "{name}: nothing reads {variable}");
        }
        let binary = words.iter().position(|word| *word == "--test").map(|at| at + 1);
        let before = binary.or(words.iter().position(|word| *word == "--lib"));
        let filter = before.and_then(|at| words.get(at + 1)).filter(|word| !word.starts_with('-'));
        let part = filter.and_then(|filter| filter.rsplit("::").next());
        assert!(part.is_none_or(|part| texts.contains(part)), "{name}: there is no test {filter:?}");
    }
}

#[test]
fn the_end_of_a_log_is_shown() {
    let path = std::env::temp_dir().join(format!("quorate-campaign-{}.log", std::process::id()));
    std::fs::write(&path, "one\n\ntwo\nthree\n\n").expect("a file");
    assert_eq!(runner::last_lines(&path, 2), ["two", "three"]);
    std::fs::remove_file(&path).expect("it is there");
    assert!(runner::last_lines(&path, 2)[0].contains("quorate-campaign"), "what is missing is named");
    assert_eq!(runner::spoken(Duration::from_secs(59)), "59 s");
    assert_eq!(runner::spoken(Duration::from_secs(3700)), "1 h 1 min");
}
