//! `quorate new`: what it writes is what `check/template` builds and tests, under another name.

use crate::harness::quorate;
use std::fs;

const TEMPLATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/new/template");
const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn the_project_is_the_template_under_its_own_name() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let dir = place.path().join("apple-cart");
    let shown = dir.to_str().expect("UTF-8");
    let said = quorate(&["new", shown, "--quorate", CHECKOUT]).ok();
    assert!(said.contains("quorate dev -- target/release/apple-cart"), "{said}");
    let read = |file: &str| fs::read_to_string(dir.join(file)).expect("it is there");
    for file in ["src/lib.rs", "src/main.rs", "examples/add.rs", "tests/cluster.rs", "tests/simulation.rs"] {
        let template = fs::read_to_string(format!("{TEMPLATE}/{file}")).expect("it is there");
        let wanted = template.replace("my-service", "apple-cart").replace("my_service", "apple_cart");
        assert_eq!(read(file), wanted, "{file}");
        assert!(!wanted.contains("my"), "{file} names the template");
    }
    let manifest: toml::Table = toml::from_str(&read("Cargo.toml")).expect("a manifest");
    assert_eq!(manifest["package"]["name"].as_str(), Some("apple-cart"));
    let path = manifest["dependencies"]["quorate"]["path"].as_str().expect("a path");
    assert!(fs::exists(format!("{path}/Cargo.toml")).expect("it can be looked for"), "{path}");
    assert!(read("README.md").starts_with("# apple-cart\n") && !read("README.md").contains("my-service"));
    assert!(read("src/lib.rs").lines().count() <= 33, "a service is short");
}

#[test]
fn a_project_can_begin_with_any_of_the_services() {
    let place = tempfile::tempdir().expect("a temporary directory");
    for (example, type_) in [
        ("ledger", "Ledger"),
        ("queue", "Queue"),
        ("limiter", "Limiter"),
        ("flags", "Flags"),
        ("locks", "Locks"),
    ] {
        let dir = place.path().join(format!("our-{example}"));
        let said = quorate(&["new", dir.to_str().expect("UTF-8"), "--example", example]).ok();
        assert!(said.contains("cargo run --release --example client "), "{said}");
        let read = |file: &str| fs::read_to_string(dir.join(file)).expect("it is there");
        let name = format!("our_{example}");
        for (file, template) in [
            ("src/lib.rs", "lib.rs"),
            ("tests/simulation.rs", "simulation.rs"),
            ("examples/client.rs", "client.rs"),
        ] {
            let template =
                fs::read_to_string(format!("{TEMPLATE}/services/{example}/{template}")).expect("it is there");
            let wanted =
                template.replace("my-service", &format!("our-{example}")).replace("my_service", &name);
            assert_eq!(read(file), wanted, "{file}");
        }
        assert!(read("src/main.rs").contains(&format!("quorate::run(Typed({type_}::default()))")));
        assert!(read("README.md").contains("# a client\n") && !read("README.md").contains("{{"));
    }
    let dir = place.path().join("other");
    quorate(&["new", dir.to_str().expect("UTF-8"), "--example", "bank"])
        .fails(2, &["ledger", "queue", "locks"]);
}

#[test]
fn without_a_checkout_it_builds_with_the_published_crate() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let dir = place.path().join("shop2");
    let shown = dir.to_str().expect("UTF-8");
    assert!(quorate(&["new", shown]).ok().contains("the published crate; --quorate DIR"));
    let manifest = fs::read_to_string(dir.join("Cargo.toml")).expect("it is there");
    let version = format!("version = \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(manifest.contains(&format!("quorate = {{ {version} }}")), "{manifest}");
    assert!(manifest.contains(&format!("quorate = {{ {version}, features = [\"sim\"] }}")), "{manifest}");
}

#[test]
fn names_and_places_that_can_not_be_are_refused() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let new = |name: &str| {
        let dir = place.path().join(name);
        quorate(&["new", dir.to_str().expect("UTF-8")])
    };
    for (name, why) in [
        ("kv", "`quorate serve` runs kv itself"),
        ("two words", "letters, digits, - and _"),
        ("Shop", "has no capitals"),
        ("2shops", "begins with a small letter"),
        ("match", "has a meaning for Rust"),
        ("quorate", "that the project uses"),
    ] {
        new(name).fails(2, &[name, why]);
        assert!(!place.path().join(name).exists(), "{name}");
    }
    fs::create_dir(place.path().join("full")).expect("a directory");
    fs::write(place.path().join("full/mine"), "").expect("a file");
    new("full").fails(2, &["is not empty", "choose another name"]);
    let empty = place.path().join("no-checkout");
    let (empty, here) = (empty.to_str().expect("UTF-8"), place.path().to_str().expect("UTF-8"));
    quorate(&["new", empty, "--quorate", here])
        .fails(2, &["is no checkout of Quorate", "host/quorate/Cargo.toml"]);
}
