//! What holds of every folder of golden scripts.

use quorate_script::{Harness, check_file, updates_wanted};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// A folder in `scripts`.
pub(crate) struct Folder(pub(crate) &'static str);

impl Folder {
    fn path(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts").join(self.0)
    }

    fn scripts(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.path()).expect("the scripts are there");
        let files = files.map(|file| file.expect("an entry").path());
        let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "txt")).collect();
        files.sort();
        files
    }

    /// Every script prints what it says.
    pub(crate) fn runs<H: Harness + Default>(&self) {
        let check = |path: &PathBuf| check_file(path, &mut H::default(), updates_wanted()).err();
        let failures: Vec<String> = self.scripts().iter().filter_map(check).collect();
        assert!(failures.is_empty(), "{} scripts fail\n\n{}", failures.len(), failures.join("\n\n"));
    }

    /// Each of these occurs in a line of a script that shows what was printed, and has this in it.
    pub(crate) fn shows(&self, lines_with: &str, forms: &[&str]) {
        let read = |path: &PathBuf| fs::read_to_string(path).expect("readable");
        let all: String = self.scripts().iter().map(read).collect();
        let output: Vec<&str> = all.lines().filter(|line| line.contains(lines_with)).collect();
        for form in forms {
            assert!(output.iter().any(|line| line.contains(form)), "no script shows '{form}'");
        }
    }

    /// The reading order names each script once, and nothing else.
    pub(crate) fn is_listed(&self, at_least: usize) {
        let readme = fs::read_to_string(self.path().join("README.md")).expect("the reading order");
        let listed =
            readme.lines().filter_map(|line| line.strip_prefix("- [")?.split_once("](")?.1.split_once(')'));
        let listed: Vec<String> = listed.map(|(file, _)| file.to_string()).collect();
        let scripts = self.scripts();
        let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
        let files: BTreeSet<String> = scripts.iter().map(name).collect();
        assert!(files.len() >= at_least, "scripts are missing");
        assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), files);
        assert_eq!(listed.len(), files.len(), "a script is listed twice");
    }
}
