use super::*;

/// The unit that `dev export` writes is the one that the package installs.
#[test]
fn the_unit_is_that_of_dev_export_with_another_place_of_the_program() {
    let root = crate::root();
    let exported = read_text(&root, &format!("{EXPORTED}/quorate@.service")).unwrap();
    let unit = unit(&exported).unwrap();
    assert!(!unit.contains("/usr/local") && !unit.contains("dev export"), "{unit}");
    let own = ["EnvironmentFile=-/etc/default/quorate", "ExecStart=/usr/bin/quorate serve --config"];
    for line in own {
        assert_eq!(unit.matches(line).count(), 1, "{line} in {unit}");
    }
    let kept = |text: &str| -> Vec<String> {
        let lines =
            text.lines().filter(|line| !line.starts_with("ExecStart=") && !line.starts_with("Environment"));
        lines.skip_while(|line| line.starts_with('#')).map(str::to_owned).collect()
    };
    assert_eq!(kept(&unit), kept(&exported));
}

#[test]
fn a_unit_of_another_form_is_refused() {
    assert!(unit("[Service]\nExecStart=/opt/quorate serve\n").unwrap_err().contains("ExecStart="));
    let blank = "[Service]\nExecStart=/usr/local/bin/quorate serve\nMemoryMax={{memory}}\n";
    assert!(unit(blank).unwrap_err().contains("blank"));
}

#[test]
fn the_user_is_that_of_dev_export() {
    let exported = read_text(&crate::root(), &format!("{EXPORTED}/sysusers.conf")).unwrap();
    let user = packaged(&exported);
    assert!(user.contains("\nu quorate ") && !user.contains("dev export"), "{user}");
}
