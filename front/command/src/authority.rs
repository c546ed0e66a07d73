//! The directory of an authority: `ca.pem`, `ca.key`, and, while some still trust it, the previous authority as `before.pem`.

use crate::failure::{Doing as _, Failure, Outcome};
use quorate_tls::{Authority, Bundle, Issued, Validity, write_private, write_public};
use quorate_types::{ClusterId, Holder};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// How long a certificate is valid, in days.
pub const DAYS: u32 = 365;
/// The name of the file with the trusted authorities.
pub const CA_FILE: &str = "ca.pem";
/// The name of the file with the authority's key.
pub const KEY_FILE: &str = "ca.key";
const BEFORE_FILE: &str = "before.pem";
/// How long an authority is valid, in days: ten years.
const YEARS_10_DAYS: u32 = 3652;

/// A host for a certificate: a name, which may begin with `*.`, or an address; without a port.
///
/// # Errors
/// Says what it is not.
pub fn parse_host(text: &str) -> Result<String, String> {
    let wrong =
        |why: &str| format!("{why}; a host is a name or an address, as in db.example.org or 10.0.0.1");
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    let name = text.strip_prefix("*.").unwrap_or(text);
    let is_label = |label: &str| {
        let plain = label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        plain
            && (1..=LABEL_CHARS_MAX).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        return Err(wrong("no port belongs there"));
    }
    if name.len() > NAME_CHARS_MAX || name.split('.').any(|label| label.len() > LABEL_CHARS_MAX) {
        return Err(wrong("it is too long: a name has at most 253 characters, and 63 between two points"));
    }
    // The last part of an address with four numbers is one, and no name ends so.
    let last = name.rsplit('.').next().unwrap_or_default();
    if !name.split('.').all(is_label) || last.chars().all(|c| c.is_ascii_digit()) {
        return Err(wrong("it is neither"));
    }
    Ok(text.to_ascii_lowercase())
}

/// The most characters of a host's name, and of its parts.
const NAME_CHARS_MAX: usize = 253;
const LABEL_CHARS_MAX: usize = 63;

/// An authority in its directory.
pub struct Office {
    /// Signs certificates.
    pub authority: Authority,
    /// What the cluster's members and clients trust: this authority, and the previous one until it is dropped.
    pub trusted: Bundle,
    /// This authority alone.
    pub current: Bundle,
}

impl Office {
    /// Makes a new authority and its directory.
    pub fn create(directory: &Path, cluster: ClusterId) -> Outcome<Self> {
        let made = Authority::create(cluster, Validity::days(YEARS_10_DAYS)).doing("make an authority")?;
        make_private_directory(directory)?;
        write(&directory.join(KEY_FILE), &made.key, write_private)?;
        write(&directory.join(CA_FILE), &made.certificate, write_public)?;
        Self::open(directory)
    }

    /// Opens the authority in a directory.
    ///
    /// # Errors
    /// Says which file is missing or unusable.
    pub fn open(directory: &Path) -> Outcome<Self> {
        let certificate = read(&directory.join(CA_FILE))?;
        let key = read(&directory.join(KEY_FILE))?;
        let authority =
            Authority::read(&Issued { certificate: certificate.clone(), key }).map_err(|why| {
                Failure::usage(format!("the authority in {} can not be used: {why}", directory.display()))
            })?;
        let (mut trusted, mut current) = (Bundle::default(), Bundle::default());
        current.add(&certificate);
        trusted.add(&certificate);
        if directory.join(BEFORE_FILE).exists() {
            trusted.add(&read(&directory.join(BEFORE_FILE))?);
        }
        Ok(Self { authority, trusted, current })
    }

    /// Makes a new authority in place of the present one, which stays trusted until it is dropped. The old key is deleted, so nothing more
    /// can be signed with it.
    pub fn replace(directory: &Path) -> Outcome<Self> {
        // The key may have been lost, which is a reason to be here; the certificate says whose it was.
        let certificate = read(&directory.join(CA_FILE))?;
        let found = quorate_tls::certificates_in(certificate.as_bytes());
        let found = found.doing(format_args!("read {}", directory.join(CA_FILE).display()))?;
        let old = quorate_tls::Certificate::decode(&found[0]).doing("read the authority's certificate")?;
        let cluster = old.cluster.ok_or_else(|| Failure::usage("that authority is of no cluster"))?;
        write(&directory.join(BEFORE_FILE), &certificate, write_public)?;
        Self::create(directory, cluster)
    }

    /// Makes a holder's files in a directory: `NAME.pem`, `NAME.key`, and the trusted authorities.
    pub fn issue(
        &self,
        to: &Destination<'_>,
        holder: &Holder,
        hosts: &[String],
        days: u32,
    ) -> Outcome<Files> {
        let files = to.files();
        make_private_directory(to.directory)?;
        write(&files.ca, &self.trusted.pem, write_public)?;
        self.write(&files, holder, hosts, days)?;
        Ok(files)
    }

    /// Makes a new certificate with a new key in these files.
    pub fn write(&self, files: &Files, holder: &Holder, hosts: &[String], days: u32) -> Outcome<()> {
        let issued = self
            .authority
            .issue(holder, hosts, Validity::days(days))
            .map_err(|why| Failure::usage(format!("no certificate can be made for {holder}: {why}")))?;
        // The key first: a reader between the two writes finds that they do not fit, and keeps its old ones.
        write(&files.key, &issued.key, write_private)?;
        write(&files.certificate, &issued.certificate, write_public)
    }
}

/// Where a holder's files are written.
pub struct Destination<'a> {
    /// The directory.
    pub directory: &'a Path,
    /// The name of the files without the ending.
    pub name: &'a str,
}

impl Destination<'_> {
    /// The files that are written there.
    pub fn files(&self) -> Files {
        Files {
            ca: self.directory.join(CA_FILE),
            certificate: self.directory.join(format!("{}.pem", self.name)),
            key: self.directory.join(format!("{}.key", self.name)),
        }
    }
}

/// A holder's files.
pub struct Files {
    /// The trusted authorities.
    pub ca: PathBuf,
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Reads a file of certificates or a key.
///
/// # Errors
/// Names the file.
pub fn read(path: &Path) -> Outcome<String> {
    fs::read_to_string(path).map_err(|why| Failure::usage(format!("can not read {}: {why}", path.display())))
}

/// Writes a file of certificates or a key with the function `how`.
///
/// # Errors
/// Names the file.
pub fn write(path: &Path, text: &str, how: fn(&Path, &str) -> std::io::Result<()>) -> Outcome<()> {
    how(path, text).doing(format_args!("write {}", path.display()))
}

/// Makes a directory for keys, which only its owner can enter.
fn make_private_directory(path: &Path) -> Outcome<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.doing(format_args!("make {}", path.display()))
}
