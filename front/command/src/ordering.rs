//! How the replicas of a new cluster agree: the arguments of `init`, `dev` and `backup restore`.

use crate::failure::{Failure, Outcome};
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use quorate::client::Authentication;
use quorate_order::{Feature, Protocol};
use quorate_types::{FaultModel, Faults, Visigoth};
use quorate_wire::MEMBERS_MAX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The options for it.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct OrderArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// How replicas agree [default: raft; mod-smart with byzantine faults, and with visigoth where s is below u]
    #[arg(long, value_parser = protocol_word())]
    protocol: Option<Protocol>,
    /// With byzantine faults: how clients show who asked to replicas that did not hear them [default: links]
    #[arg(long, value_enum)]
    authentication: Option<AuthenticationWord>,
    /// With mod-smart: the next replica leads after this many slots; 0: a leader stays as long as it does well [default: 0]
    #[arg(long, value_name = "SLOTS")]
    rotate_after: Option<u64>,
    /// With mod-smart, and more replicas than --faults needs: the votes of the first 2f replicas count more (f with crash faults), so that these
    /// and one other decide, and nobody waits for replicas that are far away
    #[arg(long)]
    weighted: bool,
}

/// The options for a cluster's faults.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct ModelArgs {
    /// Which faults the cluster survives [default: crash]
    #[arg(long, value_enum)]
    fault_model: Option<ModelWord>,
    /// How many faults it survives, 1 or more, where fewer are wanted than its replicas allow; with byzantine faults its quorums are
    /// smaller then [default: as many as they allow]. With visigoth, all numbers, as u=2,s=2,o=1; with s below u also t, in milliseconds,
    /// after which a replica that is not slow has answered, as u=2,s=1,o=0,t=50
    #[arg(long, value_name = "COUNT|NUMBERS")]
    faults: Option<FaultsWord>,
}

/// How requests prove which client sent them, on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuthenticationWord {
    /// Each replica believes what it heard over its own link
    Links,
    /// Clients sign every request
    Signatures,
    /// Clients that do not attack tag every request for each replica, and send to the leader first
    Macs,
}

/// A fault model of a cluster, on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModelWord {
    /// Replicas stop and come back
    Crash,
    /// Up to a third of them do anything at all; needs four replicas or more
    Byzantine,
    /// Up to u are faulty, o of them lie in concert, and s are slow: u+min(u,s)+o+1 replicas or more
    Visigoth,
    /// Two replicas, of which one may stop: visigoth with u=1,s=0,o=0,t=50; needs an oracle
    Pair,
}

/// How many faults, on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultsWord {
    /// So many.
    Count(u32),
    /// Those of the Visigoth model.
    Numbers(Visigoth),
}

impl FromStr for FaultsWord {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        if let Ok(count) = word.parse() {
            return Ok(Self::Count(count));
        }
        let usual = "write a number, or with --fault-model visigoth all of u=2,s=2,o=1";
        let mut numbers = BTreeMap::new();
        for part in word.split(',') {
            let (name, number) = part.split_once('=').ok_or(usual)?;
            let number: u32 = number.trim().parse().map_err(|_| usual)?;
            if numbers.insert(name.trim(), number).is_some() {
                return Err(format!("{} is there twice: {usual}", name.trim()));
            }
        }
        let t_ms = numbers.remove("t").unwrap_or_default();
        let mut needed = |name| numbers.remove(name).ok_or_else(|| format!("{name} is missing: {usual}"));
        let visigoth = Visigoth { u: needed("u")?, s: needed("s")?, o: needed("o")?, t_ms };
        match numbers.keys().next() {
            Some(other) => Err(format!("there is no {other}: {usual}")),
            None => visigoth.check().map(|()| Self::Numbers(visigoth)).map_err(|why| why.to_string()),
        }
    }
}

/// A fault model without numbers, on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FaultModelWord {
    /// Replicas stop and come back
    Crash,
    /// Up to a third of them do anything at all; needs four replicas or more
    Byzantine,
}

/// The names of all protocols on the command line.
pub fn protocol_word() -> impl TypedValueParser<Value = Protocol> {
    let words = Protocol::ALL.map(|protocol| PossibleValue::new(protocol.name()).help(protocol.row().title));
    PossibleValuesParser::new(words).map(|word| Protocol::named(&word).unwrap_or_default())
}

/// The choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OrderChoice {
    /// Which faults the cluster survives.
    #[serde(default)]
    pub fault_model: FaultModel,
    /// The most faults that the cluster survives; `None`: as many as the number of replicas allows.
    #[serde(default)]
    pub faults: Option<u32>,
    /// How replicas agree.
    #[serde(default)]
    pub protocol: Protocol,
    /// How requests prove which client sent them.
    #[serde(default)]
    pub authentication: Authentication,
    /// The number of slots after which the next replica leads; 0: leaders do not rotate.
    #[serde(default)]
    pub rotate_after: u64,
    /// Whether the votes of the first replicas count more.
    #[serde(default)]
    pub weighted: bool,
}

impl From<AuthenticationWord> for Authentication {
    fn from(word: AuthenticationWord) -> Self {
        match word {
            AuthenticationWord::Links => Self::Links,
            AuthenticationWord::Signatures => Self::Signatures,
            AuthenticationWord::Macs => Self::Macs,
        }
    }
}

impl From<FaultModelWord> for FaultModel {
    fn from(word: FaultModelWord) -> Self {
        match word {
            FaultModelWord::Crash => Self::Crash,
            FaultModelWord::Byzantine => Self::Byzantine,
        }
    }
}

impl ModelArgs {
    /// As if these words had been given.
    pub const fn of(model: ModelWord, faults: Option<FaultsWord>) -> Self {
        Self { fault_model: Some(model), faults }
    }

    /// The fault model, if one is given.
    ///
    /// # Errors
    /// When its numbers are missing, or are those of another one.
    pub fn model(self) -> Outcome<Option<FaultModel>> {
        match (self.fault_model, self.faults) {
            (Some(ModelWord::Visigoth), Some(FaultsWord::Numbers(numbers))) => {
                numbers.check().map_err(|why| Failure::usage(format!("--faults: {why}")))?;
                Ok(Some(FaultModel::Visigoth(numbers)))
            }
            (Some(ModelWord::Visigoth), _) => {
                Err(Failure::usage("--fault-model visigoth needs its numbers: add --faults u=2,s=2,o=1"))
            }
            (Some(ModelWord::Pair), None) => Ok(Some(FaultModel::Visigoth(Visigoth::PAIR))),
            (Some(ModelWord::Pair), Some(_)) => Err(Failure::usage(format!(
                "a pair survives one of two: leave --faults out. For another time say --fault-model visigoth --faults {}",
                Visigoth { t_ms: 80, ..Visigoth::PAIR }
            ))),
            (_, Some(FaultsWord::Numbers(_))) => Err(Failure::usage(
                "u, s and o are the numbers of --fault-model visigoth: add that, or give --faults one number",
            )),
            (Some(ModelWord::Crash), _) => Ok(Some(FaultModel::Crash)),
            (Some(ModelWord::Byzantine), _) => Ok(Some(FaultModel::Byzantine)),
            (None, _) => Ok(None),
        }
    }

    /// The number of faults, where only that is chosen.
    pub fn count(self) -> Option<u32> {
        match self.faults {
            Some(FaultsWord::Count(count)) => Some(count),
            _ => None,
        }
    }

    /// The least number of replicas that survive one fault, or these faults.
    fn replicas(self) -> u16 {
        match (self.fault_model, self.faults) {
            (Some(ModelWord::Visigoth), Some(FaultsWord::Numbers(numbers))) => numbers.members_min() as u16,
            (Some(ModelWord::Pair), _) => Visigoth::PAIR.members_min() as u16,
            (Some(ModelWord::Byzantine), _) => 4,
            _ => 3,
        }
    }
}

impl OrderArgs {
    /// Surviving these faults, and everything else by default.
    pub fn surviving(faults: FaultModelWord) -> Self {
        let word = match faults {
            FaultModelWord::Crash => ModelWord::Crash,
            FaultModelWord::Byzantine => ModelWord::Byzantine,
        };
        Self { model: ModelArgs { fault_model: Some(word), faults: None }, ..Self::default() }
    }

    /// Surviving these faults by this protocol, and everything else by default; as if the words for it had been given.
    pub fn surviving_by(model: FaultModel, protocol: Protocol) -> Self {
        let word = match model {
            FaultModel::Crash => ModelWord::Crash,
            FaultModel::Byzantine => ModelWord::Byzantine,
            FaultModel::Visigoth(_) => ModelWord::Visigoth,
        };
        let model = ModelArgs { fault_model: Some(word), faults: model.visigoth().map(FaultsWord::Numbers) };
        Self { model, protocol: Some(protocol), ..Self::default() }
    }

    /// The same; requests prove in this way which client sent them.
    pub fn authenticated(self, authentication: AuthenticationWord) -> Self {
        Self { authentication: Some(authentication), ..self }
    }

    /// The choices for a new cluster.
    ///
    /// # Errors
    /// When the choices contradict each other.
    pub fn choice(self) -> Outcome<OrderChoice> {
        let model = self.model.model()?.unwrap_or_default();
        let (lies, few) = (model.may_lie(), model.few_are_slow());
        if !lies && self.authentication.is_some_and(|word| word != AuthenticationWord::Links) {
            return Err(Failure::usage(
                "where no replica lies nobody checks who asked: leave --authentication out, or say --fault-model byzantine",
            ));
        }
        let usual = match (lies, few) {
            (true, _) => Feature::SurviveLies.protocol(),
            (false, true) => Feature::CountOnFast.protocol(),
            (false, false) => Protocol::default(),
        };
        let able = self.protocol.unwrap_or(usual).able();
        let asked = [
            ("--protocol", lies, Feature::SurviveLies),
            ("--protocol", few, Feature::CountOnFast),
            ("--rotate-after", self.rotate_after.is_some_and(|slots| slots > 0), Feature::Rotate),
            ("--weighted", self.weighted, Feature::WeighVotes),
        ];
        for (option, is_asked, feature) in asked {
            if let (true, Err(why)) = (is_asked, able.can(feature)) {
                let name = feature.protocol().name();
                return Err(Failure::usage(format!("{why}: leave {option} out, or say --protocol {name}")));
            }
        }
        self.over(OrderChoice { protocol: usual, ..OrderChoice::default() })
    }

    /// The number of replicas by default.
    pub fn replicas(self) -> u16 {
        self.model.replicas()
    }

    /// These choices where they are given, else those of `before`.
    ///
    /// # Errors
    /// When they contradict each other.
    pub fn over(self, before: OrderChoice) -> Outcome<OrderChoice> {
        let fault_model = self.model.model()?.unwrap_or(before.fault_model);
        if let (Some(count), Some(numbers)) = (self.model.count(), fault_model.visigoth()) {
            return Err(Failure::usage(format!(
                "--faults {count}: the cluster survives {numbers}, and u is the number of faults: leave it out"
            )));
        }
        let protocol = self.protocol.unwrap_or(before.protocol);
        let authentication = self.authentication.map_or(before.authentication, Authentication::from);
        let rotate_after = self.rotate_after.unwrap_or(before.rotate_after);
        let faults = self.model.count().or(before.faults).filter(|_| fault_model.visigoth().is_none());
        let weighted = self.weighted || before.weighted;
        Ok(OrderChoice { fault_model, faults, protocol, authentication, rotate_after, weighted })
    }
}

impl OrderChoice {
    /// Refuses so many replicas, if they are too few for these faults, or too many.
    ///
    /// # Errors
    /// Why, and how many there may be.
    pub fn check_members(self, count: usize) -> Outcome<()> {
        if !(1..=MEMBERS_MAX).contains(&count) {
            return Err(Failure::usage(format!("a cluster has 1 to {MEMBERS_MAX} replicas, not {count}")));
        }
        let (faults, n) = (Faults::of(self.fault_model), count as u32);
        if let Some(numbers) = self.fault_model.visigoth() {
            numbers.check_members(n).map_err(|why| Failure::usage(why.to_string()))?;
            if numbers.is_pair() && n > numbers.members_min() {
                return Err(Failure::usage(format!(
                    "a pair has two replicas, {}; here are {n}. Leave {} out, or say --fault-model crash: three of those survive one that \
                     stops, without an oracle",
                    numbers.formula(),
                    n - numbers.members_min()
                )));
            }
        } else if !faults.fit(n) {
            return Err(Failure::usage(format!(
                "to survive one replica that lies, a cluster needs 4 replicas; here are {count}"
            )));
        }
        let most = faults.among(n).faults();
        match self.faults {
            Some(chosen) if !(1..=most).contains(&chosen) => Err(Failure::usage(format!(
                "{count} replicas survive {most} {} faults at most: leave --faults {chosen} out, or name more replicas",
                self.fault_model.name()
            ))),
            _ if self.weighted && self.heavy(count) == 0 => Err(Failure::usage(format!(
                "--weighted: {count} replicas are no more than are needed for the faults that they survive, so all votes count alike. Add \
                 replicas, or say --faults {}",
                most.saturating_sub(1).max(1)
            ))),
            _ => Ok(()),
        }
    }

    /// The faults that the cluster survives.
    pub const fn survives(self) -> Faults {
        let faults = Faults::of(self.fault_model);
        let faults = match self.faults {
            Some(most) => faults.at_most(most),
            None => faults,
        };
        if self.weighted { faults.weighted() } else { faults }
    }

    /// The votes of so many of `count` replicas, the first ones, count more.
    pub const fn heavy(self, count: usize) -> usize {
        if count == 0 { 0 } else { self.survives().among(count as u32).heavy() as usize }
    }

    /// The choices as lines of a configuration; what is left out is the default.
    pub fn to_toml(self) -> String {
        let faults = self.faults.map_or(String::new(), |faults| format!("faults = {faults}\n"));
        let model = match self.fault_model.visigoth() {
            Some(Visigoth { u, s, o, t_ms }) => {
                format!("{{ kind = \"visigoth\", u = {u}, s = {s}, o = {o}, t_ms = {t_ms} }}")
            }
            None => format!("{:?}", self.fault_model.name()),
        };
        if self.protocol == Protocol::default() {
            let is_default = self.fault_model == FaultModel::default();
            return if is_default { faults } else { format!("fault_model = {model}\n{faults}") };
        }
        let protocol = self.protocol.name();
        let rotation = match self.rotate_after {
            0 => String::new(),
            slots => format!("rotate_after = {slots}\n"),
        };
        format!("protocol = \"{protocol}\"\nfault_model = {model}\n{faults}{rotation}")
    }
}

impl fmt::Display for OrderChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} faults", self.protocol.name(), self.fault_model.name())?;
        if let Some(numbers) = self.fault_model.visigoth() {
            write!(f, " {numbers}")?;
        }
        if let Some(faults) = self.faults {
            write!(f, ", no more than {faults} of them")?;
        }
        match self.authentication {
            Authentication::Links => {}
            other => write!(f, ", requests authenticated by {}", other.name())?,
        }
        match self.rotate_after {
            0 => Ok(()),
            slots => write!(f, ", leaders rotate after {slots} slots"),
        }
    }
}

#[cfg(test)]
mod tests;
