//! What the doctor examines: replicas with their configurations, or only a directory.

use super::{Args, Findings, own};
use crate::services::read_config;
use quorate_command::cluster::{CLIENT_FILE, DEV_DIRECTORY};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::REPLICA_FILE;
use quorate_runtime::Config;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// One replica.
pub(super) struct Patient {
    pub(super) config: Config,
    /// The file of its configuration.
    pub(super) file: PathBuf,
}

/// Everything that is examined.
pub(super) struct Subject {
    pub(super) patients: Vec<Patient>,
    /// Directories for data: at least one.
    pub(super) places: Vec<PathBuf>,
    /// Whether a single replica was named, which is to run on this machine.
    pub(super) one: bool,
}

/// A disk, and the replicas whose data lies on it.
pub(super) struct Group {
    /// An existing directory on it.
    pub(super) directory: PathBuf,
    pub(super) device: u64,
    /// Indices of patients.
    pub(super) patients: Vec<usize>,
}

impl Subject {
    /// # Errors
    /// When the named file or directory does not exist.
    pub(super) fn find(args: &Args, findings: &mut Findings) -> Outcome<Self> {
        if let Some(file) = &args.config {
            if file.file_name().is_some_and(|name| name == CLIENT_FILE) {
                return Err(Failure::usage(format!(
                    "{} is for clients: name the {REPLICA_FILE} of one replica with --config, or their directory with --dir",
                    file.display()
                )));
            }
            let config = read_config(file)?;
            let patients = vec![Patient { config, file: file.clone() }];
            return Ok(Self::of(patients, Path::new("."), true, findings));
        }
        let directory = match &args.dir {
            Some(directory) => directory.clone(),
            None => default_directory(),
        };
        if args.dir.is_some() && !directory.is_dir() {
            return Err(Failure::usage(format!(
                "there is no directory {}: name one that exists",
                directory.display()
            )));
        }
        let mut patients = Vec::new();
        for file in configurations(&directory) {
            match read_config(&file) {
                Ok(config) => patients.push(Patient { config, file }),
                Err(why) => findings.problem(why.to_string(), format!("Correct {}", file.display())),
            }
        }
        patients.sort_by_key(|patient| patient.config.replica);
        Ok(Self::of(patients, &directory, false, findings))
    }

    fn of(patients: Vec<Patient>, directory: &Path, one: bool, findings: &mut Findings) -> Self {
        patients.iter().for_each(|patient| own::look(patient, findings));
        let mut places: Vec<PathBuf> = patients.iter().map(|patient| patient.config.data.clone()).collect();
        if places.is_empty() {
            places.push(directory.to_owned());
        }
        Self { patients, places, one }
    }

    /// Groups directories by disk.
    pub(super) fn disks(&self) -> Outcome<Vec<Group>> {
        let mut groups: Vec<Group> = Vec::new();
        for (at, place) in self.places.iter().enumerate() {
            let directory = existing(place);
            let facts = fs::metadata(&directory).doing(format_args!("look at {}", directory.display()))?;
            let patient = (at < self.patients.len()).then_some(at);
            match groups.iter_mut().find(|group| group.device == facts.dev()) {
                Some(group) => group.patients.extend(patient),
                None => groups.push(Group {
                    directory,
                    device: facts.dev(),
                    patients: patient.into_iter().collect(),
                }),
            }
        }
        Ok(groups)
    }
}

/// The directory that other commands would use; without one, the working directory, whose disk is measured.
fn default_directory() -> PathBuf {
    let named = std::env::var_os(quorate_command::cluster::VARIABLE).filter(|value| !value.is_empty());
    if let Some(directory) = named.as_deref().map(Path::new).and_then(Path::parent) {
        return if directory.as_os_str().is_empty() { ".".into() } else { directory.to_owned() };
    }
    let dev = Path::new(DEV_DIRECTORY);
    if dev.is_dir() { dev.to_owned() } else { ".".into() }
}

/// The configurations in a directory that `dev` or `init` made, or in a copy of one replica's directory.
fn configurations(directory: &Path) -> Vec<PathBuf> {
    let mut files = vec![directory.join(REPLICA_FILE)];
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with("replica-")) {
            files.push(entry.path().join(REPLICA_FILE));
        }
    }
    files.retain(|file| file.is_file());
    files
}

/// The nearest ancestor that exists.
fn existing(path: &Path) -> PathBuf {
    let mut all = path.ancestors().map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p });
    all.find(|p| p.is_dir()).unwrap_or(Path::new(".")).to_owned()
}
