//! What a `client.toml` says of the replicas' faults.

use super::ClientFile;
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
}

#[test]
fn what_is_written_is_read() {
    for line in ["", "fault_model = \"byzantine\"\n"] {
        let file = parse(line).expect("usable");
        assert_eq!(ClientFile::parse(&file.to_toml(), Path::new("")), Ok(file));
    }
}

#[test]
fn its_client_believes_as_many_as_the_file_says() {
    let file = parse("fault_model = \"byzantine\"\n").expect("usable");
    let mut model = None;
    drop(file.builder().configure(|config| model = Some(config.fault_model)));
    assert_eq!(model, Some(FaultModel::Byzantine));
}
