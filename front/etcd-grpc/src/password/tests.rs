use super::*;

#[test]
fn a_hash_is_of_its_password_only() {
    let (one, other) = (hash(b"secret").expect("chance"), hash(b"secret").expect("chance"));
    assert_ne!(one, other, "each has a salt of its own");
    assert!(matches(b"secret", &one) && matches(b"secret", &other));
    assert!(!matches(b"Secret", &one) && !matches(b"", &one));
    let mut changed = one.clone();
    changed[SALT_BYTES + 10] ^= 1;
    assert!(!matches(b"secret", &changed));
}

#[test]
fn what_is_no_hash_matches_nothing() {
    let hash = hash(b"").expect("chance");
    assert!(matches(b"", &hash));
    for len in 0..hash.len() {
        assert!(!matches(b"", &hash[..len]));
    }
    let endless = [&u32::MAX.to_be_bytes()[..], &hash[4..]].concat();
    assert!(!matches(b"", &endless));
}

#[test]
fn a_hash_that_came_from_an_etcd_is_compared() {
    let hash = bcrypt::hash(b"secret", &[3; bcrypt::SALT_BYTES], 4);
    assert!(matches(b"secret", &hash) && !matches(b"Secret", &hash));
    assert!(!bcrypt::is_hash(&super::hash(b"secret").expect("chance")), "ours is never taken for one");
}

#[test]
fn tokens_differ() {
    let (one, other) = (token().expect("chance"), token().expect("chance"));
    assert_eq!(one.len(), TOKEN_CHARS);
    assert_ne!(one, other);
}
