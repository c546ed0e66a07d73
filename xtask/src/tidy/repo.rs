//! The repository's files and their text.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// Folders with files of others.
const SKIPPED: [&str; 5] = [".git", ".quorate", "target", "fuzz/target", "fuzz/artifacts"];

/// Every file below the root, by its path with forward slashes. Binary files have no text here.
pub(crate) struct Repo {
    files: BTreeMap<String, String>,
    /// Folders and binary files.
    others: BTreeSet<String>,
}

impl Repo {
    pub(crate) fn read(root: &Path) -> io::Result<Repo> {
        let mut repo = Repo { files: BTreeMap::new(), others: BTreeSet::new() };
        repo.walk(root, "")?;
        Ok(repo)
    }

    /// A made-up repository.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Repo {
        let mut repo = Repo { files: BTreeMap::new(), others: BTreeSet::new() };
        for (path, text) in files {
            repo.files.insert((*path).to_string(), (*text).to_string());
            for (slash, _) in path.match_indices('/') {
                repo.others.insert(path[..slash].to_string());
            }
        }
        repo
    }

    fn walk(&mut self, dir: &Path, name: &str) -> io::Result<()> {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let file_name = entry.file_name().to_string_lossy().into_owned();
            let path = if name.is_empty() { file_name } else { format!("{name}/{file_name}") };
            let kind = entry.file_type()?;
            if SKIPPED.contains(&path.as_str()) || path.ends_with(".log") || kind.is_symlink() {
                continue;
            }
            if kind.is_dir() {
                self.walk(&entry.path(), &path)?;
                self.others.insert(path);
                continue;
            }
            match String::from_utf8(std::fs::read(entry.path())?) {
                Ok(text) => drop(self.files.insert(path, text)),
                Err(_) => drop(self.others.insert(path)),
            }
        }
        Ok(())
    }

    /// Whether there is a file or folder with this path.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.others.contains(path)
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// All text files.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text files with this ending.
    pub(crate) fn ending(&self, end: &str) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(move |(path, _)| path.ends_with(end))
    }

    /// Every path: files and folders.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().chain(&self.others).map(String::as_str)
    }
}
