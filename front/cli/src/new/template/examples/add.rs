//! A client: `add NAME AMOUNT`. It finds the cluster of `quorate dev` in this directory, or the one whose client.toml QUORATE_CONFIG names.

use my_service::{Command, Counters};
use quorate::client::ClientBuilder;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let name = words.next().ok_or("usage: add NAME AMOUNT")?;
    let amount = words.next().unwrap_or("1".into()).parse()?;
    let file = std::env::var("QUORATE_CONFIG").unwrap_or(".quorate/dev/client.toml".into());
    let client = ClientBuilder::from_file(file)?.service("my-service").build_blocking()?;
    let counters = client.open::<Counters>()?;
    println!("{name}: {}", counters.call(&Command::Add { name: name.clone(), amount })?);
    Ok(())
}
