//! The fronts of this program: `[front.NAME]`, which the runtime does not interpret, and what leads from the service to them.

use crate::{etcd, zookeeper};
use quorate_command::failure::Outcome;
use quorate_etcd_grpc::{EtcdSettings, Hub};
use quorate_kit::Running;
use quorate_kit::settings::SettingsError;
use quorate_lab::lies::Told;
use quorate_runtime::Config;
use quorate_zookeeper::feed::Feed;
use quorate_zookeeper_tcp::ZooKeeperSettings;
use std::path::Path;

/// What the service tells its front.
#[derive(Clone, Default)]
pub(crate) struct Ways {
    /// To clients of etcd.
    pub(crate) etcd: Hub,
    /// To clients of ZooKeeper.
    pub(crate) zookeeper: Feed,
}

/// The settings of the fronts that a configuration has.
pub(crate) struct Fronts {
    etcd: Option<EtcdSettings>,
    zookeeper: Option<ZooKeeperSettings>,
}

impl Fronts {
    /// Reads them. `place` is the directory of the configuration.
    ///
    /// # Errors
    /// Names the wrong key, and what would be right.
    pub(crate) fn read(config: &Config, place: &Path) -> Result<Self, SettingsError> {
        let known = [etcd::FRONT, zookeeper::FRONT];
        if let Some(other) = config.front.keys().find(|name| !known.contains(&name.as_str())) {
            let why = format!("there is no \"{other}\"; this program has \"etcd\" and \"zookeeper\"");
            return Err(SettingsError::new("front", why));
        }
        Ok(Self { etcd: etcd::settings(config, place)?, zookeeper: zookeeper::settings(config)? })
    }

    /// Starts them.
    ///
    /// # Errors
    /// When one can not listen.
    pub(crate) fn start(
        self,
        config: &Config,
        replica: &quorate_runtime::Running,
        ways: Ways,
        lies: Option<Told>,
    ) -> Outcome<Vec<Running>> {
        let etcd = self.etcd.map(|settings| etcd::front(settings, config, replica, ways.etcd, lies));
        let zookeeper =
            self.zookeeper.map(|settings| zookeeper::front(settings, config, replica, ways.zookeeper));
        etcd.into_iter().chain(zookeeper).collect()
    }
}
