use super::*;

#[test]
fn hashes_of_others_are_matched() {
    // Of the test vectors that programs with bcrypt share.
    for (password, hash) in [
        ("", "$2a$04$NwPWZF/kO.WGOUxwTO2nxuxTDdxiiup0etICRIgg0x.sB0.fJlQQS"),
        ("a", "$2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe"),
        ("abcdefghijklmnopqrstuvwxyz", "$2a$06$.rCVZVOThsIa97pEDOxvGuRRgzG64bvtJ0938xuqzv18d3ZpQhstC"),
        ("U*U", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"),
    ] {
        assert!(is_hash(hash.as_bytes()));
        assert!(matches(password.as_bytes(), hash.as_bytes()), "{password}");
        assert!(!matches(format!("{password}x").as_bytes(), hash.as_bytes()), "{password}");
    }
}

#[test]
fn a_hash_of_ours_is_one_of_theirs() {
    let salt = [7; SALT_BYTES];
    let text = hash(b"secret", &salt, 4);
    assert_eq!(text.len(), 60);
    assert!(text.starts_with(b"$2a$04$"));
    assert!(matches(b"secret", &text) && !matches(b"Secret", &text));
    assert_eq!(cost(&text), Some(4));
    // Only the first 72 bytes count, as in etcd.
    let long = hash(&[b'x'; 80], &salt, 4);
    assert!(matches(&[b'x'; 72], &long) && !matches(&[b'x'; 71], &long));
}

#[test]
fn what_is_no_hash_matches_nothing() {
    let text = hash(b"", &[0; SALT_BYTES], 4);
    for cut in 0..text.len() {
        assert!(!matches(b"", &text[..cut]));
    }
    // It would take hours.
    assert!(!matches(b"", &[b"$2a$31$", &text[7..]].concat()));
    assert!(!matches(b"", &[b"$2a$xx$", &text[7..]].concat()));
    assert!(!matches(b"", b"$2a$04$\xff"));
    assert!(!is_hash(&[0, 3, 13, 64]));
}
