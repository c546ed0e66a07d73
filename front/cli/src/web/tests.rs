use super::Looks;
use quorate_command::admin::Admin;
use quorate_command::cluster::{CLIENT_FILE, Cluster};
use std::fs;
use std::sync::{Arc, Mutex};

fn client_file(cluster: &str, members: &[u16]) -> String {
    let member = |id: &u16| format!("[[members]]\nreplica = {id}\naddress = \"127.0.0.1:{id}\"\n");
    format!(
        "cluster = \"{}\"\nplain = true\n{}",
        cluster.repeat(32),
        members.iter().map(member).collect::<String>()
    )
}

#[test]
fn the_present_members_are_shown() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join(CLIENT_FILE);
    fs::write(&file, client_file("a", &[1, 2, 3])).expect("written");
    let cluster = Cluster::read(&file, "").expect("it is one");
    let admin = Arc::new(Admin::new(&cluster).expect("a client"));
    let looks = Looks { seen: Mutex::new((cluster, admin)) };
    let members = || looks.now().0.members.iter().map(|(id, _)| id.number()).collect::<Vec<_>>();
    assert_eq!(members(), [1, 2, 3]);
    fs::write(&file, client_file("a", &[1, 3, 4])).expect("written");
    assert_eq!(members(), [1, 3, 4], "one was replaced");
    fs::write(&file, client_file("b", &[1])).expect("written");
    assert_eq!(members(), [1, 3, 4], "that is another cluster");
    fs::remove_file(&file).expect("removed");
    assert_eq!(members(), [1, 3, 4]);
}
