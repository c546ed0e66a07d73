//! Runs the null program from the command line and prints one JSON report a line:
//! `cargo run --release -p quorate-floor --example floor -- [window] [memory|write|fdatasync] [seconds] [dir] [crash|byzantine] [in flight] [batch bytes]`

use quorate_floor::{Config, FaultModel, Sync};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    quorate_floor::maybe_child();
    let mut args = std::env::args().skip(1);
    let mut config = Config::default();
    if let Some(window) = args.next() {
        config.window = window.parse()?;
    }
    if let Some(sync) = args.next() {
        config.sync = match sync.as_str() {
            "memory" => Sync::Memory,
            "write" => Sync::Write,
            "fdatasync" => Sync::Fdatasync,
            other => return Err(format!("{other:?}: memory, write or fdatasync").into()),
        };
    }
    if let Some(seconds) = args.next() {
        config.seconds = seconds.parse()?;
    }
    if let Some(dir) = args.next() {
        config.dir = dir.into();
    }
    if let Some(fault_model) = args.next() {
        config = config.surviving(match fault_model.as_str() {
            "crash" => FaultModel::Crash,
            "byzantine" => FaultModel::Byzantine,
            other => return Err(format!("{other:?}: crash or byzantine").into()),
        });
    }
    if let Some(in_flight) = args.next() {
        config.in_flight = in_flight.parse()?;
    }
    if let Some(batch_bytes) = args.next() {
        config.batch_bytes = batch_bytes.parse()?;
    }
    println!("{}", serde_json::to_string(&quorate_floor::run(&config)?)?);
    Ok(())
}
