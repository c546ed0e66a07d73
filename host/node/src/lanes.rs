//! Which parts of a replica stand on which lanes.
//!
//! A part that has a lane of its own is stepped there and nowhere else; the main lane has all other parts. Between the two, values pass in
//! order, and take as long as the host likes: what a part is told waits until its lane has a turn, and what it says waits until the main lane
//! has one. Each of them goes by what it heard of the other last. For what takes both (a checkpoint takes the place of the state, or an
//! anchor is asked for) the main lane waits until the other one has taken everything ([`crate::Node`] calls it in).
//!
//! A host that gives a part a lane answers [`crate::Effect::Run`] with [`crate::Input::Run`], on that lane. Only the simulator does so far.

use quorate_types::InstanceId;

/// Which parts have lanes of their own; the main lane has the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The gate: connections and handshakes.
    pub gate: bool,
    /// The protocol of each instance.
    pub groups: bool,
}

/// What has a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// All parts that have none of their own: admission, the log, the engine, the state, and more.
    Main,
    /// The connections.
    Gate,
    /// The protocol of an instance.
    Group(InstanceId),
}
