//! Resolves names on threads of their own, since the client's thread must not block.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// The addresses behind `host:port`.
pub(crate) fn now(address: &str) -> Result<Vec<SocketAddr>, String> {
    match address.to_socket_addrs() {
        Ok(found) => {
            let found: Vec<SocketAddr> = found.collect();
            if found.is_empty() { Err(format!("the name in {address} has no address")) } else { Ok(found) }
        }
        Err(error) => Err(format!("the address {address} can not be resolved: {error}")),
    }
}

/// Resolves on a thread of its own and hands the result to `tell`.
pub(crate) fn in_background(
    address: String,
    tell: impl FnOnce(Result<Vec<SocketAddr>, String>) + Send + 'static,
) -> io::Result<()> {
    std::thread::Builder::new().name("quorate-resolve".to_owned()).spawn(move || tell(now(&address)))?;
    Ok(())
}
