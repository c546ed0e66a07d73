//! The log of `serve`, and how much it says: first as the environment says, later as signals say.

use clap::ValueEnum;
use quorate_command::failure::{Failure, Outcome};
use tracing_subscriber::EnvFilter;

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON document a line, for programs
    Json,
}

/// The filter for each louder level, added to the one from the start. Libraries stay at `info`, since their details help little.
const LOUDER: [(&str, &str); 2] = [("debug", "info,quorate=debug"), ("trace", "trace")];

/// Changes how much is logged.
pub(crate) struct Levels {
    /// The filter from the start.
    usual: String,
    louder: usize,
    set: Box<dyn Fn(EnvFilter) -> bool + Send>,
}

impl Levels {
    /// Starts logging to standard error with the filter in the variable QUORATE_LOG.
    ///
    /// # Errors
    /// When the filter can not be parsed.
    pub(crate) fn start(format: LogFormat) -> Outcome<Self> {
        let wanted = std::env::var("QUORATE_LOG").unwrap_or_default();
        let usual = if wanted.is_empty() { "info".to_owned() } else { wanted };
        let filter = EnvFilter::try_new(&usual).map_err(|why| {
            Failure::usage(format!(
                "the environment variable QUORATE_LOG is \"{usual}\", which is no filter ({why}): use error, warn, info, debug or \
                 trace"
            ))
        })?;
        let log =
            tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
        let set: Box<dyn Fn(EnvFilter) -> bool + Send> = match format {
            LogFormat::Text => {
                let log = log.with_target(false).with_filter_reloading();
                let handle = log.reload_handle();
                log.init();
                Box::new(move |filter| handle.reload(filter).is_ok())
            }
            LogFormat::Json => {
                let log = log.json().with_filter_reloading();
                let handle = log.reload_handle();
                log.init();
                Box::new(move |filter| handle.reload(filter).is_ok())
            }
        };
        Ok(Self { usual, louder: 0, set })
    }

    /// The next level: `debug`, then `trace`.
    pub(crate) fn raise(&mut self) {
        self.louder = (self.louder + 1).min(LOUDER.len());
        let (name, filter) = LOUDER[self.louder - 1];
        if self.put(filter) {
            tracing::info!("the log level is {name} now; SIGUSR2 makes it as it was");
        }
    }

    /// Goes back to the filter from the start.
    pub(crate) fn restore(&mut self) {
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
