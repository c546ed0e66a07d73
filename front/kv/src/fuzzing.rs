//! The bodies of the fuzz targets: decoders return whatever the bytes are; what they decode comes back the same from its encoding. Ordinary
//! tests run them, too.

use crate::lists::{ListAsk, ListReply};
use crate::shop::{ShopCommand, ShopReply, ShopTotals};
use crate::{KvCommand, KvQuery, KvReply};

/// Decodes the bytes as a command, a query and a reply, and as those of the shop and of the lists.
///
/// # Panics
/// When a decoded value does not come back the same.
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
    shop(data);
    lists(data);
}

fn lists(data: &[u8]) {
    if let Some(ask) = ListAsk::decode(data) {
        assert_eq!(ask.encode(), data);
    }
    if let Some(reply) = ListReply::decode(data) {
        assert_eq!(reply.encode(), data);
    }
}

fn shop(data: &[u8]) {
    if let Some(command) = ShopCommand::decode(data) {
        assert_eq!(command.encode(), data);
    }
    if let Some(reply) = ShopReply::decode(data) {
        assert_eq!(reply.encode(), data);
    }
    if let Some(totals) = ShopTotals::decode(data) {
        assert_eq!(totals.encode(), data);
    }
}
