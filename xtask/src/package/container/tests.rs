use super::*;

#[test]
fn the_oldest_base_with_a_glibc_that_is_new_enough_is_taken() {
    assert_eq!(base(Glibc(2, 17)).unwrap().0, BASES[0].0);
    assert_eq!(base(Glibc(2, 36)).unwrap().0, BASES[0].0);
    assert_eq!(base(Glibc(2, 39)).unwrap().0, BASES[1].0);
    assert!(base(Glibc(2, 99)).unwrap_err().contains("2.99"));
}

#[test]
fn copied_files_are_all_words_but_options_and_the_last_one() {
    let text = "FROM x\nCOPY --chmod=0755 a /bin/a\nCOPY b c /share/\n# COPY d /d\n";
    assert_eq!(copied(text), ["a", "b", "c"]);
}
