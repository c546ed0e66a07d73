//! The bodies of the fuzz targets. Stable tests run them over the corpora.

mod oracle;

pub use oracle::{Members, STATEMENTS, claims, register};

use crate::mod_smart::evidence::Evidence;
use crate::protocols;
use bytes::Bytes;
use quorate_wire::FRAME_HEADER;

/// The payload of a frame with a protocol's message. The decoder returns for any bytes. What it accepts encodes to bytes that decode to the
/// same message.
///
/// # Panics
/// When that does not hold.
pub fn message(data: &[u8]) {
    if let Ok((instance, message)) = protocols::decode(Bytes::copy_from_slice(data)) {
        let again = Bytes::from(message.frame(instance).to_vec()).slice(FRAME_HEADER..);
        assert_eq!(protocols::decode(again), Ok((instance, message)));
    }
}

/// A file of evidence: these bytes, and the same with a right checksum in the place of the last 8. The decoder returns for any bytes, and what it accepts encodes to the
/// same bytes. Whether it proves anything is found out without a panic.
///
/// # Panics
/// When that does not hold.
pub fn evidence(data: &[u8]) {
    let sealed = Evidence::sealed(data[..data.len().saturating_sub(8)].to_vec());
    for bytes in [Bytes::copy_from_slice(data), sealed] {
        if let Ok(evidence) = Evidence::decode(bytes.clone()) {
            assert_eq!(evidence.encode(), bytes);
            let _ = evidence.file_name();
            let by_itself = evidence.key.map(|key| evidence.verify(&key));
            assert!(by_itself != Some(Ok(())) || evidence.contradiction().is_ok());
        }
    }
}
