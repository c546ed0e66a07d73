use super::NewFile;
use std::fs;
use std::io::ErrorKind;

#[test]
fn a_name_that_ends_like_a_directory_is_refused_before_anything_is_fetched() {
    let directory = std::env::temp_dir().join(format!("quorate-backup-name-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    for name in ["new/", "new//", "new/."] {
        let refused = NewFile::begin(&directory.join(name)).map(drop).map_err(|why| why.kind());
        assert_eq!(refused, Err(ErrorKind::IsADirectory), "{name}");
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    drop(NewFile::begin(&directory.join("new")).unwrap());
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "dropped, it is removed");
    fs::remove_dir_all(&directory).unwrap();
}
