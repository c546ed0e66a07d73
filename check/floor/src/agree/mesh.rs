//! The connections between all replicas, and those of the load generator to each.
//!
//! A replica connects to the replicas with smaller numbers and waits for those with larger ones. The side that connects first sends its
//! number, one byte.

use crate::roles::{self, Word};
use crate::{Config, Doing, Error, Result, net, tag};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

pub(crate) struct Mesh {
    /// The other replicas in the order of their numbers.
    pub(crate) peers: Vec<(u8, TcpStream)>,
    pub(crate) client: TcpStream,
    /// Where callers connect.
    pub(crate) listener: TcpListener,
}

/// Connects to `earlier`, tells the parent where this replica listens, and waits for the connections of the later replicas.
pub(crate) fn join(config: &Config, number: u8, earlier: &[SocketAddr]) -> Result<Mesh> {
    let mut peers = Vec::new();
    for (peer, address) in (0..).zip(earlier) {
        peers.push((peer, connect(config, *address, number)?));
    }
    let (listener, address) = net::listen()?;
    roles::say(&Word::Ready(address))?;
    let mut client = None;
    while peers.len() + 1 < usize::from(config.replicas()) || client.is_none() {
        let mut stream = net::accept(&listener, &config.congestion_control)?;
        let mut from = [0u8; 1];
        stream.read_exact(&mut from).doing("read who connected")?;
        match from[0] {
            tag::LOAD if client.is_none() => client = Some(stream),
            later
                if later > number
                    && later < config.replicas()
                    && peers.iter().all(|(peer, _)| *peer != later) =>
            {
                peers.push((later, stream));
            }
            other => {
                return Err(Error::Child {
                    role: "new connection".into(),
                    what: format!("said that it is number {other}, which nobody expects"),
                });
            }
        }
    }
    peers.sort_unstable_by_key(|(peer, _)| *peer);
    // the loop ends with one
    let client =
        client.ok_or_else(|| Error::Child { role: "load generator".into(), what: "never came".into() })?;
    Ok(Mesh { peers, client, listener })
}

/// Connects to a replica; `from` is the number of the side that connects.
pub(crate) fn connect(config: &Config, to: SocketAddr, from: u8) -> Result<TcpStream> {
    let mut stream = net::connect(to, &config.congestion_control)?;
    stream.write_all(&[from]).doing("say who connects")?;
    Ok(stream)
}
