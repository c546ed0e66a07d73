//! Archives: tar with gzip, and ar. Everything that could differ between two runs is fixed: order, owners, times.

use super::tree::Tree;
use flate2::{Compression, GzBuilder};
use std::io::{Read as _, Write as _};
use tar::{Builder, EntryType, Header};

/// How archives are written.
pub(crate) struct Archives {
    /// The time of all files, in seconds since 1970.
    pub(crate) time: u64,
    /// Compressed little, for those that are only checked.
    pub(crate) fast: bool,
}

impl Archives {
    /// All of a tree below one directory, which `.` may be.
    ///
    /// # Errors
    /// When a path is too long.
    pub(crate) fn tar_gz(&self, top: &str, tree: &Tree) -> Result<Vec<u8>, String> {
        let failed = |e: std::io::Error| format!("package: writing an archive: {e}");
        let mut tar = Builder::new(Vec::new());
        let mut add = |path: String, mode: u32, kind: EntryType, data: &[u8]| {
            let mut header = Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_mtime(self.time);
            header.set_uid(0);
            header.set_gid(0);
            header.set_username("root").and_then(|()| header.set_groupname("root")).map_err(failed)?;
            header.set_size(data.len() as u64);
            // As text: the crate would drop the `./` with which paths of a Debian package begin.
            let name = path.as_bytes();
            let room = header.as_old_mut().name.get_mut(..name.len());
            room.ok_or(format!("package: the path {path} is too long"))?.copy_from_slice(name);
            header.set_cksum();
            tar.append(&header, data).map_err(failed)
        };
        add(format!("{top}/"), 0o755, EntryType::Directory, &[])?;
        for (path, mode) in tree.all_directories() {
            add(format!("{top}/{path}/"), mode, EntryType::Directory, &[])?;
        }
        for (path, item) in tree.items() {
            add(format!("{top}/{path}"), item.mode, EntryType::Regular, &item.data)?;
        }
        self.gzip(&tar.into_inner().map_err(failed)?)
    }

    /// Compresses bytes, without a name or time.
    ///
    /// # Errors
    /// None that is expected.
    pub(crate) fn gzip(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let level = if self.fast { Compression::fast() } else { Compression::best() };
        let mut writer = GzBuilder::new().mtime(0).write(Vec::new(), level);
        writer.write_all(bytes).and_then(|()| writer.finish()).map_err(|e| format!("package: gzip: {e}"))
    }

    /// An ar archive, as a Debian package is one.
    pub(crate) fn ar(&self, members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = b"!<arch>\n".to_vec();
        for (name, data) in members {
            let head =
                format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", self.time, 0, 0, "100644", data.len());
            bytes.extend_from_slice(head.as_bytes());
            bytes.extend_from_slice(data);
            if data.len() % 2 == 1 {
                bytes.push(b'\n');
            }
        }
        bytes
    }
}

/// Decompresses bytes.
///
/// # Errors
/// When they are not compressed.
pub(crate) fn gunzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    let read = flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain);
    read.map(|_| plain).map_err(|e| format!("no gzip: {e}"))
}

/// Reads an archive back: its files and directories, by paths as they stand in it, without a slash at the end.
///
/// # Errors
/// When it is none.
pub(crate) fn read_tar_gz(bytes: &[u8]) -> Result<Tree, String> {
    let plain = gunzip(bytes)?;
    let failed = |e: std::io::Error| format!("no tar archive: {e}");
    let mut tree = Tree::default();
    for entry in tar::Archive::new(&plain[..]).entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).trim_end_matches('/').to_owned();
        let mode = entry.header().mode().map_err(failed)?;
        let kind = entry.header().entry_type();
        if entry.header().uid().map_err(failed)? != 0 {
            return Err(format!("{path} does not belong to root"));
        }
        if kind.is_dir() {
            tree.directory(&path, mode);
        } else if kind.is_file() {
            let mut data = Vec::new();
            entry.read_to_end(&mut data).map_err(failed)?;
            tree.file(&path, mode, data);
        } else {
            return Err(format!("{path} is neither a file nor a directory"));
        }
    }
    Ok(tree)
}

/// Reads the members of an ar archive back.
///
/// # Errors
/// When it is none.
pub(crate) fn read_ar(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut rest = bytes.strip_prefix(b"!<arch>\n").ok_or("no ar archive")?;
    let mut members = Vec::new();
    while !rest.is_empty() {
        let (head, body) = rest.split_at_checked(60).ok_or("an ar header is cut off")?;
        let text = std::str::from_utf8(head).map_err(|_| "an ar header is no text")?;
        let size = text.get(48..58).map(str::trim).and_then(|size| size.parse::<usize>().ok());
        let size = size.filter(|_| text.ends_with("`\n")).ok_or("an ar header is damaged")?;
        let (data, after) = body.split_at_checked(size).ok_or("an ar member is cut off")?;
        members.push((text[..16].trim().to_owned(), data.to_vec()));
        rest = if size % 2 == 1 { after.get(1..).unwrap_or_default() } else { after };
    }
    Ok(members)
}

#[cfg(test)]
mod tests;
