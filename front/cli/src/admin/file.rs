//! The file of a command, on its way between those who sign it.

use crate::kv::{hex, unhex};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_types::ClusterId;
use quorate_wire::{AdminCommand, Member, MemberRole, Memberships, REASON_BYTES_MAX, SignedCommand};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::Path;

const HEAD: &str = "# A command of administrators for a Quorate cluster. `quorate admin show FILE` says what it does and who signed it,\n\
                    # `quorate admin sign` adds a signature, `quorate admin submit` hands it to the cluster.\n";

/// A command, and the cluster that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandFile {
    pub(super) cluster: ClusterId,
    pub(super) signed: SignedCommand,
    /// Why it is wanted, for those who sign and for audit logs; empty: nobody said. It is not signed.
    pub(super) reason: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    cluster: String,
    command: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
}

impl CommandFile {
    /// Reads a file.
    ///
    /// # Errors
    /// When it can not be read or holds no command.
    pub(super) fn read(file: &Path) -> Outcome<Self> {
        let text = std::fs::read_to_string(file).doing(format_args!("read {}", file.display()))?;
        Self::parse(&text).ok_or_else(|| {
            Failure::usage(format!(
                "{} holds no command of administrators: `quorate member ... --sign-later FILE` writes one",
                file.display()
            ))
        })
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let Text { cluster, command, reason } = toml::from_str(text).ok()?;
        let signed = SignedCommand::decode(unhex(command.as_bytes())?.into()).ok()?;
        if reason.len() > REASON_BYTES_MAX || reason.contains(char::is_control) {
            return None;
        }
        Some(Self { cluster: ClusterId::parse(&cluster)?, signed, reason })
    }

    pub(super) fn to_toml(&self) -> String {
        let (cluster, command) = (self.cluster.to_string(), hex(&self.signed.encode()));
        let text = Text { cluster, command, reason: self.reason.clone() };
        format!("{HEAD}{}", toml::to_string(&text).unwrap_or_default())
    }

    /// Writes it, whole or not at all.
    pub(super) fn write(&self, file: &Path) -> Outcome<()> {
        let beside = file.with_extension("new");
        std::fs::write(&beside, self.to_toml()).doing(format_args!("write {}", beside.display()))?;
        std::fs::rename(&beside, file).doing(format_args!("write {}", file.display()))
    }

    /// What it does, and who signed it.
    pub(super) fn text(&self) -> String {
        let mut text =
            format!("command {} of administrators for the cluster {}\n", self.signed.number, self.cluster);
        match &self.signed.command {
            AdminCommand::Change(change) => changes(change, &mut text),
            AdminCommand::Raise(level) => {
                let _ = writeln!(text, "  the feature level becomes {level}");
            }
            AdminCommand::RaiseService(level) => {
                let _ = writeln!(text, "  the service is at version {level} from then on");
            }
            AdminCommand::Neighbour(command) => {
                let _ = writeln!(text, "  {command}");
            }
            AdminCommand::Era(era) => {
                let (number, model) = (era.number, era.faults.model);
                let _ = writeln!(
                    text,
                    "  era {} ends, and era {number} begins: {model} faults, with these members",
                    number - 1
                );
                for member in era.members.members() {
                    let _ = writeln!(text, "    {} at {}", member.replica, member.address);
                }
            }
            AdminCommand::Administrators(administrators) => {
                let (threshold, keys) = (administrators.threshold(), administrators.keys());
                let _ =
                    writeln!(text, "  from then on {threshold} of {} administrators must sign:", keys.len());
                for key in keys {
                    let _ = writeln!(text, "    {}", hex(key.bytes()));
                }
            }
        }
        if !self.reason.is_empty() {
            let _ = writeln!(text, "  why, as who wrote this file says: {}", self.reason);
        }
        let signatures = self.signed.signatures();
        if signatures.is_empty() {
            text.push_str("nobody signed it yet");
        } else {
            text.push_str("signed with");
            for (key, _) in signatures {
                let _ = write!(text, "\n  {}", hex(key.bytes()));
            }
        }
        text
    }
}

/// What changes from one membership to the next.
fn changes(change: &Memberships, text: &mut String) {
    let Some(before) = change.before() else { return };
    let role = |member: &Member| if member.role == MemberRole::Voter { "votes" } else { "learns" };
    let _ = writeln!(text, "  from membership {} to {}", before.number(), change.now().number());
    for member in change.now().members() {
        let id = member.replica;
        let _ = match before.get(id) {
            None => writeln!(text, "  {id} at {} joins and {}", member.address, role(member)),
            Some(was) if was.role != member.role => writeln!(text, "  {id} {} from then on", role(member)),
            Some(was) if was.address != member.address => {
                writeln!(text, "  {id} moves to {}", member.address)
            }
            Some(was) if was.key != member.key => {
                let key = member.key.map_or_else(|| "none".to_owned(), |key| hex(&key));
                writeln!(text, "  {id} signs with another key from then on: {key}")
            }
            Some(_) => Ok(()),
        };
    }
    for gone in before.members().iter().filter(|member| change.now().get(member.replica).is_none()) {
        let _ = writeln!(text, "  {} leaves", gone.replica);
    }
}
