//! Free ports of this machine, for clusters that run on it alone.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

/// Ports below those that systems give to outgoing connections (from 32768 with Linux). A port among those is often taken before its
/// replica listens, or while the replica is stopped.
const PORTS: Range<u16> = 20_000..32_000;
const TRIES: usize = 1000;

/// So many ports in a row that nobody listens on now. Those who ask at the same time rarely get the same ports, since each row
/// begins at a random place.
///
/// # Errors
/// `AddrInUse` when no such row was found.
pub fn free_ports(count: u16) -> io::Result<Vec<u16>> {
    let places = (PORTS.end - PORTS.start).saturating_sub(count);
    let mut tries = (0..TRIES).map(|_| PORTS.start + (random() % (u64::from(places) + 1)) as u16);
    let found = tries.find_map(|first| row(first, count));
    found.ok_or_else(|| {
        io::Error::new(io::ErrorKind::AddrInUse, format!("no {count} free ports in a row were found"))
    })
}

/// The ports from this one on, if all of them are free.
fn row(first: u16, count: u16) -> Option<Vec<u16>> {
    let row: Vec<u16> = (first..=u16::MAX).take(usize::from(count)).collect();
    // Held all together, so that the row is free as a whole.
    let held: Result<Vec<_>, _> =
        row.iter().map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port))).collect();
    held.is_ok().then_some(row)
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests;
