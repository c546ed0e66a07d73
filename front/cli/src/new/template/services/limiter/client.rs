//! A client: `client NAME TOKENS`. Its exit code is 1 if it may not go on.

use my_service::{Limiter, Take, Verdict};
use quorate::client::ClientBuilder;
use std::error::Error;
use std::process::ExitCode;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let name = words.next().ok_or("usage: client NAME TOKENS")?;
    let tokens = words.next().unwrap_or("1".into()).parse()?;
    let file = std::env::var("QUORATE_CONFIG").unwrap_or(".quorate/dev/client.toml".into());
    let client = ClientBuilder::from_file(file)?.service("my-service").build_blocking()?;
    let verdict = client.open::<Limiter>()?.call(&Take { name, tokens })?;
    println!("{verdict:?}");
    let allowed = matches!(verdict, Verdict::Allowed { .. });
    Ok(if allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
