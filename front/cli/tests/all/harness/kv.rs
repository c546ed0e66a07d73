//! The key-value store as a program uses it that embeds the client.

use quorate::client::{BlockingClient, ClientBuilder, ReadOptions};
use quorate_kv::{KvCommand, KvQuery, KvReply, Operation};
use std::path::Path;
use std::time::Duration;

/// A client of the cluster whose `client.toml` lies there.
pub(crate) fn client(directory: &Path) -> BlockingClient {
    let builder = ClientBuilder::from_file(directory.join("client.toml")).expect("a usable file");
    builder.timeout(Duration::from_secs(30)).build_blocking().expect("a client")
}

/// The bytes of a put.
pub(crate) fn put(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    KvCommand::One(Operation::Put { key: name.as_bytes(), value: value.as_bytes() }).encode(&mut bytes);
    bytes
}

/// Whether a strong read finds this value.
pub(crate) fn has(client: &BlockingClient, name: &str, value: &str) -> bool {
    let mut query = Vec::new();
    KvQuery::Get { key: name.as_bytes() }.encode(&mut query);
    let read = client.read(query, ReadOptions::STRONG).expect("it is read");
    let found = KvReply::decode(&read.body).expect("a reply");
    matches!(found, KvReply::Value(Some(found)) if found == value.as_bytes())
}
