//! The bodies of the fuzz targets: whatever the bytes, decoders return; what decodes, encodes to something that decodes
//! to the same. Stable tests run them, too.

use crate::{KvCommand, KvQuery, KvReply};

/// Bytes as a command, a query and a reply.
///
/// # Panics
/// When what decoded does not come back.
pub fn decode(data: &[u8]) {
    let mut again = Vec::new();
    if let Ok(command) = KvCommand::decode(data) {
        command.encode(&mut again);
        assert_eq!(KvCommand::decode(&again).as_ref(), Ok(&command));
    }
    again.clear();
    if let Ok(query) = KvQuery::decode(data) {
        query.encode(&mut again);
        assert_eq!(KvQuery::decode(&again), Ok(query));
    }
    again.clear();
    if let Ok(reply) = KvReply::decode(data) {
        reply.encode(&mut again);
        assert_eq!(KvReply::decode(&again).as_ref(), Ok(&reply));
    }
}
