//! Files of commands, signatures under them, and what is believed.

use super::carry::believed;
use super::file::CommandFile;
use super::keys;
use quorate_auth::{RequestChecks, is_signed_by};
use quorate_runtime::SigningKey;
use quorate_types::{ClusterId, MembershipId, ReplicaId, SessionKey};
use quorate_wire::{AdminCommand, Administrators, Member, Membership, Memberships, SignedCommand};

fn membership(number: u64, voters: &[u16], learners: &[u16]) -> Membership {
    let at = |member: Member| Member { address: format!("h:{}", member.replica.number()), ..member };
    let voters = voters.iter().map(|id| at(Member::voter(ReplicaId::new(*id))));
    let learners = learners.iter().map(|id| at(Member::learner(ReplicaId::new(*id))));
    Membership::new(MembershipId::new(number), voters.chain(learners).collect()).expect("a membership")
}

fn replaced() -> CommandFile {
    let (before, now) = (membership(3, &[1, 2, 3, 4], &[5, 6]), membership(4, &[1, 2, 4, 5], &[6, 7]));
    let change = Memberships::change(before, now).expect("the next one");
    let signed = SignedCommand::new(9, AdminCommand::Change(change));
    CommandFile { cluster: ClusterId::new(7), signed, reason: String::new() }
}

#[test]
fn a_file_says_what_it_does() {
    let command = replaced();
    assert_eq!(CommandFile::parse(&command.to_toml()), Some(command.clone()));
    let text = command.text();
    for part in [
        "command 9 of administrators",
        "from membership m3 to m4",
        "r5 votes from then on",
        "r7 at h:7 joins and learns",
        "r3 leaves",
        "nobody signed it yet",
    ] {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
    assert!(!text.contains("r6"), "nothing changes there: {text}");
    for other in ["", "cluster = \"7\"\n", "cluster = \"7\"\ncommand = \"0g\"\n"] {
        assert_eq!(CommandFile::parse(other), None, "{other}");
    }
}

#[test]
fn a_file_says_why() {
    assert!(!replaced().to_toml().contains("reason") && !replaced().text().contains("why"));
    let reason = "r5 replaces r3 on the evidence r3-two-accepts-i1-v2-s17.proof".to_owned();
    let command = CommandFile { reason: reason.clone(), ..replaced() };
    assert_eq!(CommandFile::parse(&command.to_toml()), Some(command.clone()));
    assert!(command.text().contains(&reason), "{}", command.text());
    let lines = CommandFile { reason: "two\nlines".into(), ..replaced() };
    assert_eq!(CommandFile::parse(&lines.to_toml()), None);
}

#[test]
fn keys_in_files_sign() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("anna.key");
    let key = SigningKey::new([5; 32]);
    std::fs::write(&file, key.to_text()).unwrap();
    let mut command = replaced();
    keys::sign(&mut command.signed, command.cluster, &file).unwrap();
    let public = SessionKey::new(keys::public(&key.public()).unwrap());
    let administrators = Administrators::new(1, vec![public]).unwrap();
    let is_signed = |cluster| is_signed_by(RequestChecks::Ed25519, cluster, &command.signed, &administrators);
    assert!(is_signed(command.cluster) && !is_signed(ClusterId::new(8)));
    assert!(command.text().contains(&key.public()));
    std::fs::write(&file, "12").unwrap();
    let why = keys::sign(&mut command.signed, command.cluster, &file).unwrap_err();
    assert!(why.to_string().contains("64 hexadecimal digits"), "{why}");
}

#[test]
fn what_one_replica_says_alone_is_not_believed() {
    let all = [3, 1, 2, 1];
    assert_eq!(believed(&all, 2).collect::<Vec<_>>(), [&1, &1]);
    assert_eq!(believed(&all, 3).count(), 0);
}
