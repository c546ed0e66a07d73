//! What a `client.toml` says of the replicas' faults.

use super::{Authentication, ClientFile};
use quorate_types::FaultModel;
use std::path::Path;

const START: &str = "cluster = \"0123456789abcdef0123456789abcdef\"\n";
const REST: &str = "plain = true\n[[members]]\nreplica = 1\naddress = \"10.0.0.1:7000\"\n";

fn parse(line: &str) -> Result<ClientFile, String> {
    ClientFile::parse(&format!("{START}{line}{REST}"), Path::new(""))
}

#[test]
fn replicas_only_crash_unless_the_file_says_otherwise() {
    let plain = parse("").expect("usable");
    assert_eq!(plain.fault_model, FaultModel::Crash);
    assert!(!plain.to_toml().contains("fault_model"), "files are as they were");
    let lying = parse("fault_model = \"byzantine\"\n").expect("usable");
    assert_eq!(lying.fault_model, FaultModel::Byzantine);
    assert!(parse("fault_model = \"visitors\"\n").is_err());
    let few = parse("fault_model = \"byzantine\"\nfaults = 1\n").expect("usable");
    let mut faults = None;
    drop(few.builder().configure(|config| faults = Some(config.faults)));
    assert_eq!(
        faults.map(|faults| faults.among(8).truth()),
        Some(2),
        "two equal answers of eight are believed"
    );
}

#[test]
fn what_is_written_is_read() {
    let signing = "fault_model = \"byzantine\"\nauthentication = \"signatures\"\n";
    for line in ["", "fault_model = \"byzantine\"\n", signing] {
        let file = parse(line).expect("usable");
        assert_eq!(ClientFile::parse(&file.to_toml(), Path::new("")), Ok(file));
    }
}

#[test]
fn its_client_believes_as_many_as_the_file_says() {
    let file = parse("fault_model = \"byzantine\"\n").expect("usable");
    let mut model = None;
    drop(file.builder().configure(|config| model = Some(config.faults)));
    assert_eq!(model, Some(FaultModel::Byzantine.into()));
}

/// A client that signs makes a key of its own each time, for the cluster that the file names. Where nobody checks signatures, the file is
/// refused.
#[test]
fn who_signs_has_a_key_of_its_own() {
    let plain = parse("fault_model = \"byzantine\"\n").expect("usable");
    assert_eq!(plain.authentication, Authentication::Links);
    assert!(!plain.to_toml().contains("authentication"), "files are as they were");
    let file = parse("fault_model = \"byzantine\"\nauthentication = \"signatures\"\n").expect("usable");
    assert_eq!(file.authentication, Authentication::Signatures);
    let tagging = parse("fault_model = \"byzantine\"\nauthentication = \"macs\"\n").expect("usable");
    assert_eq!(tagging.authentication, Authentication::Macs);
    let mut config = quorate_client::Config::new(quorate_types::ClientId::new(1), 1);
    assert!(tagging.authentication.prepare(&mut config).is_err(), "where replicas only crash nobody checks");
    config.faults = quorate_types::FaultModel::Byzantine.into();
    config.cluster = Some(quorate_types::ClusterId::new(7));
    tagging.authentication.prepare(&mut config).expect("it is prepared");
    assert!(config.macs.is_some() && config.leader_first.is_some() && config.signer.is_none());
    let why = parse("authentication = \"signatures\"\n").expect_err("nobody checks");
    assert!(why.contains("leave it out"), "{why}");
    assert!(parse("fault_model = \"byzantine\"\nauthentication = \"seals\"\n").is_err());
    let refused = plain.builder().configure(|config| config.cluster = None);
    let why = refused.authentication(Authentication::Signatures).build().expect_err("for which cluster?");
    assert!(why.to_string().contains("name it"), "{why}");
    let mut keys = Vec::new();
    for _ in 0..2 {
        let mut config = quorate_client::Config::new(quorate_types::ClientId::new(1), 1);
        (config.cluster, config.faults) = (Some(file.cluster), FaultModel::Byzantine.into());
        file.authentication.prepare(&mut config).expect("it is prepared");
        keys.push(config.signer.expect("it signs").0.key());
    }
    assert_ne!(keys[0], keys[1]);
}
