//! INV-SIM-MEMBERS: a membership's number means the same to all replicas. In the end no change is open, and only members lead. A replica that
//! was removed while it heard nobody may still believe that it leads: all refuse it, so it decides nothing.

use super::Failure;
use quorate_node::Node;
use quorate_wire::Membership;
use std::collections::BTreeMap;

/// What was seen of memberships.
#[derive(Debug, Default)]
pub struct MembershipCheck {
    seen: BTreeMap<u64, Membership>,
}

impl MembershipCheck {
    /// A replica is in this membership.
    ///
    /// # Errors
    /// When another replica was in another membership with the same number.
    pub fn look(&mut self, name: &str, membership: &Membership) -> Result<(), Failure> {
        let number = membership.number().number();
        let known = self.seen.entry(number).or_insert_with(|| membership.clone());
        if known == membership {
            return Ok(());
        }
        let text = format!("{name} is in {membership:?}, another replica was in {known:?}");
        Err(Failure::new("members", text))
    }

    /// Checks a replica in the end.
    ///
    /// # Errors
    /// When a change is open, or a replica leads that is no member and that a member hears.
    pub fn ended(&self, name: &str, member: bool, node: &Node) -> Result<(), Failure> {
        if member && node.change().is_some() {
            return Err(Failure::new("members", format!("{name} has a change open: {:?}", node.change())));
        }
        let heard = |node: &Node| node.status().peers.iter().any(|peer| peer.connected);
        if !member && node.status().leading && heard(node) {
            return Err(Failure::new("members", format!("{name} leads and is no member")));
        }
        if member && node.is_removed() {
            return Err(Failure::new("members", format!("{name} is a member and does not know it")));
        }
        Ok(())
    }
}
