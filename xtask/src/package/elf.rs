//! What a program's file says about the machine that it needs: processor, libraries, the version of glibc.
//!
//! Only ELF files of 64 bits, with the lowest byte first. Nothing in a file is believed: what points outside of it is an error.

/// What a program needs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Elf {
    pub(crate) machine: Machine,
    /// The libraries that it names.
    pub(crate) libraries: Vec<String>,
    /// The newest version of glibc whose symbols it uses.
    pub(crate) glibc: Glibc,
}

/// A kind of processor, in the words of those who name packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) linux: &'static str,
    pub(crate) debian: &'static str,
}

/// A version of glibc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Glibc(pub(crate) u32, pub(crate) u32);

impl std::fmt::Display for Glibc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The processors, by their numbers in an ELF header.
const MACHINES: [(u64, Machine); 2] = [
    (62, Machine { linux: "x86_64", debian: "amd64" }),
    (183, Machine { linux: "aarch64", debian: "arm64" }),
];

/// Libraries that each system with glibc has: of glibc itself, and the one that unwinds.
const USUAL: [&str; 9] = [
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];

/// Kinds of sections.
const DYNAMIC: u64 = 6;
const VERSIONS_NEEDED: u64 = 0x6fff_fffe;
/// The tag of a library's name among dynamic entries.
const NEEDED: u64 = 1;

impl Elf {
    /// Reads a program.
    ///
    /// # Errors
    /// When it is none, or for another kind of machine.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let file = File(bytes);
        if bytes.get(..6) != Some(b"\x7fELF\x02\x01") {
            return Err("no ELF file of 64 bits".into());
        }
        let number = file.number(18, 2)?;
        let known = MACHINES.iter().find(|(of, _)| *of == number);
        let machine =
            known.ok_or(format!("for a processor with the number {number}, which no package names"))?.1;
        let mut elf = Elf { machine, libraries: Vec::new(), glibc: Glibc::default() };
        for section in file.sections()? {
            match section.kind {
                DYNAMIC => elf.libraries = file.libraries(&section)?,
                VERSIONS_NEEDED => elf.glibc = file.glibc(&section)?,
                _ => {}
            }
        }
        Ok(elf)
    }

    /// Refuses a program that needs a library which not every system has.
    ///
    /// # Errors
    /// Which ones.
    pub(crate) fn refuse_libraries(&self) -> Result<(), String> {
        let odd: Vec<&str> =
            self.libraries.iter().map(String::as_str).filter(|l| !USUAL.contains(l)).collect();
        if odd.is_empty() {
            return Ok(());
        }
        Err(format!(
            "package: the program needs {}, which not every system has: link it in, or add it to xtask/src/package/elf.rs and to the \
             dependencies of the Debian package",
            odd.join(", ")
        ))
    }
}

/// The bytes of a file.
struct File<'a>(&'a [u8]);

/// A row of the table of sections.
struct Section {
    kind: u64,
    offset: usize,
    size: usize,
    /// Where the texts begin that it names.
    texts: usize,
}

impl File<'_> {
    /// The number in `size` bytes at `offset`.
    fn number(&self, offset: usize, size: usize) -> Result<u64, String> {
        let end = offset.checked_add(size);
        let bytes = end.and_then(|end| self.0.get(offset..end)).ok_or("the ELF file is cut off")?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn size(&self, offset: usize, size: usize) -> Result<usize, String> {
        usize::try_from(self.number(offset, size)?).map_err(|e| e.to_string())
    }

    /// The text that begins at `offset` and ends with a zero.
    fn text(&self, offset: usize) -> Result<String, String> {
        let rest = self.0.get(offset..).ok_or("a text is outside of the ELF file")?;
        Ok(String::from_utf8_lossy(rest.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned())
    }

    fn sections(&self) -> Result<Vec<Section>, String> {
        let (table, row, rows) = (self.size(40, 8)?, self.size(58, 2)?, self.size(60, 2)?);
        let at = |index: usize| table.saturating_add(row.saturating_mul(index));
        let read = |index: usize| {
            let place = at(index);
            let link = self.size(place.saturating_add(40), 4)?;
            Ok(Section {
                kind: self.number(place.saturating_add(4), 4)?,
                offset: self.size(place.saturating_add(24), 8)?,
                size: self.size(place.saturating_add(32), 8)?,
                texts: if link < rows { self.size(at(link).saturating_add(24), 8)? } else { 0 },
            })
        };
        (0..rows).map(read).collect()
    }

    fn libraries(&self, section: &Section) -> Result<Vec<String>, String> {
        let mut libraries = Vec::new();
        for at in (section.offset..section.offset.saturating_add(section.size)).step_by(16) {
            if self.number(at, 8)? == NEEDED {
                libraries.push(self.text(section.texts.saturating_add(self.size(at + 8, 8)?))?);
            }
        }
        Ok(libraries)
    }

    /// The newest of all versions of the form `GLIBC_2.36`. A list of libraries, each with a list of versions; each row says how far away the
    /// next one is, and the last one says 0.
    fn glibc(&self, section: &Section) -> Result<Glibc, String> {
        let (mut newest, mut library) = (Glibc::default(), section.offset);
        loop {
            let mut version = library.saturating_add(self.size(library.saturating_add(8), 4)?);
            loop {
                let name =
                    self.text(section.texts.saturating_add(self.size(version.saturating_add(8), 4)?))?;
                newest = newest.max(glibc(&name).unwrap_or_default());
                match self.size(version.saturating_add(12), 4)? {
                    0 => break,
                    next => version = version.saturating_add(next),
                }
            }
            match self.size(library.saturating_add(12), 4)? {
                0 => return Ok(newest),
                next => library = library.saturating_add(next),
            }
        }
    }
}

/// `GLIBC_2.17` or `GLIBC_2.2.5`
fn glibc(name: &str) -> Option<Glibc> {
    let mut parts = name.strip_prefix("GLIBC_")?.split('.').map(str::parse);
    Some(Glibc(parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests;
