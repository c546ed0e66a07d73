//! Changes of the neighbours: operators ask for them, and where replicas may lie, administrators sign them.

use super::{Look, Out, Plan, Reconfigure, say};
use quorate_types::planted;
use quorate_wire::{ERAS_LEVEL, NeighbourCommand, SystemCommand};

impl Plan<'_> {
    /// Whether a neighbour may change now. The level from which on programs read such a command is that of eras.
    pub(super) fn may_neighbour(&self, _: &NeighbourCommand) -> Result<(), String> {
        let level = self.look.config.level.cluster;
        if level < ERAS_LEVEL {
            return Err(format!(
                "services ask each other from feature level {ERAS_LEVEL} on, and the cluster works at {level}: raise it first"
            ));
        }
        Ok(())
    }
}

impl Reconfigure {
    /// An operator asks for a change of the neighbours. Gives the answer, one line.
    pub(super) fn neighbour(
        &mut self,
        look: &Look<'_>,
        command: NeighbourCommand,
        out: &mut Vec<Out>,
    ) -> String {
        if look.config.order.faults.may_lie() && !planted("unsigned-commands") {
            return "error: where replicas may lie, administrators sign this".into();
        }
        let plan = Plan::new(self, look);
        match plan.may_command().and_then(|()| plan.may_neighbour(&command)) {
            Ok(()) => {
                out.push(Out::Propose(SystemCommand::Neighbour(command)));
                "begun".into()
            }
            Err(why) => format!("error: {why}"),
        }
    }

    /// An ordered command changes the neighbours: execution hears of it right behind its batch.
    pub(super) fn neighbour_ordered(command: NeighbourCommand, out: &mut Vec<Out>) {
        out.push(say(command.to_string()));
        out.push(Out::Neighbour(command));
    }
}
