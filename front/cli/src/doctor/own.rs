//! Checks what belongs to one replica alone: its data directory and its certificate, as `serve` does, but before it is needed; and in a cluster
//! of `dev` whether its disk is full on purpose.

use super::Findings;
use super::subject::Patient;
use crate::control::SOCKET;
use quorate::program::hurt::Hurt;
use quorate_runtime::Durability;
use quorate_tls::{Certificate, certificates_in};
use quorate_types::{Holder, Identity, ReplicaId};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

/// The file in which `dev` says what is done to a replica.
const HURT: &str = "hurt";

pub(super) fn look(patient: &Patient, findings: &mut Findings) {
    data(patient, findings);
    certificate(patient, findings);
    full_on_purpose(patient, findings);
}

/// Whether nothing is there. What may not be looked at is not missing.
fn is_missing(path: &Path) -> bool {
    fs::metadata(path).is_err_and(|why| why.kind() == ErrorKind::NotFound)
}

fn data(Patient { config, file }: &Patient, findings: &mut Findings) {
    let (replica, data) = (config.replica, config.data.display());
    if !config.data.is_dir() {
        return findings.problem(
            format!("replica {replica} has no data directory at {data}"),
            format!(
                "Correct `data` in {}, or bring the directory back; a replica never makes its own",
                file.display()
            ),
        );
    }
    let in_data = |name| config.data.join(name);
    let used = is_missing(&in_data("fresh")) && config.durability.mode != Durability::Memory;
    let gone = if is_missing(&in_data("identity.toml")) {
        "identity.toml"
    } else if used && is_missing(&in_data("log")) {
        "its log"
    } else {
        return;
    };
    findings.problem(
        format!("the data directory of replica {replica}, {data}, was emptied: {gone} is gone"),
        "Bring the directory back, or set up a replacement (docs/operations/members.md): a replica does not start from nothing under its old id, \
         since it could vote twice",
    );
}

fn certificate(Patient { config, file }: &Patient, findings: &mut Findings) {
    let Some(path) = config.tls.as_ref().map(|files| &files.certificate) else { return };
    let (replica, shown) = (config.replica, path.display());
    let remedy = || {
        format!(
            "Put the right files there, or make them with `quorate cert issue --replica {replica}`; {} names them",
            file.display()
        )
    };
    let decoded = match fs::read(path) {
        // The user of the replica may read more than who asks here.
        Err(why) if why.kind() == ErrorKind::PermissionDenied => {
            return findings.warning(
                format!("the certificate of replica {replica}, {shown}, was not checked: {why}"),
                "Ask again as the user that the replica runs as",
            );
        }
        Err(why) => Err(why.to_string()),
        Ok(pem) => match certificates_in(&pem).map(|all| all.first().map(|der| Certificate::decode(der))) {
            Ok(Some(Ok(certificate))) => Ok(certificate),
            Ok(Some(Err(why))) => Err(why.to_string()),
            Ok(None) => Err("the file has none".to_owned()),
            Err(why) => Err(why.to_string()),
        },
    };
    let certificate = match decoded {
        Ok(certificate) => certificate,
        Err(why) => {
            return findings.problem(
                format!("the certificate of replica {replica}, {shown}, is not usable: {why}"),
                remedy(),
            );
        }
    };
    let holder = Holder::Replica(ReplicaId::new(replica));
    let own = config.cluster_id().ok().map(|cluster| Identity { cluster, holder });
    if certificate.identity != own {
        return findings.problem(
            format!(
                "the certificate of replica {replica}, {shown}, is for {}: the replica does not start with it",
                certificate.holder()
            ),
            remedy(),
        );
    }
    if certificate.days_left(SystemTime::now()) < 0 {
        findings.problem(
            format!("the certificate of replica {replica}, {shown}, has expired: nobody can connect"),
            "Renew it (`quorate cert renew`)",
        );
    }
}

fn full_on_purpose(Patient { config, file }: &Patient, findings: &mut Findings) {
    let Some(place) = file.parent() else { return };
    // Once `dev` has ended, what it did to replicas has ended, too.
    let runs = place.parent().is_some_and(|cluster| !is_missing(&cluster.join(SOCKET)));
    let said = fs::read_to_string(place.join(HURT)).ok().filter(|_| runs);
    let hurt = said.and_then(|said| serde_json::from_str::<Hurt>(&said).ok());
    if let Some(mib) = hurt.and_then(|hurt| hurt.disk_mib) {
        let replica = config.replica;
        findings.warning(
            format!("the disk of replica {replica} is full on purpose: {mib} MiB were left, and then it refuses writes"),
            format!("`quorate chaos fill-disk --off {replica}`"),
        );
    }
}
