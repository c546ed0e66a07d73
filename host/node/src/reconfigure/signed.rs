//! Commands of administrators, where replicas may lie: from an operator's connection into the log.
//!
//! An operator hands a signed command to all replicas. Each looks whether it can be carried out now; the leader of the first instance proposes
//! it, and the others watch that it is decided, so that no leader can leave it out. A replica votes for such a batch only if it finds nothing
//! wrong with it itself ([`Plan::may_vouch`]). What nobody can know from the log alone is asked there: whether a learner has caught up, and
//! what the members' programs can do. Execution ([`Reconfigure::executed`]) asks only for what all replicas know alike.
//!
//! The end of a change is no command of administrators: each replica sees by itself whether all instances made the change.
//! Tests: `signed/tests.rs`, check/sim (`--changes true --fault-model byzantine`).

use super::{Look, Out, Plan, Reconfigure, say};
use crate::roster::Signatures;
use crate::status::AdministrationStatus;
use quorate_auth::{PublicKey, RequestChecks, digest_of_request};
use quorate_order::{Feature, Input as OrderInput};
use quorate_types::{Digest, MembershipId, ReplicaId, View, planted};
use quorate_wire::{
    AdminCommand, Member, MemberRequest, Membership, Memberships, SignedCommand, SystemCommand,
};
use std::fmt::Write as _;

/// A command that waits until it is decided.
#[derive(Debug)]
struct Pending {
    signed: SignedCommand,
    /// Its name, under which the protocol watches it.
    name: Digest,
    /// The view in which it was proposed here.
    proposed: Option<View>,
}

/// What waits to be decided and comes from no client.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    command: Option<Pending>,
    /// This change is complete in all instances here; its end is watched.
    complete: Option<MembershipId>,
}

fn name_of(command: &SystemCommand) -> Digest {
    digest_of_request(&command.request())
}

/// How signatures of administrators are checked here.
fn signatures<'a>(look: &Look<'a>) -> Signatures<'a> {
    Signatures {
        cluster: look.config.members.cluster(),
        checks: look.config.order.request_checks(),
        made_with: look.config.administrators.as_ref(),
    }
}

/// Inputs.
impl Reconfigure {
    /// An operator, or another member, hands a command over. Gives the answer, one line.
    pub(crate) fn submitted(&mut self, look: &Look<'_>, signed: SignedCommand, out: &mut Vec<Out>) -> String {
        let administration = self.roster.administration();
        if let Some((_, result)) = administration.results().find(|(number, _)| *number == signed.number) {
            return format!("error: command {} was executed before: {result}", signed.number);
        }
        let checked = administration.check(&signed, &signatures(look));
        if let Err(why) = checked.and_then(|()| Plan::new(self, look).may_begin(&signed.command)) {
            return format!("error: {why}");
        }
        let number = signed.number;
        self.forget_executed(out);
        // What waits stays, and is watched from when it came: a liar that knows another form of it, with other signatures, or another command of
        // this number, must not be able to begin the wait anew again and again.
        if let Some(pending) = &self.waiting.command
            && Plan::new(self, look).may_begin(&pending.signed.command).is_ok()
        {
            let same = pending.signed.command == signed.command;
            return if same {
                format!("begun {number}")
            } else {
                format!("error: another command {number} waits")
            };
        }
        let name = name_of(&SystemCommand::Signed(signed.clone()));
        if let Some(before) = self.waiting.command.replace(Pending { signed, name, proposed: None }) {
            out.push(Out::First(OrderInput::Unwatch(before.name)));
        }
        out.push(Out::First(OrderInput::Watch(name)));
        format!("begun {number}")
    }

    /// The protocol says that the leader had time enough for this: all members are told, since the leader may never have heard of it.
    pub(crate) fn overdue(&self, name: Digest, out: &mut Vec<Out>) {
        let overdue = self.waiting.command.as_ref().filter(|pending| pending.name == name);
        out.extend(overdue.map(|pending| Out::Spread(pending.signed.clone())));
    }

    /// Forgets what waits if it was executed, also where a checkpoint says so.
    fn forget_executed(&mut self, out: &mut Vec<Out>) {
        let executed = self.roster.administration().executed();
        if let Some(over) = self.waiting.command.take_if(|pending| pending.signed.number <= executed) {
            out.push(Out::First(OrderInput::Unwatch(over.name)));
        }
    }

    /// Proposes at the end of a turn what waits, if the first instance leads here.
    pub(super) fn propose_signed(&mut self, look: &Look<'_>, out: &mut Vec<Out>) {
        if self.waiting.command.is_none() {
            return;
        }
        self.forget_executed(out);
        let Some(pending) = &self.waiting.command else { return };
        let (view, plan) = (look.view(), Plan::new(self, look));
        let again = pending.proposed == Some(view);
        if again || plan.may_command().is_err() || plan.may_begin(&pending.signed.command).is_err() {
            return;
        }
        let command = SystemCommand::Signed(pending.signed.clone());
        if let Some(pending) = &mut self.waiting.command {
            pending.proposed = Some(view);
        }
        out.push(Out::Propose(command));
    }

    /// A change is complete in all instances here, and results are final up to where the others voted: this replica votes for its end, and no
    /// leader may leave that out.
    pub(super) fn watch_end(&mut self, number: MembershipId, out: &mut Vec<Out>) {
        if self.waiting.complete != Some(number) {
            self.waiting.complete = Some(number);
            out.push(Out::First(OrderInput::Watch(name_of(&SystemCommand::Changed(number)))));
        }
    }

    /// A signed command was decided. All replicas give the same answer.
    pub(super) fn execute_signed(&mut self, look: &Look<'_>, signed: SignedCommand, out: &mut Vec<Out>) {
        if let Err(why) = self.roster.administration().check(&signed, &signatures(look)) {
            return out.push(say(format!("a command of administrators was refused: {why}")));
        }
        let (number, done) = (signed.number, self.carry_out_signed(look, signed.command, out));
        let result = match done {
            Ok(done) => done,
            Err(why) => format!("refused: {why}"),
        };
        out.push(say(format!("command {number} of administrators: {result}")));
        self.roster.administration_mut().execute(number, result);
        self.forget_executed(out);
    }

    fn carry_out_signed(
        &mut self,
        look: &Look<'_>,
        command: AdminCommand,
        out: &mut Vec<Out>,
    ) -> Result<String, String> {
        let checks = look.config.order.request_checks();
        match command {
            AdminCommand::Change(change) => {
                is_lawful(&change, checks)?;
                let number = change.now().number();
                self.begin_change(look, change, out)?;
                Ok(format!("the change to {number} begins"))
            }
            AdminCommand::Raise(level) => {
                let now = look.config.level.cluster;
                if level <= now {
                    return Err(format!("the cluster works at feature level {now} already"));
                }
                self.raised(look, level, out);
                Ok(format!("the cluster works at feature level {level}"))
            }
            AdminCommand::RaiseService(level) => {
                self.service_raised(look, level, out);
                Ok(format!("the service is to be at version {level}"))
            }
            AdminCommand::Administrators(administrators) => {
                are_keys(administrators.keys().iter().map(|key| *key.bytes()), checks)?;
                let text = format!(
                    "{} administrators, of whom {} must sign",
                    administrators.keys().len(),
                    administrators.threshold()
                );
                self.roster.administration_mut().replace(administrators);
                Ok(text)
            }
            AdminCommand::Neighbour(command) => {
                let done = command.to_string();
                Self::neighbour_ordered(command, out);
                Ok(done)
            }
            AdminCommand::Era(era) => {
                let number = era.number;
                self.end_era(look, era, out)?;
                Ok(format!("era {} ends, and era {number} begins", number - 1))
            }
        }
    }
}

/// Whether these are keys for which nobody but their holders can sign.
fn are_keys(mut keys: impl Iterator<Item = [u8; 32]>, checks: RequestChecks) -> Result<(), String> {
    match keys.find(|key| checks == RequestChecks::Ed25519 && PublicKey::new(*key).is_err()) {
        Some(_) => Err("one of the public keys is none".into()),
        None => Ok(()),
    }
}

/// Whether a change is one that can be, as all replicas know from its bytes: whoever votes was a member before, and each member has a key of
/// its own. A change gives at most one member another key, and does nothing else: should the member lack the new key, that is one fault, and
/// no more. Which keys are new is the roster's to say.
fn is_lawful(change: &Memberships, checks: RequestChecks) -> Result<(), String> {
    let Some(before) = change.before() else { return Err("it does not say what it changes".into()) };
    let now = change.now();
    if let Some(new) = now.voters().find(|id| before.get(*id).is_none() && !planted("votes-at-once")) {
        return Err(format!("{new} can not vote before it was a learner"));
    }
    has_lawful_keys(before, now)?;
    if checks != RequestChecks::Ed25519 {
        return Ok(());
    }
    let lacks = |member: &&Member| member.key.is_none();
    if let Some(member) = now.members().iter().find(lacks) {
        return Err(format!("{} has no public key", member.replica));
    }
    are_keys(now.members().iter().filter_map(|member| member.key), checks)
}

fn has_lawful_keys(before: &Membership, now: &Membership) -> Result<(), String> {
    let mut keys: Vec<[u8; 32]> = now.members().iter().filter_map(|member| member.key).collect();
    keys.sort_unstable();
    if !keys.is_sorted_by(|one, next| one < next) {
        return Err("two members have the same public key".into());
    }
    let was = |member: &Member| before.get(member.replica).and_then(|was| was.key);
    let rekeyed =
        now.members().iter().filter(|member| was(member).is_some_and(|key| member.key != Some(key)));
    let rekeyed: Vec<ReplicaId> = rekeyed.map(|member| member.replica).collect();
    let [one] = rekeyed[..] else {
        return match rekeyed.is_empty() {
            true => Ok(()),
            false => Err("one change gives one member another key: make a change for each".into()),
        };
    };
    let mut but_for_it = before.members().to_vec();
    for member in &mut but_for_it {
        if let Some(now) = now.get(member.replica) {
            member.life = now.life;
            member.key = if member.replica == one { now.key } else { member.key };
        }
    }
    if but_for_it == now.members() {
        return Ok(());
    }
    Err(format!("{one} gets another key, and something else changes, too: make a change for each"))
}

/// Bytes in hexadecimal digits.
pub(super) fn hex(bytes: impl AsRef<[u8]>) -> String {
    let mut text = String::new();
    for byte in bytes.as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// What is checked before a command is ordered.
impl Plan<'_> {
    /// Whether a command of administrators can be carried out, as far as this replica knows.
    pub(super) fn may_begin(&self, command: &AdminCommand) -> Result<(), String> {
        let checks = self.look.config.order.request_checks();
        match command {
            AdminCommand::Change(change) => {
                self.can(Feature::ChangeMembers)?;
                is_lawful(change, checks)?;
                self.of.roster.check(change)?;
                self.may_change(change)
            }
            AdminCommand::Raise(level) => self.is_possible(*level),
            AdminCommand::RaiseService(level) => self.service_may_reach(*level),
            AdminCommand::Administrators(administrators) => {
                are_keys(administrators.keys().iter().map(|key| *key.bytes()), checks)
            }
            AdminCommand::Neighbour(command) => self.may_neighbour(command),
            AdminCommand::Era(era) => {
                are_keys(era.members.members().iter().filter_map(|member| member.key), checks)?;
                self.may_begin_era(era)
            }
        }
    }

    fn may_change(&self, change: &Memberships) -> Result<(), String> {
        if self.look.engine.merge().next_generation().is_some() {
            return Err("the number of instances is changing".into());
        }
        if !self.look.config.order.faults.fit(change.now().voters().count() as u32) {
            return Err("so few voters do not survive what the cluster was made for".into());
        }
        let Some(before) = change.before() else { return Err("it does not say what it changes".into()) };
        let members = &self.look.config.members;
        // Who joins later has another list, and learns of the founders from the log.
        if self.of.roster.current().is_none() && members.number() == MembershipId::FIRST {
            let founders = members.all().iter().map(|known| known.replica);
            if !before.voters().eq(founders) || before.members().len() != members.all().len() {
                return Err("these are not the members with which the cluster was made".into());
            }
            let keys = &self.look.config.order.keys;
            if before.members().iter().any(|member| member.key != keys.public_of(member.replica)) {
                return Err("these are not the keys with which the cluster was made".into());
            }
        }
        let caught_up = self.of.caught_up(self.look);
        let is_there = |id| id == self.look.me() || before.is_voter(id) || caught_up.contains(&id);
        match change.now().voters().find(|id| !is_there(*id)).filter(|_| !planted("counts-at-once")) {
            Some(late) => Err(format!(
                "{late} has not caught up yet, as far as this replica knows: wait, and see that it runs"
            )),
            None => Ok(()),
        }
    }

    /// Whether this replica votes for a batch with this command to the engine.
    pub(crate) fn may_vouch(&self, command: &SystemCommand) -> bool {
        match command {
            SystemCommand::Signed(signed) => {
                let checked = self.of.roster.administration().check(signed, &signatures(self.look));
                checked.and_then(|()| self.may_begin(&signed.command)).is_ok()
            }
            SystemCommand::Changed(number) => {
                let changes = self.of.roster.change().map(|change| change.now().number()) == Some(*number);
                changes && (self.of.waiting.complete == Some(*number) || planted("ends-at-once"))
            }
            _ => false,
        }
    }

    /// Who administers the cluster, and what they commanded; nothing where no administrators are needed.
    pub(super) fn administration_status(&self) -> Option<AdministrationStatus> {
        let administration = self.of.roster.administration();
        let administrators = administration.administrators(self.look.config.administrators.as_ref())?;
        Some(AdministrationStatus {
            executed: administration.executed(),
            threshold: administrators.threshold(),
            keys: administrators.keys().iter().map(|key| hex(key.bytes())).collect(),
            results: administration.results().map(|(number, text)| (number, text.to_owned())).collect(),
        })
    }

    /// What a change would be, and the number of the command that administrators sign next.
    pub(crate) fn drafted(&self, request: &MemberRequest) -> Result<(u64, Memberships), String> {
        let change = self.planned(request)?;
        self.may_begin(&AdminCommand::Change(change.clone()))?;
        Ok((self.of.roster.administration().executed() + 1, change))
    }

    /// The answer to an operator who asks what a change would be, for administrators to sign: the number of the command, and the memberships
    /// in hexadecimal digits.
    pub(super) fn draft(&self, request: &MemberRequest) -> Result<String, String> {
        let (number, change) = self.drafted(request)?;
        Ok(format!("plan {number} {}", hex(change.encode())))
    }
}

#[cfg(test)]
mod tests;
