//! A client: `client LOCK COMMAND...` runs a command while it has the lock. The command gets the token as `TOKEN`.

use my_service::{Ask, Locks, Turn};
use quorate::client::ClientBuilder;
use std::error::Error;
use std::process::Command;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let usage = "usage: client LOCK COMMAND...";
    let (name, program) = (words.next().ok_or(usage)?, words.next().ok_or(usage)?);
    let file = std::env::var("QUORATE_CONFIG").unwrap_or(".quorate/dev/client.toml".into());
    let client = ClientBuilder::from_file(file)?.service("my-service").build_blocking()?;
    let locks = client.open::<Locks>()?;
    let token = loop {
        match locks.call(&Ask::Lock(name.clone()))? {
            Turn::Held { token } => break token,
            turn => println!("{turn:?}"),
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    let ended = Command::new(program).args(words).env("TOKEN", token.to_string()).status()?;
    locks.call(&Ask::Unlock(name))?;
    println!("token {token}: {ended}");
    Ok(())
}
