//! Headers and records, field by field. Whole blocks as golden bytes: `tests/all/golden.rs`.

use super::*;

fn header() -> BlockHeader {
    BlockHeader {
        log_id: 7,
        position: 4096,
        len: 1024,
        count: 2,
        first: 5,
        synced_to: 2048,
        life: 3,
        previous: 0xabcd,
        body: 0x1234,
    }
}

fn seal(bytes: &mut [u8; BLOCK_HEADER]) {
    let crc = crc32c(&bytes[..HEADER_CRC]);
    bytes[HEADER_CRC..].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn a_header_reads_back_as_it_was_written() {
    let (bytes, crc) = header().encode();
    assert_eq!(BlockHeader::decode(&bytes, 7, 4096), Ok((header(), crc)));
}

#[test]
fn every_flipped_bit_of_a_header_is_noticed() {
    let (bytes, _) = header().encode();
    for bit in 0..BLOCK_HEADER * 8 {
        let mut bytes = bytes;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(BlockHeader::decode(&bytes, 7, 4096), Err(Bad::Because(_))), "bit {bit}");
    }
}

#[test]
fn a_header_of_another_log_or_place_is_not_ours_in_whatever_format() {
    for version in [1u16, 9] {
        let (mut bytes, _) = header().encode();
        bytes[4..6].copy_from_slice(&version.to_le_bytes());
        seal(&mut bytes);
        assert!(matches!(BlockHeader::decode(&bytes, 8, 4096), Err(Bad::Because(_))));
        assert!(matches!(BlockHeader::decode(&bytes, 7, 4608), Err(Bad::Because(_))));
    }
}

#[test]
fn only_a_sound_header_with_a_higher_version_is_newer() {
    let (mut bytes, _) = header().encode();
    bytes[4] = 2;
    assert!(
        matches!(BlockHeader::decode(&bytes, 7, 4096), Err(Bad::Because(_))),
        "rot in the version is rot"
    );
    seal(&mut bytes);
    assert_eq!(BlockHeader::decode(&bytes, 7, 4096), Err(Bad::Newer(2)));
}

#[test]
fn fields_that_contradict_each_other_are_refused() {
    let wrong: [fn(&mut BlockHeader); 4] =
        [|h| h.len = 0, |h| h.len = 1000, |h| h.synced_to = 4608, |h| h.synced_to = 100];
    for change in wrong {
        let mut header = header();
        change(&mut header);
        let (bytes, _) = header.encode();
        assert!(matches!(BlockHeader::decode(&bytes, 7, 4096), Err(Bad::Because(_))), "{header:?}");
    }
    let mut flags = self::header().encode().0;
    flags[6] = 1;
    seal(&mut flags);
    assert!(matches!(BlockHeader::decode(&flags, 7, 4096), Err(Bad::Because(_))));
}

fn stored(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_record_head(RecordId::new(9), record, &mut bytes);
    bytes.extend_from_slice(&record.payload);
    bytes
}

fn sample() -> Record {
    Record {
        instance: InstanceId::new(3),
        kind: 200,
        head: Bytes::from_static(b"head"),
        payload: Bytes::from_static(b"the payload"),
    }
}

#[test]
fn a_record_reads_back_without_copying_and_leaves_what_follows() {
    let mut bytes = stored(&sample());
    let len = bytes.len();
    bytes.extend_from_slice(b"the next record");
    let bytes = Bytes::from(bytes);
    let decoded = decode_record(&bytes).ok().unwrap();
    assert_eq!((decoded.id, &decoded.record, decoded.len), (RecordId::new(9), &sample(), len));
    assert_eq!(decoded.record.payload.as_ptr(), bytes[len - 11..].as_ptr());
    assert_eq!(sample().stored_len(), len as u64);
}

#[test]
fn every_flipped_bit_and_every_cut_of_a_record_is_noticed() {
    let bytes = stored(&sample());
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_record(&bytes.into()).is_err(), "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert!(decode_record(&Bytes::copy_from_slice(&bytes[..len])).is_err(), "cut to {len}");
    }
}
