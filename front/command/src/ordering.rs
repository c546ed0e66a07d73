//! How the replicas of a new cluster agree: the arguments of `init`, `dev` and `backup restore`.

use crate::failure::{Failure, Outcome};
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use quorate::client::Authentication;
use quorate_order::{Feature, Protocol};
use quorate_types::FaultModel;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The options for it.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct OrderArgs {
    /// Which faults the cluster survives [default: crash]
    #[arg(long, value_enum)]
    fault_model: Option<FaultModelWord>,
    /// How many faults it survives, 1 or more, where fewer are wanted than its replicas allow; with byzantine faults its quorums are
    /// smaller then [default: as many as they allow]
    #[arg(long, value_name = "COUNT")]
    faults: Option<u32>,
    /// How replicas agree [default: raft; mod-smart with byzantine faults]
    #[arg(long, value_parser = protocol_word())]
    protocol: Option<Protocol>,
    /// With byzantine faults: how clients show who asked to replicas that did not hear them [default: links]
    #[arg(long, value_enum)]
    authentication: Option<AuthenticationWord>,
    /// With mod-smart: the next replica leads after this many slots; 0: a leader stays as long as it does well [default: 0]
    #[arg(long, value_name = "SLOTS")]
    rotate_after: Option<u64>,
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

/// A fault model, on the command line.
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

impl OrderArgs {
    /// Surviving these faults, and everything else by default.
    pub fn surviving(faults: FaultModelWord) -> Self {
        Self { fault_model: Some(faults), ..Self::default() }
    }

    /// The choices for a new cluster.
    ///
    /// # Errors
    /// When the choices contradict each other.
    pub fn choice(self) -> Outcome<OrderChoice> {
        let byzantine = self.fault_model == Some(FaultModelWord::Byzantine);
        if !byzantine && self.authentication.is_some_and(|word| word != AuthenticationWord::Links) {
            return Err(Failure::usage(
                "where replicas only crash nobody checks who asked: leave --authentication out, or say --fault-model byzantine",
            ));
        }
        let usual = if byzantine { Feature::SurviveLies.protocol() } else { Protocol::default() };
        let able = self.protocol.unwrap_or(usual).able();
        let asked = [
            ("--protocol", byzantine, Feature::SurviveLies),
            ("--rotate-after", self.rotate_after.is_some_and(|slots| slots > 0), Feature::Rotate),
        ];
        for (option, is_asked, feature) in asked {
            if let (true, Err(why)) = (is_asked, able.can(feature)) {
                let name = feature.protocol().name();
                return Err(Failure::usage(format!("{why}: leave {option} out, or say --protocol {name}")));
            }
        }
        Ok(self.over(OrderChoice { protocol: usual, ..OrderChoice::default() }))
    }

    /// The number of replicas by default.
    pub fn replicas(self) -> u16 {
        if self.fault_model == Some(FaultModelWord::Byzantine) { 4 } else { 3 }
    }

    /// These choices where they are given, else those of `before`.
    pub fn over(self, before: OrderChoice) -> OrderChoice {
        let fault_model = self.fault_model.map_or(before.fault_model, FaultModel::from);
        let protocol = self.protocol.unwrap_or(before.protocol);
        let authentication = self.authentication.map_or(before.authentication, Authentication::from);
        let rotate_after = self.rotate_after.unwrap_or(before.rotate_after);
        let faults = self.faults.or(before.faults);
        OrderChoice { fault_model, faults, protocol, authentication, rotate_after }
    }
}

impl OrderChoice {
    /// The choices as lines of a configuration; what is left out is the default.
    pub fn to_toml(self) -> String {
        let faults = self.faults.map_or(String::new(), |faults| format!("faults = {faults}\n"));
        if self.protocol == Protocol::default() {
            return faults;
        }
        let (protocol, model) = (self.protocol.name(), self.fault_model.name());
        let rotation = match self.rotate_after {
            0 => String::new(),
            slots => format!("rotate_after = {slots}\n"),
        };
        format!("protocol = \"{protocol}\"\nfault_model = \"{model}\"\n{faults}{rotation}")
    }
}

impl fmt::Display for OrderChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} faults", self.protocol.name(), self.fault_model.name())?;
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
