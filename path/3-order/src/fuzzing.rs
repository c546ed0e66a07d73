//! The bodies of the fuzz targets. Stable tests run them over the corpora.

mod oracle;

pub use oracle::{Members, STATEMENTS, claims, register};

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
