//! `quorate health`: asks the health endpoint of a replica on this machine. For containers, which have no other program for that.

use crate::services;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Ask a replica on this machine whether it serves, for the probes of containers.
///
/// Asks at the address `health` of its configuration, as any program can that speaks HTTP: GET /livez and GET /readyz there. Without
/// `health` a replica has no such address.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate health --config prod/replica-1/replica.toml
  quorate health --config /etc/quorate/replica.toml --live

Exit codes: 0 it does, 1 it does not, or does not answer.")]
pub(crate) struct Args {
    /// The configuration of the replica
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Ask only whether it runs, not whether it serves
    #[arg(long)]
    live: bool,
    /// How long the answer may take
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
}

/// The longest answer.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

pub(crate) fn run(args: &Args) -> Outcome {
    let config = services::read_config(&args.config)?;
    let Some(address) = &config.health else {
        return Err(Failure::usage(format!(
            "{} has no key `health`, so this replica can not be asked: add health = \"127.0.0.1:8080\" and restart it",
            args.config.display()
        )));
    };
    let path = if args.live { "/livez" } else { "/readyz" };
    let until = Instant::now() + Duration::from_secs(args.timeout);
    let (well, said) = ask(address, path, until)
        .map_err(|why| Failure::new(format!("replica {} at {address}: {why}", config.replica)))?;
    print::line(said.trim_end())?;
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Asks the endpoint. Gives whether the answer is positive, and its text.
fn ask(address: &str, path: &str, until: Instant) -> Result<(bool, String), String> {
    let left = || until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let resolved = address.to_socket_addrs().map_err(|why| why.to_string())?.next();
    let address = reachable(resolved.ok_or("there is no such address")?);
    let mut stream = TcpStream::connect_timeout(&address, left()).map_err(|why| why.to_string())?;
    stream.set_write_timeout(Some(left())).map_err(|why| why.to_string())?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(|why| why.to_string())?;
    let mut answer = Vec::new();
    let mut room = [0; 1024];
    while answer.len() as u64 <= ANSWER_BYTES_MAX {
        if Instant::now() >= until {
            return Err("no answer in time".to_owned());
        }
        stream.set_read_timeout(Some(left())).map_err(|why| why.to_string())?;
        match stream.read(&mut room) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&room[..read]),
            Err(why) if why.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Err("no answer in time".to_owned()),
        }
    }
    understand(&answer).ok_or_else(|| "what answers there is no replica".to_owned())
}

fn understand(answer: &[u8]) -> Option<(bool, String)> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.split(' ').next()?;
    match status {
        "200" => Some((true, body.to_owned())),
        "503" => Some((false, body.to_owned())),
        _ => None,
    }
}

/// An address to connect to: a replica that listens on all addresses listens on loopback, too.
fn reachable(address: SocketAddr) -> SocketAddr {
    let here = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    };
    SocketAddr::new(here, address.port())
}
