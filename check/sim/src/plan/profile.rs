//! The choices of a run's caller.

use super::Focus;
use super::executor::ExecutorKind;
use quorate_log::SyncMode;
use quorate_order::{Changes, Protocol};
use quorate_types::FaultModel;

/// What the caller chooses, rather than the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The cluster's size; none: the seed decides.
    pub replicas: Option<usize>,
    /// The protocol; none: Raft.
    pub protocol: Option<Protocol>,
    /// The faults that the cluster should survive; none: crashes.
    pub fault_model: Option<FaultModel>,
    /// How many replicas lie: exactly so many, even if that is more than the cluster survives; the faults are then Byzantine. None: the
    /// seed decides which and how many lie.
    pub liars: Option<usize>,
    /// Whether there are faults at all.
    pub faults: bool,
    /// Durability; none: mostly `group`.
    pub sync: Option<SyncMode>,
    /// Operations of each client are multiplied by this.
    pub length: u32,
    /// Whether the membership changes; none: the seed decides, unless the cluster's size is chosen.
    pub changes: Option<bool>,
    /// How many instances order batches; none: the seed decides.
    pub instances: Option<u16>,
    /// Whether their number changes; none: the seed decides, unless the number is chosen.
    pub resizes: Option<bool>,
    /// How many lanes a replica has at most; none: the seed decides.
    pub lanes: Option<u16>,
    /// Whether programs are replaced and the feature level is raised; none: the seed decides.
    pub upgrades: Option<bool>,
    /// Whether execution is late, and takes back some batches.
    pub late: bool,
    /// How most replicas execute commands.
    pub executor: ExecutorKind,
    /// Whether replicas compare results before they are final.
    pub verify: bool,
    /// Whether parts of replicas have lanes of their own; none: the seed decides.
    pub apart: Option<bool>,
    /// Whether pillars stand on the lanes of the connections, and move between them; none: the seed decides, where pillars have lanes.
    pub moves: Option<bool>,
    /// Whether followers doubt a silent leader sooner while its words come regularly; none: the seed decides.
    pub adapts: Option<bool>,
    /// Whether there is an oracle, where few members are slow. Without one more slow members than are assumed split the cluster.
    pub oracle: bool,
    /// Whether one fault is survived, and the votes of some members count more, where there are members enough.
    pub weighted: bool,
    /// Whether eras end, and others begin.
    pub eras: bool,
    /// The focus of the runs; none: the seed decides, mostly for no focus.
    pub focus: Option<Focus>,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            replicas: None,
            protocol: None,
            fault_model: None,
            liars: None,
            faults: true,
            sync: None,
            length: 1,
            changes: None,
            instances: None,
            resizes: None,
            lanes: None,
            upgrades: None,
            late: false,
            executor: ExecutorKind::Sequential,
            verify: false,
            apart: None,
            moves: None,
            adapts: None,
            oracle: true,
            weighted: false,
            eras: false,
            focus: None,
        }
    }
}

impl Profile {
    /// The faults that the cluster should survive.
    pub fn model(&self) -> FaultModel {
        let lies = self.liars.is_some_and(|count| count > 0) || self.focus.is_some_and(Focus::lies);
        self.fault_model.unwrap_or(if lies { FaultModel::Byzantine } else { FaultModel::default() })
    }

    /// The protocol: only one survives replicas that lie, or goes on with few members.
    pub fn protocol(&self) -> Protocol {
        if self.model().may_lie() || self.model().few_are_slow() {
            return Protocol::ALL.into_iter().find(|protocol| protocol.able().lies).unwrap_or_default();
        }
        self.protocol.or(self.focus.and_then(Focus::protocol)).unwrap_or_default()
    }

    /// The profile, restricted to what this protocol can do.
    #[must_use]
    pub fn of(self, protocol: Protocol) -> Self {
        let able = protocol.able();
        let (lies, few) = (self.model().may_lie(), self.model().few_are_slow());
        let changes = match self.changes {
            _ if able.membership == Changes::Fixed || (lies && few) => Some(false),
            // Only on request.
            None if lies => Some(false),
            changes => changes,
        };
        let resizes = if able.stays { self.resizes } else { Some(false) };
        Self { changes, resizes, weighted: self.weighted && able.weighs, ..self }
    }

    /// The arguments of `quorate sim` that choose it.
    pub fn arguments(&self) -> String {
        let sync = self.sync.map(|mode| format!("{mode:?}").to_lowercase());
        let length = (self.length != Self::default().length).then_some(self.length);
        let chosen = [
            ("changes", self.changes.map(|word| word.to_string())),
            ("upgrades", self.upgrades.map(|word| word.to_string())),
            ("resizes", self.resizes.map(|word| word.to_string())),
            ("replicas", self.replicas.map(|count| count.to_string())),
            ("protocol", self.protocol.map(|protocol| protocol.name().to_owned())),
            ("fault-model", self.fault_model.map(|model| model.name().to_owned())),
            ("faults", self.fault_model.and_then(FaultModel::visigoth).map(|numbers| numbers.to_string())),
            ("liars", self.liars.map(|count| count.to_string())),
            ("focus", self.focus.map(|focus| focus.name().to_owned())),
            ("instances", self.instances.map(|count| count.to_string())),
            ("lanes", self.lanes.map(|count| count.to_string())),
            ("apart", self.apart.map(|word| word.to_string())),
            ("moves", self.moves.map(|word| word.to_string())),
            ("adapts", self.adapts.map(|word| word.to_string())),
            ("weighted", self.weighted.then(|| "true".to_owned())),
            ("eras", self.eras.then(|| "true".to_owned())),
            ("oracle", (!self.oracle).then(|| "false".to_owned())),
            (
                "executor",
                Some(self.executor.name())
                    .filter(|_| self.executor != ExecutorKind::Sequential)
                    .map(str::to_owned),
            ),
            ("durability", sync),
            ("length", length.map(|times| times.to_string())),
        ];
        let chosen = chosen.into_iter().filter_map(|(name, value)| Some(format!("--{name} {}", value?)));
        let flags = [
            (!self.faults).then_some("--no-faults"),
            self.late.then_some("--late"),
            self.verify.then_some("--verify"),
        ];
        let all: Vec<String> = chosen.chain(flags.into_iter().flatten().map(str::to_owned)).collect();
        all.join(" ")
    }
}
