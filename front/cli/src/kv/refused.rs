//! Whether no replica runs: a client would ask them again until its deadline, and whoever typed the command would wait for nothing.

use quorate_command::failure::{Failure, Outcome};
use quorate_types::ReplicaId;
use std::io::ErrorKind;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::thread;
use std::time::Duration;

/// How often each replica is asked before it counts as one that does not run: one that starts is there within a second.
const ROUNDS: u32 = 3;
/// The time between two rounds.
const PAUSE: Duration = Duration::from_millis(400);
/// How long a connection may take. What does not refuse by then may be far away, or slow.
const PATIENCE: Duration = Duration::from_millis(200);

/// Refuses at once what no replica could do: every machine answers, and on none of them somebody listens.
///
/// # Errors
/// When each address refuses connections for about a second, or for as long as `timeout` if that is shorter.
pub(super) fn refuse_dead(members: &[(ReplicaId, String)], timeout: Duration) -> Outcome<()> {
    for round in 0..ROUNDS {
        if !members.iter().all(|(_, address)| refuses(address)) {
            return Ok(());
        }
        if PAUSE * (round + 1) > timeout {
            break;
        }
        if round + 1 < ROUNDS {
            thread::sleep(PAUSE);
        }
    }
    let list: Vec<String> = members.iter().map(|(id, address)| format!("{id} at {address}")).collect();
    Err(Failure::new(format!(
        "no replica runs ({} refuse connections). Start them with `quorate dev` or `quorate serve`, a replica that `quorate chaos` \
         killed with `quorate chaos restart dead`",
        list.join(", ")
    )))
}

/// Whether the machine says that nobody listens there. Whatever else is wrong, the client finds out, and says.
fn refuses(address: &str) -> bool {
    let Ok(addresses) = address.to_socket_addrs() else { return false };
    let mut any = false;
    for address in addresses {
        any = true;
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Err(why) if why.kind() == ErrorKind::ConnectionRefused => {}
            _ => return false,
        }
    }
    any
}

#[cfg(test)]
mod tests;
