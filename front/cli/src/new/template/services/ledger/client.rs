//! A client: `client deposit TO AMOUNT`, `client transfer FROM TO AMOUNT`.

use my_service::{Entry, Ledger};
use quorate::client::ClientBuilder;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let entry = match words[..] {
        ["deposit", to, amount] => Entry::Deposit { to: to.into(), amount: amount.parse()? },
        ["transfer", from, to, amount] => {
            Entry::Transfer { from: from.into(), to: to.into(), amount: amount.parse()? }
        }
        _ => return Err("usage: client deposit TO AMOUNT, or client transfer FROM TO AMOUNT".into()),
    };
    let file = std::env::var("QUORATE_CONFIG").unwrap_or(".quorate/dev/client.toml".into());
    let client = ClientBuilder::from_file(file)?.service("my-service").build_blocking()?;
    println!("{:?}", client.open::<Ledger>()?.call(&entry)?);
    Ok(())
}
