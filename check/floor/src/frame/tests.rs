use super::*;

#[test]
fn a_sealed_frame_splits_into_what_went_in() {
    let mut f = Frame::new(64);
    f.body()[..32].copy_from_slice(&[7; 32]);
    f.seal(32, 5);
    let mut stream = f.sealed().to_vec();
    stream.extend_from_slice(b"next");
    let (commands, rest) = split(&stream, 64, 5).unwrap().unwrap();
    assert_eq!(commands, [7; 32]);
    assert_eq!(rest, b"next");
}

#[test]
fn a_frame_that_is_not_all_there_waits() {
    let mut f = Frame::new(64);
    f.seal(32, 0);
    for cut in 0..f.sealed().len() {
        assert_eq!(split(&f.sealed()[..cut], 64, 0), Ok(None), "cut at {cut}");
    }
}

#[test]
fn a_frame_beyond_the_limit_or_out_of_order_is_refused() {
    let mut f = Frame::new(64);
    f.seal(64, 4);
    assert!(split(f.sealed(), 63, 4).is_err());
    assert!(split(f.sealed(), 64, 3).is_err());
    assert!(split(f.sealed(), 64, 4).is_ok());
}

#[test]
fn the_sum_sees_every_byte() {
    let mut bytes = vec![0u8; 37];
    assert_eq!(touch(&bytes), 0);
    for at in 0..bytes.len() {
        bytes[at] = 1;
        assert_ne!(touch(&bytes), 0, "byte {at}");
        bytes[at] = 0;
    }
}
