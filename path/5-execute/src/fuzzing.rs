//! The body of a fuzz target. A stable test runs it over the corpus.

use crate::nested::NestedPart;

/// Any bytes as the requests under way of a checkpoint: these bytes, and the same behind the magic. The decoder returns for any bytes, and what
/// it accepts encodes to the same bytes.
///
/// # Panics
/// When that does not hold.
pub fn nested_part(data: &[u8]) {
    for bytes in [data.to_vec(), [b"quonest\x01", data].concat()] {
        if let Ok(part) = NestedPart::read(&bytes) {
            let mut again = Vec::new();
            part.write_to(&mut again);
            assert_eq!(again, bytes, "what is read is written back alike");
        }
    }
}
