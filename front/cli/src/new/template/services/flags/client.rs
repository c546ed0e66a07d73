//! A client: `client set FLAG VALUE`, `client watch`.

use my_service::{Change, Flags};
use quorate::client::{ClientBuilder, LetterQueue};
use quorate::decode_letter;
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let file = std::env::var("QUORATE_CONFIG").unwrap_or(".quorate/dev/client.toml".into());
    let letters = LetterQueue::new(1 << 20);
    let client =
        ClientBuilder::from_file(file)?.service("my-service").letters(letters.clone()).build_blocking()?;
    let flags = client.open::<Flags>()?;
    match words[..] {
        ["set", flag, value] => {
            let change = Change::Set { flag: flag.into(), value: value.into(), since: None };
            println!("{:?}", flags.call(&change)?);
        }
        ["watch"] => {
            println!("{:?}", flags.call(&Change::Watch)?);
            loop {
                if let Some(letter) = letters.recv(Duration::from_secs(1)) {
                    let (flag, number, value): (String, u64, String) = decode_letter(&letter.body)?;
                    println!("{number}: {flag} = {value} ({} missed)", letter.missed);
                }
            }
        }
        _ => return Err("usage: client set FLAG VALUE, or client watch".into()),
    }
    Ok(())
}
