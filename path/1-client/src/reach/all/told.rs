//! What members tell of later memberships. One member's word counts for nothing: a membership is believed once f+1 members of the present
//! one told the same, since one of them is honest. Numbers may be skipped.
//!
//! The newest word of each member is kept, and no other, so that a member can not make the client keep more. Tests: told/tests.rs,
//! tests/members.rs.

use quorate_types::MembershipId;
use quorate_wire::Membership;

/// See the module.
#[derive(Debug)]
pub(super) struct Told {
    /// This many must tell the same.
    needed: u32,
    /// The number of the present membership. A client begins with a list of members without a number, which may be that of any.
    number: MembershipId,
    /// By contact: the newest word of each.
    words: Vec<Option<Membership>>,
}

impl Told {
    /// For this many contacts; what `needed` of them tell is believed.
    pub(super) fn new(contacts: usize, needed: u32) -> Self {
        Self { needed, number: MembershipId::FIRST, words: vec![None; contacts] }
    }

    /// A member tells of a membership. Returns that membership if it is to be believed now.
    pub(super) fn tells(&mut self, from: usize, membership: &Membership) -> Option<Membership> {
        if membership.number() <= self.number {
            return None;
        }
        *self.words.get_mut(from)? = Some(membership.clone());
        self.is_enough(membership).then(|| membership.clone())
    }

    fn is_enough(&self, membership: &Membership) -> bool {
        let same = self.words.iter().flatten().filter(|word| *word == membership);
        same.count() >= self.needed as usize
    }

    /// This is the present membership from now on. Words of members that left are forgotten. `stays`: by contact, whether the member
    /// belongs to both. Returns the next membership to believe, if those that stay told enough.
    pub(super) fn follow(&mut self, number: MembershipId, needed: u32, stays: &[bool]) -> Option<Membership> {
        (self.number, self.needed) = (number, needed);
        self.words.resize(stays.len(), None);
        for (word, stays) in self.words.iter_mut().zip(stays) {
            *word = word.take().filter(|word| *stays && word.number() > number);
        }
        let believed = self.words.iter().flatten().filter(|word| self.is_enough(word));
        believed.max_by_key(|word| word.number()).cloned()
    }
}

#[cfg(test)]
mod tests;
