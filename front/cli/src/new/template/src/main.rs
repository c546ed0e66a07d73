//! A replica: `my-service FILE`, where FILE is its configuration.

use my_service::Counters;
use quorate::Typed;
use std::process::ExitCode;

fn main() -> ExitCode {
    quorate::run(Typed(Counters::default()))
}
