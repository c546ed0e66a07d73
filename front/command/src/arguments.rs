//! Values on the command line.

use crate::failure::{Failure, Outcome};
use clap::ValueEnum;
use std::time::Duration;

/// The word for a choice on the command line and in files.
pub fn name(choice: impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The duration of an option that is given in seconds; refuses values that make no sense.
pub fn seconds(option: &str, value: f64) -> Outcome<Duration> {
    if (0.05..=86_400.0).contains(&value) {
        Ok(Duration::from_secs_f64(value))
    } else {
        Err(Failure::usage(format!("{option} is 0.05 to 86400 seconds")))
    }
}
