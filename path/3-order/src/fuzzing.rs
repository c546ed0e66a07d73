//! The body of the fuzz target `order_message`. Decoders return for any bytes. What they accept encodes to bytes that decode to the same
//! message. A stable test runs it over the corpus.

use crate::protocols;
use bytes::Bytes;
use quorate_wire::FRAME_HEADER;

/// The payload of a frame with a protocol's message.
pub fn message(data: &[u8]) {
    if let Ok((instance, message)) = protocols::decode(Bytes::copy_from_slice(data)) {
        let again = Bytes::from(message.frame(instance).to_vec()).slice(FRAME_HEADER..);
        assert_eq!(protocols::decode(again), Ok((instance, message)));
    }
}
