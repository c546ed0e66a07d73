//! The file that a page is written into. What can not be written is said before anything is measured, and no file of anybody else is lost.

use quorate_command::failure::{Doing as _, Failure, Outcome};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

/// By this our own pages are known.
pub(super) const MARK: &str = "<meta name=\"generator\" content=\"quorate bench\">";
/// The mark stands within so many bytes.
const HEAD_BYTES: u64 = 1024;

/// A file that can be written, and may be.
#[derive(Clone, Debug)]
pub(in crate::bench) struct PageFile(PathBuf);

impl PageFile {
    /// Checks it: its directory is there and can be written, and the file is new, empty, or a page that a benchmark wrote. Leaves all as it was.
    ///
    /// # Errors
    /// When that is not so; the text says what to do.
    pub(in crate::bench) fn check(path: &Path) -> Outcome<Self> {
        let shown = path.display();
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or_else(|| Path::new("."));
        if !directory.is_dir() {
            return Err(Failure::usage(format!(
                "--plot {shown}: there is no directory {}; make it first, or name another file",
                directory.display()
            )));
        }
        match File::open(path) {
            Ok(file) if path.is_file() => {
                let mut head = Vec::new();
                file.take(HEAD_BYTES).read_to_end(&mut head).doing(format_args!("read {shown}"))?;
                if !head.is_empty() && !String::from_utf8_lossy(&head).contains(MARK) {
                    return Err(Failure::usage(format!(
                        "--plot {shown}: this file is not empty, and no page of `quorate bench`; name another file, or remove it first"
                    )));
                }
                let writable = OpenOptions::new().append(true).open(path);
                writable.doing(format_args!("write {shown}, which --plot names"))?;
            }
            Ok(_) => {
                return Err(Failure::usage(format!("--plot {shown} is no file; name one")));
            }
            Err(why) if why.kind() == ErrorKind::NotFound => {
                let made = OpenOptions::new().write(true).create_new(true).open(path);
                made.doing(format_args!("write {shown}, which --plot names"))?;
                // Until there is a page, there is no file.
                fs::remove_file(path).doing(format_args!("remove {shown} again"))?;
            }
            Err(why) => return Err(why).doing(format_args!("read {shown}, which --plot names")),
        }
        Ok(Self(path.to_owned()))
    }

    pub(in crate::bench) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes the page.
    pub(in crate::bench) fn write(&self, html: &str) -> Outcome<()> {
        fs::write(&self.0, html).doing(format_args!("write {}", self.0.display()))
    }
}
