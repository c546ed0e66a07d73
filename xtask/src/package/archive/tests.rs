use super::*;

fn tree() -> Tree {
    let mut tree = Tree::default();
    tree.file("bin/program", 0o755, vec![7; 3]);
    tree.file("share/text", 0o644, b"text".to_vec());
    tree.directory("etc/empty", 0o750);
    tree
}

#[test]
fn an_archive_is_read_back_as_it_was_written_and_is_the_same_each_time() {
    let archives = Archives { time: 86_400, fast: true };
    let bytes = archives.tar_gz(".", &tree()).unwrap();
    assert_eq!(bytes, archives.tar_gz(".", &tree()).unwrap());
    let back = read_tar_gz(&bytes).unwrap();
    assert_eq!(back.get("./bin/program").unwrap().mode, 0o755);
    assert_eq!(back.text("./share/text"), Some("text"));
    let directories: Vec<_> = back.all_directories().into_iter().collect();
    let wanted =
        [(".", 0o755), ("./bin", 0o755), ("./etc", 0o755), ("./etc/empty", 0o750), ("./share", 0o755)];
    assert_eq!(directories, wanted.map(|(path, mode)| (path.to_owned(), mode)));
    assert!(read_tar_gz(&bytes[..bytes.len() / 2]).is_err());
    assert!(archives.tar_gz(&"x".repeat(99), &tree()).unwrap_err().contains("too long"));
}

#[test]
fn an_ar_archive_has_members_at_even_places() {
    let archives = Archives { time: 1, fast: true };
    let bytes = archives.ar(&[("debian-binary", b"2.0\n"), ("odd", b"xyz"), ("last", b"")]);
    let members = read_ar(&bytes).unwrap();
    let names: Vec<(&str, &[u8])> = members.iter().map(|(name, data)| (name.as_str(), &data[..])).collect();
    assert_eq!(names, [("debian-binary", &b"2.0\n"[..]), ("odd", b"xyz"), ("last", b"")]);
    assert_eq!(bytes.len() % 2, 0);
    for cut in 1..bytes.len() {
        let _ = read_ar(&bytes[..cut]); // never panics
    }
    assert!(read_ar(b"!<arch>\nshort").is_err() && read_ar(b"no").is_err());
}
