//! The harness for Raft, and for Mod-SMaRt. What it prints is described in scripts/raft/README.md, scripts/mod_smart/README.md and
//! scripts/visigoth/README.md; `show` makes it.
//!
//! Commands (`R` is a replica, `R->S` a link):
//!
//! - `cluster n=3 [voters=] [seed=] [autosync=off] [window=] [message=] [cache=] [reload=off] [lease=10] [quiet]`: a new cluster, all
//!   connected. With `voters` only the first ones are members; with `lease` leaders may have leases, and clocks differ by up to so
//!   many percent.
//! - `cluster n=4 protocol=mod-smart [faults=crash] [seed=] [autosync=off] [cache=]`: the same for Mod-SMaRt, with Byzantine faults unless it
//!   says otherwise. With `faults=visigoth u=2 s=1 o=0 t=20` few members are slow, for longer than 20 ms, and there is an oracle, unless
//!   `oracle=off` says that there is none.
//! - `oracle on|off|late`: it answers at once; it can not be reached; it does at once what it is asked, and its answers are under way until
//!   `tell R [again]`, which brings R the oldest one; `again`: a copy of it is still under way. `register`: what the oracle holds.
//! - `claim R set=r1,r2,r3 view=2 [signed=r1] [decided=4]`: R makes up a claim, or what shows it: who of the set said that it misses the others,
//!   and that all accepted something in view 4.
//! - `members R voters=r1,r2 [learners=r3]`: R executed a command that asks for this membership.
//! - `elect R`: R's deadline comes, messages flow until it leads and all know; prints outcomes only.
//! - `expire R [quiet]`: R's deadline comes. `wait 50ms [still] [quiet]`: time passes for all; messages arrive at once, with
//!   `still` not at all.
//! - `deliver R->S [n]`, `deliver all`: the first message(s) on a link; everything that is under way, but not what follows
//!   from it. `run [quiet]`: everything, until nothing is under way. `flying`: what is under way.
//! - `drop R->S [n]`, `duplicate R->S`: the first message(s) are lost; a copy of the first goes to the end of the link.
//! - `cut R`, `cut R->S`, `cut R,S T,U` (all links between the two sides), `heal`: messages are lost silently. `disconnect R S`, `connect R S`: both notice.
//! - `crash R`, `restart R`: what is not durable is gone; nobody is told until the restart connects it.
//! - `autosync on|off [R]`, `sync R [up to record]`: when what is written becomes durable. `autoload on|off`, `load R`:
//!   when reads from the log are answered.
//! - `hold R`, `vouch R`: R's host can not tell whether clients sent what is proposed; it can, also of what it was asked before.
//! - `waits 400ms`: what is proposed has waited for this long at every replica when it arrives there.
//! - `checkpoint R [slot]`: a durable checkpoint of the last slot that R decided, or of an earlier one. `trim R [slot]`: the
//!   log forgets what R's newest checkpoint, or this one, holds, and the records that are not needed are deleted. `fetch R S`:
//!   S's newest checkpoint becomes R's only one. `install R [S]`: the same, and R's service goes on from it; without S from
//!   R's own newest. `discard R slot`: R's checkpoints after this slot are gone.
//! - `propose R "a" "b"` (or `size=` bytes each), `propose R noop=4`: a no-op up to slot 4. `read R number`, `transfer R [S]`.
//! - `status`, `log R`: print. `forge R->S Message key=value`: a message that R never sent.
//!
//! `quiet` prints only what a user of the protocol sees: decisions, leaders, reads, refusals; and what the oracle is asked, and says.

mod forge;
mod record;
pub(crate) mod show;

pub use record::check_send;

use crate::mod_smart;
use crate::world::{Asked, Event, World};
use crate::{Command, Harness};
use quorate_auth::{Keyed, Keys};
use quorate_order::OrderMessage;
use quorate_order::visigoth::{OracleRequest, Wish};
use quorate_order::{Input, Order, OrderConfig, Protocol};
use quorate_types::{
    AgreedTime, FaultModel, Faults, ItemsBuilder, MembershipId, RecordId, ReplicaId, RequestNumber,
    SessionId, Slot, Span, Visigoth,
};
use quorate_wire::{Batch, BatchHeader, Member, Membership, Memberships, write_request};
use std::sync::Arc;

/// Runs the commands of a script; nothing exists before `cluster`.
#[derive(Default)]
pub struct Cluster {
    world: Option<World>,
    requests: u64,
    protocol: Protocol,
}

/// The numbers of a cluster in which few members are slow.
fn numbers(command: &Command) -> Result<Visigoth, String> {
    let number = |key| {
        let number = command.number(key)?.unwrap_or(0);
        u32::try_from(number).map_err(|_| format!("{key} is too much"))
    };
    let numbers = Visigoth { u: number("u")?, s: number("s")?, o: number("o")?, t_ms: number("t")? };
    numbers.check().map(|()| numbers).map_err(|why| why.to_string())
}

/// A batch with one request, which holds one command.
pub fn batch(number: u64, command: &[u8]) -> Batch {
    let mut commands = ItemsBuilder::new();
    commands.push(command);
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    let number = RequestNumber::new(number);
    write_request(&mut bytes, SessionId { index: 1, generation: 1 }, number, number, &commands);
    Batch::seal(
        bytes,
        BatchHeader { time: AgreedTime::ZERO, seed: 0, count: 1, border: false, base: None, ruling: None },
    )
}

fn replica(name: &str, world: &World) -> Result<ReplicaId, String> {
    let id = name.strip_prefix('r').and_then(|number| number.parse().ok()).map(ReplicaId::new);
    id.filter(|id| world.members().contains(id)).ok_or_else(|| format!("{name} is no replica"))
}

fn link(name: &str, world: &World) -> Result<(ReplicaId, ReplicaId), String> {
    let (from, to) = name.split_once("->").ok_or_else(|| format!("{name} is no link, like r1->r2"))?;
    Ok((replica(from, world)?, replica(to, world)?))
}

fn on_off(word: &str) -> Result<bool, String> {
    match word {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{word} is neither on nor off")),
    }
}

fn span(text: &str) -> Result<Span, String> {
    let millis = |digits: &str| digits.parse::<u64>().map_err(|_| format!("{text} is no time"));
    match text.strip_suffix("ms") {
        Some(digits) => Ok(Span::from_millis(millis(digits)?)),
        None => Ok(Span::from_millis(millis(text.strip_suffix('s').unwrap_or(text))?.saturating_mul(1000))),
    }
}

fn flags(words: &[String], known: &[&str]) -> Result<(), String> {
    match words.iter().find(|word| !known.contains(&word.as_str())) {
        Some(word) => Err(format!("{word} means nothing here")),
        None => Ok(()),
    }
}

/// A cluster of the protocol that the command names; Raft if it names none. The table of protocols says which options each knows.
fn new_world(command: &Command, protocol: Protocol) -> Result<World, String> {
    let able = protocol.able();
    let mut known = vec!["n", "voters", "protocol", "seed", "autosync", "cache"];
    known.extend(["faults", "u", "s", "o", "t", "oracle"].iter().filter(|_| able.lies));
    known.extend(able.leases.then_some("lease"));
    known.extend(["window", "message", "reload"].iter().filter(|_| able.pipelined));
    command.only_options(&known)?;
    let n = command.number("n")?.ok_or("how many? n=3")?;
    let n = u16::try_from(n).ok().filter(|n| (1..=9).contains(n)).ok_or("n is 1 to 9")?;
    let voters = voters(command, n)?;
    let option = |key| command.options.get(key).map_or(Ok(true), |word| on_off(word));
    let usual = if able.lies { "byzantine" } else { "crash" };
    let model = match command.options.get("faults").map_or(usual, String::as_str) {
        "byzantine" => FaultModel::Byzantine,
        "crash" => FaultModel::Crash,
        "visigoth" => FaultModel::Visigoth(numbers(command)?),
        word => return Err(format!("{word} are no faults")),
    };
    let mut config = OrderConfig::new(protocol, ReplicaId::new(1), Vec::new(), 0);
    (config.faults, config.reload, config.oracle) = (model.into(), option("reload")?, option("oracle")?);
    let [window, message, cache] = ["window", "message", "cache"].map(|key| command.number(key));
    let set = |field: &mut usize, value: Option<u64>| *field = value.map_or(*field, |v| v as usize);
    set(&mut config.window_bytes, window?);
    set(&mut config.message_bytes_max, message?);
    set(&mut config.cache_bytes, cache?);
    let lease = command.number("lease")?.map(u8::try_from).transpose();
    config.lease_drift_percent = lease.map_err(|_| "lease is a percentage")?;
    config.cluster = mod_smart::CLUSTER;
    let build = move |me, members: &[ReplicaId], seed| -> Box<dyn Order> {
        let keys =
            if model.may_lie() { Keys::Keyed(Keyed::new(me, mod_smart::KEYS)) } else { Keys::Trusting };
        let own = OrderConfig { me, members: members.to_vec(), seed, keys, ..config.clone() };
        own.build(mod_smart::INSTANCE, 0)
    };
    let seed = command.number("seed")?.unwrap_or(1);
    let mut world = World::with_voters(n, voters, seed, option("autosync")?, Box::new(build));
    if model.few_are_slow() && model.may_lie() {
        let trust = Faults::of(model).among(u32::from(voters));
        world.set_oracle_rule(mod_smart::rule(world.voters().to_vec(), trust));
    }
    world.check_sends(|disk, from, to, message| {
        check_send(disk, from, to, message);
        mod_smart::check_send(disk, from, to, message);
    });
    Ok(world)
}

/// How many replicas the cluster begins with.
fn voters(command: &Command, n: u16) -> Result<u16, String> {
    let voters = command.number("voters")?.unwrap_or(u64::from(n));
    u16::try_from(voters).ok().filter(|v| (1..=n).contains(v)).ok_or_else(|| "voters is 1 to n".into())
}

impl Harness for Cluster {
    fn run(&mut self, command: &Command) -> Result<String, String> {
        if command.name == "cluster" {
            let word = command.options.get("protocol").map_or(Protocol::default().name(), String::as_str);
            self.protocol = Protocol::named(word).ok_or_else(|| format!("{word} is no protocol"))?;
            self.world = Some(new_world(command, self.protocol)?);
        }
        let mut world = self.world.take().ok_or("there is no cluster yet")?;
        let done = self.apply(&mut world, command);
        let mut events = world.take_events();
        let quiet = matches!(command.name.as_str(), "cluster" | "run" | "wait" | "expire")
            && command.args.iter().any(|word| word == "quiet");
        if quiet || command.name == "elect" {
            events.retain(is_outcome);
        }
        let mut output = show::events(&events, self.protocol == Protocol::MOD_SMART);
        output.push_str(&done?);
        self.world = Some(world);
        Ok(output)
    }
}

/// Whether the event is visible to a user of the protocol, or to the oracle: no message and no record.
fn is_outcome(event: &Event) -> bool {
    match event {
        Event::Sent(..)
        | Event::Lost(..)
        | Event::Held(..)
        | Event::Persisted(..)
        | Event::Durable(..)
        | Event::Loading(..)
        | Event::Examining(..)
        | Event::Trimmed(..) => false,
        Event::Decided(..)
        | Event::Leader(..)
        | Event::ReadConfirmed(..)
        | Event::ReadFailed(..)
        | Event::Behind(..)
        | Event::Members(..)
        | Event::Rejected(..)
        | Event::Asks(..)
        | Event::Told(..)
        | Event::Refused(..)
        | Event::Halted(..) => true,
    }
}

impl Cluster {
    /// Carries out a command. Gives the output that it prints beside events.
    fn apply(&mut self, world: &mut World, command: &Command) -> Result<String, String> {
        let args: Vec<&str> = command.args.iter().map(String::as_str).collect();
        if !matches!(command.name.as_str(), "cluster" | "propose" | "forge" | "members" | "claim") {
            command.only_options(&[])?;
        }
        match (command.name.as_str(), args.as_slice()) {
            ("cluster", [] | ["quiet"]) => {}
            ("status", []) => return Ok(show::status(world)),
            ("log", [r]) => return Ok(show::log(world, replica(r, world)?)),
            ("flying", []) => return Ok(show::flying(world)),
            ("propose", [r, commands @ ..]) => self.propose(world, command, r, commands)?,
            ("members", [r]) => {
                let id = replica(r, world)?;
                let change = change(world, id, command)?;
                world.step(id, Input::Membership(Arc::new(change)));
            }
            ("read", [r, number]) => {
                let read = number.parse().map_err(|_| format!("{number} is no number"))?;
                world.step(replica(r, world)?, Input::Read(read));
            }
            ("transfer", [r]) => world.step(replica(r, world)?, Input::Transfer(None)),
            ("transfer", [r, to]) => {
                let to = replica(to, world)?;
                world.step(replica(r, world)?, Input::Transfer(Some(to)));
            }
            ("forge", [ends, name, ..]) => {
                let (from, to) = link(ends, world)?;
                world.send(from, to, OrderMessage::of(forge::message(name, command)?));
            }
            ("elect", [r]) => {
                let r = replica(r, world)?;
                world.expire(r).then_some(()).ok_or("it has no deadline")?;
                world.wait(Span::from_millis(5), true);
                (world.leader() == Some(r)).then_some(()).ok_or("it does not lead")?;
            }
            ("expire", [r]) | ("expire", [r, "quiet"]) => {
                let r = replica(r, world)?;
                world.expire(r).then_some(()).ok_or("it has no deadline")?;
            }
            ("wait", [time, rest @ ..]) => {
                flags(&command.args[1..], &["still", "quiet"])?;
                world.wait(span(time)?, !rest.contains(&"still"));
            }
            _ => return network(world, command, &args),
        }
        Ok(String::new())
    }

    fn propose(
        &mut self,
        world: &mut World,
        command: &Command,
        r: &str,
        commands: &[&str],
    ) -> Result<(), String> {
        command.only_options(&["size", "noop"])?;
        let r = replica(r, world)?;
        if let Some(target) = command.number("noop")? {
            world.step(r, Input::Propose(Batch::no_op(Slot::new(target))));
            return Ok(());
        }
        let size = command.number("size")?.unwrap_or(0) as usize;
        for text in commands {
            self.requests += 1;
            let mut bytes = text.as_bytes().to_vec();
            bytes.resize(bytes.len().max(size), b'.');
            world.step(r, Input::Propose(batch(self.requests, &bytes)));
        }
        if commands.is_empty() { Err("propose what?".into()) } else { Ok(()) }
    }
}

/// The change of membership from the present one at this replica to the one that the command names.
fn change(world: &World, id: ReplicaId, command: &Command) -> Result<Memberships, String> {
    command.only_options(&["voters", "learners"])?;
    let list = |key, make: fn(ReplicaId) -> Member| -> Result<Vec<Member>, String> {
        let Some(text) = command.options.get(key) else { return Ok(Vec::new()) };
        text.split(',').map(|name| replica(name, world).map(make)).collect()
    };
    let before = world.order(id).ok_or("it is down")?.status().membership.now().clone();
    let mut members = list("voters", Member::voter)?;
    members.extend(list("learners", Member::learner)?);
    let now = Membership::new(before.number().next(), members).map_err(|why| why.to_string())?;
    Memberships::change(before, now).map_err(|why| why.to_string())
}

/// The commands that concern messages and connections.
fn network(world: &mut World, command: &Command, args: &[&str]) -> Result<String, String> {
    let counted = |ends: &str, count: &str, world: &World| {
        let count: usize = count.parse().map_err(|_| format!("{count} is no number"))?;
        link(ends, world).map(|ends| (ends, count))
    };
    match (command.name.as_str(), args) {
        ("run", []) => world.run(),
        ("run", ["quiet"]) => world.run(),
        ("deliver", ["all"]) => world.deliver_round(),
        ("deliver" | "drop", [ends]) | ("deliver" | "drop", [ends, ..]) if args.len() <= 2 => {
            let ((from, to), count) = counted(ends, args.get(1).unwrap_or(&"1"), world)?;
            for _ in 0..count {
                let there =
                    if command.name == "drop" { world.drop_first(from, to) } else { world.deliver(from, to) };
                there.then_some(()).ok_or("nothing is under way on this link")?;
            }
        }
        ("duplicate", [ends]) => {
            let (from, to) = link(ends, world)?;
            world.duplicate(from, to).then_some(()).ok_or("nothing is under way on this link")?;
        }
        ("cut", [name]) if name.contains("->") => {
            let (from, to) = link(name, world)?;
            world.cut(from, to);
        }
        ("cut", [name]) => {
            let id = replica(name, world)?;
            for other in world.members().to_vec() {
                world.cut(id, other);
                world.cut(other, id);
            }
        }
        ("cut", [some, others]) => {
            for (one, other) in
                some.split(',').flat_map(|one| others.split(',').map(move |other| (one, other)))
            {
                let (one, other) = (replica(one, world)?, replica(other, world)?);
                world.cut(one, other);
                world.cut(other, one);
            }
        }
        ("heal", []) => world.heal(),
        ("disconnect", [a, b]) => world.disconnect(replica(a, world)?, replica(b, world)?),
        ("connect", [a, b]) => world.connect(replica(a, world)?, replica(b, world)?),
        _ => return disks(world, command, args),
    }
    Ok(String::new())
}

/// The commands that concern disks, crashes and restarts.
fn disks(world: &mut World, command: &Command, args: &[&str]) -> Result<String, String> {
    match (command.name.as_str(), args) {
        ("autosync", [word, rest @ ..]) if rest.len() <= 1 => {
            let autosync = on_off(word)?;
            let ids = match rest {
                [r] => vec![replica(r, world)?],
                _ => world.members().to_vec(),
            };
            ids.into_iter().for_each(|id| world.set_autosync(id, autosync));
        }
        ("sync", [r]) => world.sync(replica(r, world)?, None),
        ("sync", [r, record]) => {
            let record = record.parse().map_err(|_| format!("{record} is no number"))?;
            world.sync(replica(r, world)?, Some(RecordId::new(record)));
        }
        ("autoload", [word]) => world.set_autoload(on_off(word)?),
        ("load", [r]) => {
            let id = replica(r, world)?;
            world.load(id).then_some(()).ok_or("it asked for nothing")?;
        }
        ("hold", [r]) => world.set_vouches(replica(r, world)?, false),
        ("vouch", [r]) => world.set_vouches(replica(r, world)?, true),
        ("waits", [time]) => world.set_waits(span(time)?),
        ("crash", [r]) => world.crash(replica(r, world)?),
        ("restart", [r]) => {
            let id = replica(r, world)?;
            if world.order(id).is_some() {
                return Err("it is up".into());
            }
            world.restart(id);
        }
        _ => return checkpoints(world, command, args),
    }
    Ok(String::new())
}

/// The commands that concern the oracle.
fn oracle(world: &mut World, command: &Command, args: &[&str]) -> Result<String, String> {
    match (command.name.as_str(), args) {
        ("register", []) => return Ok(show::registers(world)),
        ("oracle", ["late"]) => world.set_oracle(Asked::Late),
        ("oracle", [word]) => world.set_oracle(if on_off(word)? { Asked::Answered } else { Asked::Lost }),
        ("tell", [r, rest @ ..]) => {
            flags(&command.args[1..], &["again"])?;
            let told = world.tell(replica(r, world)?, rest.contains(&"again"));
            told.then_some(()).ok_or("no answer is under way to it")?;
        }
        ("claim", [r]) => {
            let claim = mod_smart::claim(command, world.voters(), |name| replica(name, world))?;
            let wish = Wish::Claim(claim.encode());
            world.ask_oracle(replica(r, world)?, OracleRequest { membership: MembershipId::FIRST, wish });
        }
        _ => return Err("no such command, or not with these arguments".into()),
    }
    Ok(String::new())
}

/// The commands that concern checkpoints.
fn checkpoints(world: &mut World, command: &Command, args: &[&str]) -> Result<String, String> {
    let slot = |text: &str| text.parse().map(Slot::new).map_err(|_| format!("{text} is no slot"));
    match (command.name.as_str(), args) {
        ("checkpoint" | "trim", [r, rest @ ..]) if rest.len() <= 1 => {
            let id = replica(r, world)?;
            let slot = rest.first().map(|text| slot(text)).transpose()?;
            let done = if command.name == "trim" { world.trim(id, slot) } else { world.checkpoint(id, slot) };
            done.then_some(()).ok_or("there is no such slot to be had")?;
        }
        ("discard", [r, text]) => world.discard(replica(r, world)?, slot(text)?),
        ("fetch" | "install", [r, rest @ ..]) if rest.len() <= 1 => {
            let id = replica(r, world)?;
            if let Some(from) = rest.first() {
                let from = replica(from, world)?;
                world.fetch(id, from).then_some(()).ok_or("it has no checkpoint")?;
            }
            if command.name == "install" {
                world.install(id).then_some(()).ok_or("there is no checkpoint")?;
            }
        }
        _ => return oracle(world, command, args),
    }
    Ok(String::new())
}
