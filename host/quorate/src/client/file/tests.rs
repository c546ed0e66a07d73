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

/// A file that knows its membership begins a client that follows proofs; learners do not vote there. One without is as before.
#[test]
fn a_file_may_know_which_membership_it_names() {
    let key = |id: u8| ClientFile::write_key(quorate_auth::Ed25519::public([id; 32]).bytes());
    let members = |lines: [&str; 5]| {
        let member = |(at, line): (usize, &str)| {
            format!("[[members]]\nreplica = {}\naddress = \"10.0.0.{at}:7000\"\n{line}", at + 1)
        };
        lines.into_iter().enumerate().map(member).collect::<String>()
    };
    let text = |number: &str, members: String| {
        format!("{START}fault_model = \"byzantine\"\nplain = true\n{number}{members}")
    };
    let read = |text: String| ClientFile::parse(&text, Path::new(""));
    let keyed: Vec<String> = (1..=5).map(|id| format!("key = \"{}\"\n", key(id))).collect();
    let learner = format!("{}learner = true\n", keyed[4]);
    let all = members([&keyed[0], &keyed[1], &keyed[2], &keyed[3], &learner]);
    let file = read(text("membership = 7\n", all.clone())).expect("usable");
    let known = file.known().expect("a membership");
    assert_eq!((known.number().number(), known.members().len(), known.voters().count()), (7, 5, 4));
    assert_eq!(read(file.to_toml()), Ok(file.clone()));
    let mut begins = None;
    drop(file.builder().configure(|config| begins = config.membership.clone()));
    assert_eq!(begins, Some(known));
    file.builder().build().expect("its voters are the four");
    let numberless = read(text("", all)).expect("usable");
    assert_eq!((numberless.known(), numberless.learners.len()), (None, 1));
    let bare = members(["", "", "", "", ""]);
    assert_eq!(read(text("", bare.clone())).expect("as before").known(), None);
    assert!(
        read(text("membership = 7\n", bare)).expect_err("no keys").contains("beside a key of each member")
    );
    for wrong in ["key = \"12\"\n".to_owned(), format!("key = \"01{}\"\n", "00".repeat(31))] {
        let why = read(text("", members([&wrong, "", "", "", ""]))).expect_err("no key");
        assert!(why.contains("the key of replica 1 is none"), "{why}");
    }
    let learns = "learner = true\n";
    assert!(read(text("", members([learns; 5]))).expect_err("nobody votes").contains("none of them votes"));
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
