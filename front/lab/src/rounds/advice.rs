//! Which s and T follow from what a group measured, and what each choice risks. Tests: `advice/tests.rs`.

use super::times::Measured;
use quorate_types::Visigoth;
use serde::Serialize;

#[cfg(test)]
mod tests;

/// The largest s that is looked at.
const S_MAX: u32 = 4;
/// How many rounds must have been later than T, in what was measured, for a risk to be known.
const SEEN_MIN: f64 = 10.0;

/// What the operator wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// How many replicas may be faulty.
    pub u: u32,
    /// How many of them may lie in concert.
    pub o: u32,
    /// The share of rounds in which more than s replicas may be later than T.
    pub risk: f64,
    /// The configuration's election_min_ms, in milliseconds: more than twice T.
    pub election_min_ms: u64,
}

impl Default for Wish {
    fn default() -> Self {
        Self { u: 2, o: 0, risk: 0.001, election_min_ms: 300 }
    }
}

/// One s, and what goes with it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// How many correct replicas may be slow.
    pub s: u32,
    /// The least T in milliseconds; `None` if the replies of all others but s did not come in enough rounds.
    pub t_ms: Option<u64>,
    /// The share of rounds in which more than s others were later than that.
    pub risk: Option<f64>,
    /// How many replicas it takes for u and o.
    pub replicas: u32,
    /// Whether a configuration may have it.
    pub fits: bool,
    /// The same in words.
    pub words: String,
}

/// What follows from what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// How many replicas may be faulty.
    pub u: u32,
    /// How many of them may lie in concert.
    pub o: u32,
    /// All choices, by s.
    pub choices: Vec<Choice>,
    /// The s that is recommended: the least one from 1 on that fits, and 0 only where u is 0 or nothing else fits.
    pub recommended: Option<u32>,
    /// The recommendation, and what is to be known of it.
    pub words: Vec<String>,
}

impl Advice {
    /// Judges what was measured.
    pub fn of(measured: &Measured, wish: Wish) -> Self {
        let others = measured.replies.len() as u32;
        // With s above u nothing is different from s = u.
        let choices: Vec<Choice> =
            (0..others.min(wish.u.min(S_MAX) + 1)).map(|s| choice(measured, wish, s)).collect();
        let fits = |from: u32| choices.iter().find(|choice| choice.s >= from && choice.fits);
        let best = fits(1).or_else(|| fits(0));
        let mut words = Vec::new();
        match best {
            Some(best) => words.push(recommendation(best, wish)),
            None => words.push(format!(
                "no s fits: `--fault-model crash` with {} replicas needs no T; or raise timing.election_min_ms, or look for what makes \
                 replies late",
                2 * wish.u + 1
            )),
        }
        words.extend(doubts(measured, wish, best));
        Self { u: wish.u, o: wish.o, recommended: best.map(|best| best.s), words, choices }
    }

    /// The choice that is recommended.
    pub fn best(&self) -> Option<&Choice> {
        self.choices.iter().find(|choice| Some(choice.s) == self.recommended)
    }
}

/// The longest T in milliseconds that goes with an election timer: twice as long is still shorter.
fn t_max(election_min_ms: u64) -> u64 {
    election_min_ms.saturating_sub(1) / 2
}

/// A share as a percentage, with as many digits as it needs.
pub(crate) fn percent(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// In how many rounds something happened.
fn share_of(rounds: u64, share: f64) -> String {
    if share > 0.0 { format!("{} of rounds", percent(share)) } else { format!("none of {rounds} rounds") }
}

fn choice(measured: &Measured, wish: Wish, s: u32) -> Choice {
    // The replies of all others but s.
    let times = &measured.replies[measured.replies.len() - 1 - s as usize];
    let t_ms = times.within(1.0 - wish.risk).map(|ms| (ms.ceil() as u64).max(1));
    let risk = t_ms.map(|t| times.later_than(t as f64));
    let numbers = |t: u64| Visigoth { u: wish.u, s, o: wish.o, t_ms: u32::try_from(t).unwrap_or(u32::MAX) };
    let replicas = numbers(1).members_min();
    let most = t_max(wish.election_min_ms);
    let late = if s == 0 { "one was late".to_owned() } else { format!("more than {s} were late") };
    let (fits, words) = match (t_ms, risk) {
        (Some(t), Some(risk)) if s >= wish.u => (
            true,
            format!(
                "with s = {s}, which is not below u = {}, T does not count: replicas conclude nothing from silence, and n = {replicas} \
                 (in {} {late} by more than {t} ms)",
                wish.u,
                share_of(times.rounds(), risk)
            ),
        ),
        (Some(t), Some(risk)) if t <= most => {
            let then =
                if wish.o > 0 { "which no protocol here does yet with o above 0" } else { consequence(s) };
            (
                wish.o == 0,
                format!(
                    "with s = {s}, T = {t} ms, n = {replicas}: in {} {late}; then {then}",
                    share_of(times.rounds(), risk)
                ),
            )
        }
        (Some(t), _) => (
            false,
            format!(
                "with s = {s}, T = {t} ms is too long: replicas complain about a leader after election_min_ms = {} ms, so T is at most {most} \
                 ms; raise election_min_ms to {} ms for it",
                wish.election_min_ms,
                2 * t + 1
            ),
        ),
        (None, _) => (
            false,
            format!(
                "with s = {s} no T is long enough: in more than {} of rounds the replies never came",
                percent(wish.risk)
            ),
        ),
    };
    Choice { s, t_ms, risk, replicas, fits, words }
}

/// What it means that more than s were late.
fn consequence(s: u32) -> &'static str {
    if s == 0 {
        "the leader takes the late one for a stopped one: it asks the oracle for a small quorum, and until all count again the replicas in \
         it must not stop"
    } else {
        "the leader asks the oracle for a small quorum though nobody stopped, and writes wait for 2T and the answer; until all count again \
         the replicas in it must not stop"
    }
}

fn recommendation(best: &Choice, wish: Wish) -> String {
    let Wish { u, o, .. } = wish;
    let n = best.replicas;
    match best.t_ms {
        Some(t) if best.s < u => format!(
            "recommended: --fault-model visigoth --faults u={u},s={},o={o},t={t} with {n} replicas and an oracle; without counting on fast \
             replicas it takes {}",
            best.s,
            2 * u + o + 1
        ),
        _ => format!(
            "recommended: --fault-model visigoth --faults u={u},s={u},o={o} with {n} replicas, and no T"
        ),
    }
}

/// What makes the recommendation weaker than it looks.
fn doubts(measured: &Measured, wish: Wish, best: Option<&Choice>) -> Vec<String> {
    let mut words = Vec::new();
    let needed = (SEEN_MIN / wish.risk).ceil();
    if (measured.rounds() as f64) < needed {
        words.push(format!(
            "{} rounds were measured: a risk of {} shows in {needed} or more; measure longer, also when the machines are busy",
            measured.rounds(),
            percent(wish.risk)
        ));
    }
    if measured.local {
        words.push(
            "all processes were on one machine: measure on the machines that the replicas will have"
                .to_owned(),
        );
    } else if measured.processes < measured.members {
        words.push(format!(
            "this is what {} of {} processes saw: put the results of all together with --read",
            measured.processes, measured.members
        ));
    }
    if let Some(best) = best
        && best.replicas as usize > measured.members
    {
        words.push(format!(
            "{} processes were measured, and it takes {} replicas: more of them are late together more rarely, and one of them more often",
            measured.members, best.replicas
        ));
    }
    if measured.strangers > 0 {
        words.push(format!("{} messages or connections of strangers were dropped", measured.strangers));
    }
    words
}
