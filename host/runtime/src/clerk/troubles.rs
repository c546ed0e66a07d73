//! Which problems began and which ended, for the replica's log. `status` tells those that there are now.
//!
//! A problem counts from the second look in a row on that finds it, and until two in a row do not: what passes by itself, such as a
//! connection that is made anew, is not told. Two texts are of the same problem if they differ in numbers only.

use std::collections::BTreeMap;

/// So many looks in a row make a problem, or its end.
const LOOKS: u8 = 2;

/// A problem, or what may become one.
#[derive(Debug)]
struct Trouble {
    /// The text when it was told, or else when it was found last.
    text: String,
    told: bool,
    /// How many looks in a row say otherwise: that it is there, before it was told; that it is not, after that.
    looks: u8,
}

/// What there is to tell.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// This problem began.
    Began(String),
    /// This problem is over.
    Over(String),
}

/// The problems that there were at the last looks.
#[derive(Debug, Default)]
pub(super) struct Troubles(BTreeMap<String, Trouble>);

impl Troubles {
    /// Compares the problems that there are now with those before.
    pub(super) fn look(&mut self, problems: Vec<String>) -> Vec<News> {
        let mut found: BTreeMap<String, String> =
            problems.into_iter().map(|text| (kind_of(&text), text)).collect();
        let mut news = Vec::new();
        self.0.retain(|kind, trouble| {
            let text = found.remove(kind);
            match (trouble.told, text) {
                (true, Some(_)) => trouble.looks = 0,
                (false, None) => return false,
                (false, Some(text)) => {
                    trouble.looks += 1;
                    trouble.text = text;
                    if trouble.looks >= LOOKS {
                        (trouble.told, trouble.looks) = (true, 0);
                        news.push(News::Began(trouble.text.clone()));
                    }
                }
                (true, None) => {
                    trouble.looks += 1;
                    if trouble.looks >= LOOKS {
                        news.push(News::Over(trouble.text.clone()));
                        return false;
                    }
                }
            }
            true
        });
        let new = |(kind, text)| (kind, Trouble { text, told: false, looks: 1 });
        self.0.extend(found.into_iter().map(new));
        news
    }
}

/// The text without what changes while the problem stays: words that begin with a digit. The ids of replicas, as r2, stay.
fn kind_of(text: &str) -> String {
    let is_number =
        |word: &&str| word.trim_start_matches(['(', '"', '`']).starts_with(|c: char| c.is_ascii_digit());
    text.split_whitespace().filter(|word| !is_number(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
