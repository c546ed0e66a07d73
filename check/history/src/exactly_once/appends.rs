//! Rules for keys that are lists of unique tokens.
//!
//! A read returns the list as a JSON array of strings, or joined by commas; null and "" are the empty list.
//! Since tokens are unique and lists only grow, the reads say the whole order: no search is needed.
//! - every read: no token twice, none that nobody appended, none that failed, none from the future;
//! - a strong read: every token acknowledged before its call;
//! - all strong reads: each is the beginning of the longest;
//! - the longest: tokens of one client by call, tokens of all clients by real time.

use super::{Findings, Options, Rule, Seen};
use crate::event::{Op, Outcome, shown};
use std::collections::{HashMap, HashSet};

struct Token {
    line: u64,
    client: u64,
    call: u64,
    /// `None` if unknown.
    ret: Option<u64>,
}

struct ListRead {
    line: u64,
    call: u64,
    ret: u64,
    is_strong: bool,
    tokens: Vec<String>,
}

struct Tokens<'a> {
    known: HashMap<&'a str, Token>,
    failed: HashSet<&'a str>,
}

pub(super) fn check(key: &str, events: &[Seen<'_>], options: Options, findings: &mut Findings) {
    let is_other_write = |seen: &Seen<'_>| {
        let is_write = matches!(seen.event.op, Op::Put { .. } | Op::Delete | Op::Cas { .. });
        is_write && !seen.is_failed()
    };
    if let Some(seen) = events.iter().find(|seen| is_other_write(seen)) {
        let why = format!("key {key:?} has appends and other writes (line {})", seen.line);
        return findings.unjudged.push(why);
    }
    let tokens = match collect_tokens(events) {
        Ok(tokens) => tokens,
        Err(line) => {
            let why =
                format!("key {key:?}: a token was appended twice (line {line}), so tokens are not unique");
            return findings.unjudged.push(why);
        }
    };
    findings.tokens += tokens.known.len();
    let reads = collect_reads(key, events, options, findings);
    findings.list_reads += reads.len();
    for read in &reads {
        check_read(key, read, &tokens, findings);
    }
    if let Some(longest) = reads.iter().filter(|read| read.is_strong).max_by_key(|read| read.tokens.len()) {
        check_agreement(key, &reads, longest, findings);
        check_order(key, longest, &tokens, options, findings);
    }
    check_covered(key, &reads, &tokens, findings);
}

/// All tokens, or the line of one that was appended before.
fn collect_tokens<'a>(events: &[Seen<'a>]) -> Result<Tokens<'a>, u64> {
    let mut tokens = Tokens { known: HashMap::new(), failed: HashSet::new() };
    for seen in events {
        let Op::Append { value } = &seen.event.op else { continue };
        if let Outcome::Fail { .. } = seen.event.outcome {
            tokens.failed.insert(value);
            continue;
        }
        let (client, call, ret) = (seen.event.client, seen.event.call, seen.event.ok_return());
        if tokens.known.insert(value, Token { line: seen.line, client, call, ret }).is_some() {
            return Err(seen.line);
        }
    }
    Ok(tokens)
}

fn collect_reads(key: &str, events: &[Seen<'_>], options: Options, findings: &mut Findings) -> Vec<ListRead> {
    let mut reads = Vec::new();
    for seen in events {
        let (Some(value), Some(ret)) = (seen.event.read(), seen.event.ok_return()) else { continue };
        let is_strong = seen.is_strong_get(options);
        match parse_list(value) {
            Some(tokens) => {
                reads.push(ListRead { line: seen.line, call: seen.event.call, ret, is_strong, tokens });
            }
            None => {
                let text = format!("{} is no list of tokens", shown(value));
                findings.fault(key, seen.line, Rule::NotAList, text);
            }
        }
    }
    reads
}

fn parse_list(value: Option<&str>) -> Option<Vec<String>> {
    match value {
        None | Some("") => Some(Vec::new()),
        Some(text) if text.starts_with('[') => serde_json::from_str(text).ok(),
        Some(text) => Some(text.split(',').map(str::to_owned).collect()),
    }
}

fn check_read(key: &str, read: &ListRead, tokens: &Tokens<'_>, findings: &mut Findings) {
    let mut present: HashSet<&str> = HashSet::new();
    for token in &read.tokens {
        let what = shown(Some(token));
        let (rule, text) = match tokens.known.get(token.as_str()) {
            _ if !present.insert(token) => (Rule::TokenDoubled, format!("token {what} is in the list again")),
            None if tokens.failed.contains(token.as_str()) => {
                (Rule::FailedWriteSeen, format!("token {what} is in the list, though its append failed"))
            }
            None => (Rule::FromNowhere, format!("token {what} is in the list, though nobody appended it")),
            Some(append) if append.call > read.ret => (
                Rule::FromTheFuture,
                format!("token {what} is in the list before its append (line {})", append.line),
            ),
            Some(_) => continue,
        };
        findings.fault(key, read.line, rule, text);
    }
    if !read.is_strong {
        return;
    }
    for (token, append) in &tokens.known {
        if append.ret.is_some_and(|ret| ret < read.call) && !present.contains(token) {
            let what = shown(Some(token));
            let text = format!(
                "token {what} of client {}, acknowledged (line {}), is not in the list",
                append.client, append.line
            );
            findings.fault(key, read.line, Rule::TokenLost, text);
        }
    }
}

fn check_agreement(key: &str, reads: &[ListRead], longest: &ListRead, findings: &mut Findings) {
    for read in reads.iter().filter(|read| read.is_strong) {
        let differs = read.tokens.iter().zip(&longest.tokens).position(|(here, there)| here != there);
        if let Some(at) = differs {
            let text = format!(
                "position {} holds {}, but line {} has {} there",
                at + 1,
                shown(Some(&read.tokens[at])),
                longest.line,
                shown(Some(&longest.tokens[at]))
            );
            findings.fault(key, read.line, Rule::NotAPrefix, text);
        }
    }
}

fn check_order(key: &str, read: &ListRead, tokens: &Tokens<'_>, options: Options, findings: &mut Findings) {
    // A token that is listed twice counts where it stands first; the second is a fault of its own.
    let mut is_new = HashSet::new();
    let first_places = read.tokens.iter().map(String::as_str).filter(|text| is_new.insert(*text));
    let listed: Vec<(&str, &Token)> =
        first_places.filter_map(|text| Some((text, tokens.known.get(text)?))).collect();
    if options.client_order {
        let mut last: HashMap<u64, (&str, &Token)> = HashMap::new();
        // A token with unknown outcome may take effect late, so it says nothing about its client's order.
        for &(text, token) in listed.iter().filter(|(_, token)| token.ret.is_some()) {
            if let Some((other, before)) = last.insert(token.client, (text, token))
                && (before.call, before.line) > (token.call, token.line)
            {
                let (first, second) = (shown(Some(other)), shown(Some(text)));
                let text =
                    format!("{first} stands before {second}, but client {} appended it later", token.client);
                findings.fault(key, read.line, Rule::ClientOrder, text);
            }
        }
    }
    if options.real_time {
        let mut earliest: Option<(u64, &str, &Token)> = None;
        for &(text, token) in listed.iter().rev() {
            if let Some((ret, other, after)) = earliest
                && ret < token.call
                && !(options.client_order && after.client == token.client && token.ret.is_some())
            {
                let (first, second) = (shown(Some(text)), shown(Some(other)));
                let text = format!(
                    "{first} stands before {second}, which was acknowledged (line {}) before {first} was appended (line {})",
                    after.line, token.line
                );
                findings.fault(key, read.line, Rule::RealTimeOrder, text);
            }
            if let Some(ret) = token.ret
                && earliest.is_none_or(|(at, _, _)| ret < at)
            {
                earliest = Some((ret, text, token));
            }
        }
    }
}

/// An acknowledged token that no strong read can tell about is not judged.
fn check_covered(key: &str, reads: &[ListRead], tokens: &Tokens<'_>, findings: &mut Findings) {
    let strong = || reads.iter().filter(|read| read.is_strong);
    let last_call = strong().map(|read| read.call).max();
    let listed: HashSet<&str> = strong().flat_map(|read| read.tokens.iter().map(String::as_str)).collect();
    let is_open = |text: &str, token: &Token| {
        token.ret.is_some_and(|ret| last_call.is_none_or(|call| ret >= call)) && !listed.contains(text)
    };
    let open = tokens.known.iter().filter(|(text, token)| is_open(text, token)).count();
    if open > 0 {
        findings.unjudged.push(format!("key {key:?}: {open} acknowledged tokens, and no get after them"));
    }
}
