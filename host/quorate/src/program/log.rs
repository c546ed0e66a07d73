//! The log of a replica's program, and how much it says: first as the environment says, later as signals say.

use std::str::FromStr;
use tracing_subscriber::EnvFilter;

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON document a line, for programs.
    Json,
}

impl LogFormat {
    /// The names by which people choose one.
    pub const NAMES: [&str; 2] = ["text", "json"];
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("a log is written as {}, not as \"{name}\"", Self::NAMES.join(" or "))),
        }
    }
}

/// The filter for each louder level, added to the one from the start. Libraries stay at `info`, since their details help little.
const LOUDER: [(&str, &str); 2] = [("debug", "info,quorate=debug"), ("trace", "trace")];

/// Changes how much is logged.
pub struct Levels {
    /// The filter from the start.
    usual: String,
    louder: usize,
    set: Box<dyn Fn(EnvFilter) -> bool + Send>,
}

impl Levels {
    /// Starts logging to standard error with the filter in the variable QUORATE_LOG. `None` when this process has a log already.
    ///
    /// # Errors
    /// When the filter can not be parsed.
    pub fn start(format: LogFormat) -> Result<Option<Self>, String> {
        let wanted = std::env::var("QUORATE_LOG").unwrap_or_default();
        let usual = if wanted.is_empty() { "info".to_owned() } else { wanted };
        let filter = EnvFilter::try_new(&usual).map_err(|why| {
            format!(
                "the environment variable QUORATE_LOG is \"{usual}\", which is no filter ({why}): use error, warn, info, debug or \
                 trace"
            )
        })?;
        let log =
            tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
        let (set, started): (Box<dyn Fn(EnvFilter) -> bool + Send>, _) = match format {
            LogFormat::Text => {
                let log = log.with_target(false).with_filter_reloading();
                let handle = log.reload_handle();
                (Box::new(move |filter| handle.reload(filter).is_ok()), log.try_init())
            }
            LogFormat::Json => {
                let log = log.json().with_filter_reloading();
                let handle = log.reload_handle();
                (Box::new(move |filter| handle.reload(filter).is_ok()), log.try_init())
            }
        };
        Ok(started.is_ok().then_some(Self { usual, louder: 0, set }))
    }

    /// The next level: `debug`, then `trace`.
    pub fn raise(&mut self) {
        self.louder = (self.louder + 1).min(LOUDER.len());
        let (name, filter) = LOUDER[self.louder - 1];
        if self.put(filter) {
            tracing::info!("the log level is {name} now; SIGUSR2 makes it as it was");
        }
    }

    /// Goes back to the filter from the start.
    pub fn restore(&mut self) {
        if self.louder > 0 {
            tracing::info!("the log level is as at the start again: {}", self.usual);
            self.louder = 0;
            self.put(&self.usual);
        }
    }

    fn put(&self, filter: &str) -> bool {
        EnvFilter::try_new(filter).is_ok_and(|filter| (self.set)(filter))
    }
}
