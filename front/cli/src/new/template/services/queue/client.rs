//! A client: `client push WORK`, `client take SECONDS`, `client end NUMBER TAKEN`.

use my_service::{Queue, Step};
use quorate::client::ClientBuilder;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let step = match words[..] {
        ["push", work] => Step::Push(work.into()),
        ["take", seconds] => Step::Take { lease_ms: 1000 * seconds.parse::<u64>()? },
        ["end", number, taken] => Step::End { number: number.parse()?, taken: taken.parse()? },
        _ => return Err("usage: client push WORK, client take SECONDS, or client end NUMBER TAKEN".into()),
    };
    let file = std::env::var("QUORATE_CONFIG").unwrap_or(".quorate/dev/client.toml".into());
    let client = ClientBuilder::from_file(file)?.service("my-service").build_blocking()?;
    println!("{:?}", client.open::<Queue>()?.call(&step)?);
    Ok(())
}
