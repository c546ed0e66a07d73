use super::*;
use serde_json::Value;
use std::collections::BTreeSet;

fn text(name: &str) -> String {
    read_text(&crate::root(), &format!("{CHART}/{name}")).unwrap()
}

fn templates() -> Vec<(String, String)> {
    let folder = crate::root().join(CHART).join("templates");
    let names = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.map(|name| (name.clone(), text(&format!("templates/{name}")))).collect()
}

/// What stands between `{{` and `}}`.
fn actions(template: &str) -> Vec<&str> {
    let parts = template.split("{{").skip(1);
    parts.map(|part| part.split_once("}}").expect("an action ends").0.trim_matches(['-', ' '])).collect()
}

/// A template without its actions: lines that only decide are left out, a block of YAML becomes an empty one, and all else a word.
fn skeleton(template: &str) -> String {
    let mut skeleton = String::new();
    for line in template.lines() {
        let actions = actions(line);
        let decides = ["if ", "else", "end", "range "];
        if actions.first().is_some_and(|action| decides.iter().any(|word| action.starts_with(word))) {
            continue;
        }
        let (mut rest, mut plain) = (line, String::new());
        while let Some((before, after)) = rest.split_once("{{") {
            let (action, after) = after.split_once("}}").expect("an action ends");
            plain += before;
            plain += if action.contains("toYaml") { " {}" } else { "word" };
            rest = after;
        }
        skeleton += &format!("{plain}{rest}\n");
    }
    skeleton
}

/// All values, as paths with points; a list or an empty table is one value.
fn leaves(value: &Value, path: &str, all: &mut BTreeSet<String>) {
    match value.as_object() {
        Some(table) if !table.is_empty() => {
            for (key, below) in table {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                leaves(below, &path, all);
            }
        }
        _ => drop(all.insert(path.to_owned())),
    }
}

/// The values that templates name, such as `image.tag`.
fn named() -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for (_, template) in templates() {
        for action in actions(&template) {
            for rest in action.split(".Values.").skip(1) {
                let path = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').next().unwrap();
                named.insert(path.to_owned());
            }
        }
    }
    named
}

/// Templates name only values that there are, and each value is for something.
#[test]
fn templates_and_values_name_the_same() {
    let values: Value = serde_saphyr::from_str(&text("values.yaml")).unwrap();
    let mut all = BTreeSet::new();
    leaves(&values, "", &mut all);
    let named = named();
    assert!(named.len() > 10, "{named:?}");
    let within = |a: &str, b: &str| a == b || a.strip_prefix(b).is_some_and(|rest| rest.starts_with('.'));
    let unknown: Vec<_> = named.iter().filter(|name| !all.iter().any(|leaf| within(leaf, name))).collect();
    assert!(unknown.is_empty(), "values.yaml lacks {unknown:?}");
    let idle: Vec<_> = all.iter().filter(|leaf| !named.iter().any(|name| within(leaf, name))).collect();
    assert!(idle.is_empty(), "no template uses {idle:?}");
}

/// Each template is YAML, whichever way its decisions go, and each decision ends.
#[test]
fn templates_are_yaml() {
    let mut kinds = BTreeSet::new();
    for (name, template) in templates() {
        let begins = |word: &str| actions(&template).iter().filter(|action| action.starts_with(word)).count();
        assert_eq!(begins("if ") + begins("range "), begins("end"), "{name}");
        if !name.ends_with(".yaml") {
            continue;
        }
        // Both ways of a decision at once give a table the same key twice in no template.
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&skeleton(&template)).unwrap_or_else(|why| panic!("{name}: {why}"));
        for document in documents {
            kinds.insert(document["kind"].as_str().unwrap().to_owned());
            assert_eq!(document["metadata"]["name"].as_str().unwrap().trim_end_matches("-client"), "word");
        }
    }
    let wanted = ["PodDisruptionBudget", "Service", "StatefulSet"];
    assert_eq!(kinds, wanted.map(str::to_owned).into());
}

/// The chart's pods are as safe as those that `dev export --kubernetes` writes.
#[test]
fn the_chart_hardens_pods_as_dev_export_does() {
    let file = "front/cli/src/dev/export/templates/kubernetes.yaml";
    let exported = read_text(&crate::root(), file).unwrap();
    let chart = text("templates/replicas.yaml");
    let lines =
        |text: &str| -> BTreeSet<String> { text.lines().map(|line| line.trim().to_owned()).collect() };
    let (exported, chart) = (lines(&exported), lines(&chart));
    let kept = [
        "automountServiceAccountToken: false",
        "podManagementPolicy: Parallel",
        "runAsNonRoot: true",
        "runAsUser: 10001",
        "fsGroup: 10001",
        "type: RuntimeDefault",
        "allowPrivilegeEscalation: false",
        "readOnlyRootFilesystem: true",
        "drop: [\"ALL\"]",
        "path: /livez",
        "path: /readyz",
        "whenDeleted: Retain",
        "publishNotReadyAddresses: true",
    ];
    for line in kept.into_iter().filter(|line| exported.contains(*line)) {
        assert!(
            chart.contains(line) || text("templates/services.yaml").contains(line),
            "the chart lacks {line}"
        );
    }
}

#[test]
fn another_version_is_refused() {
    assert_eq!(same_version("version: 1.2.3\nappVersion: \"1.2.3\"\n", "1.2.3"), Ok(()));
    assert!(
        same_version("version: 1.2.3\nappVersion: \"1.2.2\"\n", "1.2.3").unwrap_err().contains("appVersion")
    );
    assert!(same_version("appVersion: \"1.2.3\"\n", "1.2.3").is_err());
}
