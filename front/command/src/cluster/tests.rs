use super::{Cluster, option_beside};
use quorate::client::Authentication;
use quorate_types::{ClusterId, FaultModel, ReplicaId};
use std::path::{Path, PathBuf};

fn cluster(replicas: u16, fault_model: FaultModel) -> Cluster {
    Cluster {
        id: ClusterId::new(1),
        members: (1..=replicas).map(|id| (ReplicaId::new(id), format!("10.0.0.{id}:7000"))).collect(),
        learners: Vec::new(),
        membership: None,
        keys: [].into(),
        fault_model,
        faults: None,
        era: 1,
        weighted: false,
        authentication: Authentication::default(),
        tls: None,
        directory: PathBuf::new(),
    }
}

#[test]
fn a_replica_that_adds_nothing_is_named() {
    let said = |replicas| cluster(replicas, FaultModel::Crash).spare();
    for replicas in [1, 3, 5, 7] {
        assert_eq!(said(replicas), None, "{replicas}");
    }
    for (replicas, says) in [
        (2, "Of 2 replicas a majority must run: no replica may stop, as with 1. Take 1 or 3."),
        (4, "Of 4 replicas a majority must run: one replica may stop, as with 3. Take 3 or 5."),
        (6, "Of 6 replicas a majority must run: 2 replicas may stop, as with 5. Take 5 or 7."),
    ] {
        assert_eq!(said(replicas).as_deref(), Some(says));
    }
    assert_eq!(cluster(4, FaultModel::Byzantine).spare(), None, "four survive one that lies");
}

#[test]
fn a_command_names_the_directory_where_it_would_find_another_one() {
    let said =
        |directory, variable: Option<&str>| option_beside(Path::new(directory), variable.map(Path::new));
    for (directory, variable, option) in [
        (".quorate/dev", None, ""),
        ("./.quorate/dev", None, ""),
        ("./liars", None, " --dir ./liars"),
        ("a b", None, " --dir 'a b'"),
        ("", None, " --dir ."),
        ("/srv/one", Some("/srv/one/client.toml"), ""),
        (".quorate/dev", Some("/srv/one/client.toml"), " --dir .quorate/dev"),
    ] {
        assert_eq!(said(directory, variable), option, "{directory} {variable:?}");
    }
}
