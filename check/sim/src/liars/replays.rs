//! Repeats earlier messages, of its own or of others, of this view or an earlier one.

use super::{Plays, Said, Saying, Voice};

/// See the module.
#[derive(Debug)]
pub(super) struct Replay;

impl Plays for Replay {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let view = match &said {
            Said::ModSmart(_, message) => Some(message.view),
            _ => None,
        };
        let mut list = vec![Saying::now(to, said)];
        for _ in 0..me.rng.below(3) {
            let at = me.rng.below(me.smart.messages.len() as u64) as usize;
            let Some((instance, mut old)) = me.smart.messages.get(at).cloned() else { continue };
            if let Some(view) = view.filter(|_| me.rng.chance(500)) {
                old.view = view;
            }
            list.push(Saying::now(me.other(), Said::ModSmart(instance, old)));
        }
        list
    }
}
