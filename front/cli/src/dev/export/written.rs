//! Writes a deployment: its files, new certificates for its names, and its other secrets, which only their owner may read. All of it, or
//! nothing.

use super::deployed::Deployed;
use super::{Deployment, Files, Planned, kubernetes};
use quorate_command::authority::{Destination, KEY_FILE, Office};
use quorate_command::cluster::{CLIENT_FILE, Cluster};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::{self, AUTHORITY, CLIENTS, TLS, replica_directory};
use quorate_runtime::DataDirectory;
use quorate_tls::{write_private, write_public};
use quorate_types::{Holder, ReplicaId};
use std::fs;
use std::path::{Path, PathBuf};

/// What was written, below the directory.
#[derive(Default)]
pub(super) struct Written {
    /// The files that are no secret.
    pub(super) files: Vec<String>,
    /// The files and directories with keys.
    pub(super) secret: Vec<String>,
}

/// The secrets of Kubernetes.
const SECRETS: &str = "secrets.yaml";

/// Writes everything into the directory, which is not there, or empty.
///
/// # Errors
/// When the authority can not be used, or the system refuses; then nothing stays.
pub(super) fn write(deployment: &Deployment<'_>, planned: Planned, out: &Path) -> Outcome<Written> {
    // Before anything is made.
    let office = match deployment.has_tls() && !deployment.args.empty {
        true => Some(open_authority(deployment)?),
        false => None,
    };
    let written = write_all(deployment, planned, office, out);
    if written.is_err() {
        let _ = fs::remove_dir_all(out);
    }
    written
}

/// The authority of the cluster, with its key.
fn open_authority(deployment: &Deployment<'_>) -> Outcome<Office> {
    let args = deployment.args;
    let directory = args.ca.clone().unwrap_or_else(|| args.dir.join(AUTHORITY));
    let shown = directory.display();
    let key = directory.join(KEY_FILE);
    if !key.exists() {
        return Err(Failure::usage(format!(
            "there is no {}: the present certificates are not for the addresses of the new place, and the authority's key is needed to sign \
             new ones. Name the directory where you keep it with --ca. If it is lost, make a new authority with `quorate cert new-authority \
             --ca {shown}`, and export again; --empty makes a new cluster with an authority of its own",
            key.display()
        )));
    }
    let office = Office::open(&directory)?;
    if office.authority.cluster() != deployment.cluster.id {
        return Err(Failure::usage(format!(
            "the authority in {shown} is of cluster {}, and {} is of cluster {}: name the right one with --ca",
            office.authority.cluster(),
            args.dir.display(),
            deployment.cluster.id
        )));
    }
    Ok(office)
}

fn write_all(
    deployment: &Deployment<'_>,
    planned: Planned,
    office: Option<Office>,
    out: &Path,
) -> Outcome<Written> {
    let Planned { mut files, hosts, members } = planned;
    let (days, mut written) = (deployment.args.days, Written::default());
    fs::create_dir_all(out).doing(format_args!("make {}", out.display()))?;
    let office = match deployment.has_tls() && deployment.args.empty {
        true => {
            written.secret.push(AUTHORITY.into());
            Some(Office::create(&out.join(AUTHORITY), deployment.cluster.id)?)
        }
        false => office,
    };
    let mut identities = Vec::new();
    for replica in &deployment.replicas {
        let place = replica_directory(out, replica.id).join(TLS);
        if let Some(office) = &office {
            let hosts = hosts.get(&replica.id).cloned().unwrap_or_default();
            let holder = Holder::Replica(ReplicaId::new(replica.id));
            office.issue(&Destination { directory: &place, name: "replica" }, &holder, &hosts, days)?;
        }
        write_secrets(replica, &place)?;
        if !replica.secret_files(office.is_some()).is_empty() {
            written.secret.push(format!("replica-{}/{TLS}", replica.id));
        }
        identities.push((replica.id, begin(deployment, replica, out)?));
    }
    let mut cluster = deployment.cluster.clone();
    let address = |id: ReplicaId| members.get(&id.number()).cloned().unwrap_or_default();
    cluster.members = cluster.members.iter().map(|(id, _)| (*id, address(*id))).collect();
    if let Some(office) = &office {
        cluster.tls = Some(layout::clients(out, office, days)?);
        written.secret.push(CLIENTS.into());
    }
    if deployment.args.kubernetes {
        files.extend(kubernetes::begin(deployment, &identities)?);
        if let Some(text) = secrets(deployment, &cluster, out)? {
            let file = out.join(SECRETS);
            write_private(&file, &text).doing(format_args!("write {}", file.display()))?;
            written.secret.push(SECRETS.into());
        }
    }
    files.insert(CLIENT_FILE.into(), cluster.to_toml());
    files.insert(".gitignore".into(), "# Keys.\n*.key\nsecrets.yaml\nca/\nclients/\ntls/\ndata/\n".into());
    for (name, text) in &files {
        write_text(&out.join(name), text)?;
    }
    written.files = files.into_keys().collect();
    Ok(written)
}

fn write_text(file: &Path, text: &str) -> Outcome<()> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory).doing(format_args!("make {}", directory.display()))?;
    }
    write_public(file, text).doing(format_args!("write {}", file.display()))
}

/// Writes a replica's secrets besides its certificate.
fn write_secrets(replica: &Deployed, place: &Path) -> Outcome<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    if replica.secrets.is_empty() {
        return Ok(());
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(place);
    made.doing(format_args!("make {}", place.display()))?;
    for (name, text) in &replica.secrets {
        let file = place.join(name);
        write_private(&file, text).doing(format_args!("write {}", file.display()))?;
    }
    Ok(())
}

/// Makes the data directory of a replica that begins. Returns the text of its identity, if the replica has not run.
fn begin(deployment: &Deployment<'_>, replica: &Deployed, out: &Path) -> Outcome<Option<String>> {
    let data = match &replica.identity {
        Some(identity) => {
            let data = replica_directory(out, replica.id).join("data");
            DataDirectory::create(&data, identity).map_err(|why| Failure::new(why.to_string()))?;
            data
        }
        None => replica.config.data.clone(),
    };
    if !(deployment.args.kubernetes && deployment.is_new()) {
        return Ok(None);
    }
    let file = data.join("identity.toml");
    let text = fs::read_to_string(&file).doing(format_args!("read {}", file.display()))?;
    if replica.identity.is_some() {
        // Volumes are made from the text.
        fs::remove_dir_all(&data).doing(format_args!("remove {}", data.display()))?;
    }
    Ok(Some(text))
}

/// The secrets of Kubernetes, from the files that were just written; none where there is nothing secret.
fn secrets(deployment: &Deployment<'_>, cluster: &Cluster, out: &Path) -> Outcome<Option<String>> {
    let read = |file: PathBuf| -> Outcome<(String, String)> {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok((name, fs::read_to_string(&file).doing(format_args!("read {}", file.display()))?))
    };
    let mut all = Vec::new();
    for replica in &deployment.replicas {
        let place = replica_directory(out, replica.id).join(TLS);
        let names = replica.secret_files(deployment.has_tls());
        let files = names.into_iter().map(|name| read(place.join(name))).collect::<Outcome<Files>>()?;
        all.push((kubernetes::secret_name(replica.id), files));
    }
    if let Some(tls) = &cluster.tls {
        let files = [&tls.client.ca, &tls.client.certificate, &tls.client.key];
        let files = files.into_iter().map(|file| read(out.join(file))).collect::<Outcome<Files>>()?;
        all.push((kubernetes::CLIENT.into(), files));
    }
    all.retain(|(_, files)| !files.is_empty());
    Ok((!all.is_empty()).then(|| kubernetes::secrets(deployment, &all)))
}
