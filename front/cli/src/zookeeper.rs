//! The ZooKeeper part of `serve`: the service, and the front that speaks ZooKeeper's protocol; and `quorate zookeeper`.

mod import;

use quorate_command::failure::{Failure, Outcome};
use quorate_execute::{InStore, Parallel, Service};
use quorate_kit::settings::{self, SettingsError};
use quorate_kit::{Member, Needs, Running};
use quorate_runtime::Config;
use quorate_types::Span;
use quorate_zookeeper::feed::Feed;
use quorate_zookeeper::service::ZooKeeper;
use quorate_zookeeper::tree::Rules;
use quorate_zookeeper_tcp::{Front, FrontConfig, ZooKeeperSettings};
use serde::{Deserialize, Serialize};
use toml::Table;

/// The name of the service, and of the front in the configuration.
pub(crate) const FRONT: &str = "zookeeper";
/// The largest frame of the front: the longest request of a client, and what stands around it.
const FRAME_BYTES_MAX: u32 = 3 << 20;

/// The settings of the service: what all replicas must have alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// ZooKeeper's unit of time, in milliseconds.
    tick_ms: u64,
    /// How long a container lives on after its last child, in milliseconds.
    container_empty_ms: u64,
    /// Whether hard quotas refuse writes.
    enforce_quotas: bool,
    /// Whether `/zookeeper/config` shows the members.
    show_members: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let Rules { tick, empty_for, enforce_quotas, show_members } = Rules::default();
        let (tick_ms, container_empty_ms) = (tick.millis(), empty_for.millis());
        Self { tick_ms, container_empty_ms, enforce_quotas, show_members }
    }
}

impl Settings {
    /// Reads `[service]`.
    ///
    /// # Errors
    /// Names the wrong key, and what would be right.
    pub(crate) fn read(at: &str, table: &Table) -> Result<Self, SettingsError> {
        let read: Self = settings::read(at, table)?;
        settings::range(at, "tick_ms", read.tick_ms, (20..=600_000, "600000, which is ten minutes"))?;
        let empty = (1..=86_400_000, "86400000, which is a day");
        settings::range(at, "container_empty_ms", read.container_empty_ms, empty)?;
        Ok(read)
    }

    /// What all replicas must have alike.
    fn rules(self) -> Rules {
        let (tick, empty_for) = (Span::from_millis(self.tick_ms), Span::from_millis(self.container_empty_ms));
        let Self { enforce_quotas, show_members, .. } = self;
        Rules { tick, empty_for, enforce_quotas, show_members }
    }

    /// The tree; it tells the feed what it executes.
    pub(crate) fn service(self, feed: &Feed) -> Box<dyn Service> {
        let service = ZooKeeper::new(self.rules()).told_to(feed.clone());
        Box::new(InStore::new(Parallel::new(service)))
    }
}

/// Move a ZooKeeper's tree into a cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Import(import::Args),
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.action {
        Action::Import(args) => import::run(args),
    }
}

/// The settings of the front, if the configuration has one.
///
/// # Errors
/// Names the wrong key, and what would be right.
pub(crate) fn settings(config: &Config) -> Result<Option<ZooKeeperSettings>, SettingsError> {
    let Some(table) = config.front.get(FRONT) else { return Ok(None) };
    let name = &config.service.name;
    if name != FRONT {
        let why = format!(
            "write name = \"zookeeper\" in [service], too: the service \"{name}\" can not serve clients of ZooKeeper"
        );
        return Err(SettingsError::new("front.zookeeper", why));
    }
    ZooKeeperSettings::read(table).map(Some)
}

/// Starts the front with these settings.
///
/// # Errors
/// When it can not listen.
pub(crate) fn front(
    settings: ZooKeeperSettings,
    config: &Config,
    replica: &quorate_runtime::Running,
    feed: Feed,
) -> Outcome<Running> {
    let needs = Needs { front: FRONT, frame_bytes_max: FRAME_BYTES_MAX, full_patience: None, in_order: true };
    let member = Member::of(config, replica, needs).map_err(|why| Failure::new(why.to_string()))?;
    let service = Settings::read("service", &config.service.settings);
    let tick_ms = service.map_err(|why| Failure::usage(why.to_string()))?.tick_ms;
    let (newest, data) = (replica.newest(), config.data.clone());
    let may_reconfigure = !config.fault_model.may_lie();
    let front = FrontConfig { settings, tick_ms, member, newest, feed, data, may_reconfigure };
    Front::start(front).map_err(|why| Failure::new(why.to_string()))
}
