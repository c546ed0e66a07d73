//! Files in memory, by their paths: what is to be packed, and what was read back.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Files and empty directories, by paths with forward slashes that begin with no slash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    files: BTreeMap<String, Item>,
    /// Directories that are to exist, with or without files.
    directories: BTreeMap<String, u32>,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) data: Vec<u8>,
    /// Its permissions, such as 0o644.
    pub(crate) mode: u32,
}

impl Tree {
    pub(crate) fn file(&mut self, path: &str, mode: u32, data: Vec<u8>) {
        self.files.insert(path.to_owned(), Item { data, mode });
    }

    pub(crate) fn directory(&mut self, path: &str, mode: u32) {
        self.directories.insert(path.to_owned(), mode);
    }

    /// Adds all of another tree below a directory.
    pub(crate) fn below(&mut self, directory: &str, other: Tree) {
        let place = |path: String| format!("{directory}/{path}");
        self.files.extend(other.files.into_iter().map(|(path, item)| (place(path), item)));
        self.directories.extend(other.directories.into_iter().map(|(path, mode)| (place(path), mode)));
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Item> {
        self.files.get(path)
    }

    /// A file that is text.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        std::str::from_utf8(&self.get(path)?.data).ok()
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = (&str, &Item)> {
        self.files.iter().map(|(path, item)| (path.as_str(), item))
    }

    /// Whether something has this path: a file, a directory, or files in a directory.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.all_directories().contains_key(path)
    }

    /// All directories with their permissions, those that only hold files, too; each stands after the one that it is in.
    pub(crate) fn all_directories(&self) -> BTreeMap<String, u32> {
        let mut all = BTreeSet::new();
        for path in self.files.keys().chain(self.directories.keys()) {
            all.extend(path.match_indices('/').map(|(slash, _)| path[..slash].to_owned()));
        }
        let mut all: BTreeMap<String, u32> = all.into_iter().map(|path| (path, 0o755)).collect();
        all.extend(self.directories.clone());
        all
    }

    /// Writes it all into a directory.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn write(&self, out: &Path) -> io::Result<()> {
        std::fs::create_dir_all(out)?;
        for path in self.all_directories().keys() {
            std::fs::create_dir_all(out.join(path))?;
        }
        for (path, item) in &self.files {
            let file = out.join(path);
            std::fs::write(&file, &item.data)?;
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(item.mode))?;
        }
        Ok(())
    }
}
