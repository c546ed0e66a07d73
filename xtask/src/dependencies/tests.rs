use super::*;

const TEXT: &str = "[licenses]\nallow = ['MIT', 'Apache-2.0', 'ISC']\nexceptions = [{ allow = ['MPL-2.0'], crate = 'odd' }]\n\
                    [bans]\nskip = [{ crate = 'twice@0.1' }]\n";

fn package(name: &str, version: &str, license: Option<&str>, source: &str) -> Borrowed {
    let license = license.map(str::to_owned);
    Borrowed { name: name.into(), version: version.into(), license, source: source.into() }
}

/// The packages that keep all rules in `TEXT` needed.
fn good() -> Vec<Borrowed> {
    vec![
        package("odd", "1.0.0", Some("MPL-2.0+"), REGISTRY),
        package("twice", "0.1.5", Some("MIT"), REGISTRY),
        package("twice", "0.2.0", Some("MIT"), REGISTRY),
    ]
}

fn with(more: Borrowed) -> Vec<String> {
    let packages: Vec<Borrowed> = good().into_iter().chain([more]).collect();
    problems(&packages, &Rules::parse(TEXT).unwrap())
}

#[test]
fn packages_within_the_rules_are_no_problem() {
    assert_eq!(problems(&good(), &Rules::parse(TEXT).unwrap()), Vec::<String>::new());
    let none: &[String] = &[];
    for license in
        ["MIT OR GPL-3.0", "(GPL-3.0 OR MIT) AND ISC", "GPL-3.0/MIT", "Apache-2.0 WITH LLVM-exception"]
    {
        assert_eq!(with(package("a", "1.0.0", Some(license), REGISTRY)), none, "{license}");
    }
}

#[test]
fn licenses_that_are_not_allowed_are_found() {
    for license in ["GPL-3.0", "MIT AND GPL-3.0", "GPL-3.0 OR MPL-2.0", "(MIT OR ISC) AND (GPL-3.0)"] {
        let found = with(package("a", "1.0.0", Some(license), REGISTRY));
        assert!(found.len() == 1 && found[0].contains("not allowed"), "{license}: {found:?}");
    }
    for license in ["", "MIT OR", "MIT Apache-2.0", "(MIT", "MIT)", "OR MIT", "MIT WITH"] {
        let found = with(package("a", "1.0.0", Some(license), REGISTRY));
        assert!(found.len() == 1 && found[0].contains("not understood"), "{license}: {found:?}");
    }
    let deep = format!("{}MIT{}", "(".repeat(10_000), ")".repeat(10_000));
    assert_eq!(with(package("a", "1.0.0", Some(&deep), REGISTRY)).len(), 1);
    assert!(with(package("a", "1.0.0", None, REGISTRY))[0].contains("names none"));
}

#[test]
fn other_sources_are_found() {
    let found = with(package("a", "1.0.0", Some("MIT"), "git+https://example.org/a"));
    assert!(found.len() == 1 && found[0].contains("git+https://example.org/a"), "{found:?}");
}

#[test]
fn versions_side_by_side_are_found_unless_they_are_listed() {
    let found = with(package("twice", "0.3.0", Some("MIT"), REGISTRY));
    assert!(found.len() == 1 && found[0].contains("0.2.0 and 0.3.0"), "{found:?}");
    let found = with(package("twice", "0.11.0", Some("MIT"), REGISTRY));
    assert!(found.len() == 1 && found[0].contains("0.11.0"), "0.1 is not the beginning of 0.11: {found:?}");
}

#[test]
fn rules_that_nothing_needs_are_found() {
    let found = problems(&good()[2..], &Rules::parse(TEXT).unwrap());
    assert!(
        found.len() == 2 && found.iter().all(|problem| problem.contains("not needed any more")),
        "{found:?}"
    );
    assert!(Rules::parse("[licenses]\nallow = []\n").is_err());
    assert!(Rules::parse(&TEXT.replace("twice@0.1", "twice")).is_err());
}

/// The repository's own packages keep the repository's own rules.
#[test]
fn what_is_locked_keeps_the_rules() {
    let root = crate::root();
    let rules = Rules::parse(&std::fs::read_to_string(root.join(RULES)).unwrap()).unwrap();
    let borrowed = borrowed(&linux_metadata(&root).unwrap());
    assert!(borrowed.len() > 100);
    assert_eq!(problems(&borrowed, &rules), Vec::<String>::new());
}
