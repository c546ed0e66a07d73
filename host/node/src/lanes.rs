//! Which parts of a replica stand on which lanes.
//!
//! A part that has a lane of its own is stepped only there; the main lane has all other parts. Values pass between the two lanes in order,
//! and take as long as the host likes. An input of a part waits until the part's lane has a turn, and its effects wait until the main lane
//! has one. So each lane goes by what it heard last from the other.
//!
//! Some operations take both lanes: to install a checkpoint, or to ask for an anchor. For these the main lane calls the other one in: it
//! waits until that lane has taken everything.
//!
//! A host that gives a part a lane answers [`crate::Effect::Run`] with [`crate::Input::Run`], on that lane. Only the simulator does so
//! today; a host with threads has the pillars behind bridges ([`crate::Bridge`]), and gives them turns itself.

use crate::gate;
use crate::group::index_of;
use quorate_types::InstanceId;

/// The link of an instance, of this many: its connections belong to it, and where they are its pillar stands. 0 if there is only one.
pub fn link_of(instance: InstanceId, links: u16) -> u16 {
    gate::link_of(index_of(instance), links)
}

/// Which parts have lanes of their own; the main lane has the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The gate: connections and handshakes.
    pub gate: bool,
    /// The pillar of each instance: its requests and its protocol.
    pub groups: bool,
}

/// A part that may have a lane, or the main lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The main lane: all parts that have no lane of their own (the log, the engine, the state, and more).
    Main,
    /// The connections.
    Gate,
    /// The pillar of an instance.
    Group(InstanceId),
}
