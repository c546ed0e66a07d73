//! The etcd part of `serve`: the service, and the front that speaks etcd's protocol; and `quorate etcd`.

mod export;
mod import;

use quorate_command::failure::{Failure, Outcome};
use quorate_etcd::moving::Counts;
use quorate_etcd::{Etcd, EtcdConfig};
use quorate_etcd_grpc::{EtcdSettings, Front, FrontConfig, Hub, TokenConfig, TokenSettings};
use quorate_execute::{InStore, Service};
use quorate_kit::settings::SettingsError;
use quorate_kit::{Lies, Member, Needs, Running};
use quorate_lab::lies::{How, Told};
use quorate_runtime::Config;
use quorate_types::Span;
use serde_json::{Value, json};
use std::path::Path;
use toml::Table;

/// The name of the front in the configuration.
pub(crate) const FRONT: &str = "etcd";
/// The largest frame of the front: a request of etcd's largest size, and what stands around it.
const FRAME_BYTES_MAX: u32 = 3 << 20;
/// After how long clients of etcd learn that the disks are full. If only the leader's disk is full, it has handed over by then.
const FULL_PATIENCE: Span = Span::from_millis(500);

/// Move an etcd's keys into a cluster, and out again.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Import(import::Args),
    Export(export::Args),
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.action {
        Action::Import(args) => import::run(args),
        Action::Export(args) => export::run(&args),
    }
}

/// What was moved, for programs.
fn counts(counts: &Counts) -> Value {
    json!({
        "revision": counts.revision,
        "compacted": counts.compacted,
        "keys": counts.keys,
        "entries": counts.entries,
        "leases": counts.leases,
        "users": counts.users,
        "roles": counts.roles,
        "authentication": counts.is_guarded,
    })
}

/// What was moved, for people.
fn lines(counts: &Counts) -> String {
    let Counts { keys, entries, leases, users, roles, revision, compacted, is_guarded } = counts;
    let past = if *compacted > 0 { format!("compacted at {compacted}") } else { "not compacted".to_owned() };
    let on = if *is_guarded { "on" } else { "off" };
    format!(
        "  revision      {revision}, {past}\n  keys          {keys}, with {entries} entries\n  leases        {leases}\n  \
         users, roles  {users}, {roles}; authentication is {on}\n"
    )
}

/// What to know of it, for people.
fn noted(notes: &[String]) -> String {
    notes.iter().map(|note| format!("Note: {note}\n")).collect()
}

/// The store; it tells the hub what it executes.
pub(crate) fn service(hub: &Hub) -> Box<dyn Service> {
    Box::new(InStore::new(Etcd::new(EtcdConfig::default()).observed(hub.clone())))
}

/// The settings of the front, if the configuration has one. `place` is the directory of the configuration.
///
/// # Errors
/// Names the wrong key, and what would be right.
pub(crate) fn settings(config: &Config, place: &Path) -> Result<Option<EtcdSettings>, SettingsError> {
    let Some(table) = config.front.get(FRONT) else { return Ok(None) };
    let name = &config.service.name;
    if name != "etcd" {
        let why = format!(
            "write name = \"etcd\" in [service], too: the service \"{name}\" can not serve clients of etcd"
        );
        return Err(SettingsError::new("front.etcd", why));
    }
    EtcdSettings::read(table, place).map(Some)
}

/// Makes the path of the tokens' key absolute: it is shared by all members, and a configuration in another directory must find it.
pub(crate) fn take_along(table: &mut Table, place: &Path) {
    let key = table.get_mut("tokens").and_then(|tokens| tokens.get_mut("key"));
    if let Some(key) = key
        && let Some(path) = key.as_str().map(|path| place.join(path))
    {
        *key = path.display().to_string().into();
    }
}

/// Starts the front with these settings.
///
/// # Errors
/// When it can not listen.
pub(crate) fn front(
    settings: EtcdSettings,
    config: &Config,
    replica: &quorate_runtime::Running,
    hub: Hub,
    lies: Option<Told>,
) -> Outcome<Running> {
    let tokens = settings.tokens.as_ref().map(tokens).transpose()?;
    let needs = Needs {
        front: FRONT,
        frame_bytes_max: FRAME_BYTES_MAX,
        full_patience: Some(FULL_PATIENCE),
        in_order: false,
    };
    let member = Member::of(config, replica, needs).map_err(|why| Failure::new(why.to_string()))?;
    let lies = lies.map(|told| Box::new(move || told.is(How::Replies)) as Lies);
    let member = Member { lies, ..member };
    let upkeep = settings.upkeep();
    let announce = config.front_addresses().remove(FRONT).filter(|reached| !reached.ends_with(":0"));
    let front = FrontConfig { listen: settings.listen, announce, member, hub, tokens, upkeep };
    Front::start(front).map_err(|why| Failure::new(why.to_string()))
}

/// How members sign tokens, with the key read from its file.
fn tokens(settings: &TokenSettings) -> Outcome<TokenConfig> {
    let key = settings.read_key().map_err(|why| Failure::usage(why.to_string()))?;
    let ttl = std::time::Duration::from_secs(settings.ttl_s);
    Ok(TokenConfig { method: settings.sign_method.clone(), key, ttl })
}
