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

/// The duration of an option that is given with its unit, as in `500ms` or `2s`.
///
/// # Errors
/// When it is no such duration; the text says what is.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let wrong = || "a time is a number and ms or s, as in 500ms or 2s".to_owned();
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 0.001),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let seconds = number.trim().parse::<f64>().map_err(|_| wrong())? * unit;
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}
