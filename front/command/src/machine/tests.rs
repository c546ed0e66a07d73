use super::file_system;
use std::path::Path;

#[test]
fn the_innermost_mount_counts() {
    let here = std::env::current_dir().expect("a working directory");
    let here = here.to_str().expect("a path in UTF-8").replace(' ', "\\040");
    let mounts = format!("a / ext4 rw 0 0\nb {here} xfs rw 0 0\nc /nowhere tmpfs rw 0 0\n");
    assert_eq!(file_system(Path::new("does/not/exist/yet"), &mounts), "xfs");
    assert_eq!(file_system(Path::new("/"), &mounts), "ext4");
    assert_eq!(file_system(Path::new("/"), ""), "unknown");
}
