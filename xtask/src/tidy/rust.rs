//! A reader of Rust text that knows comments, strings and character literals, and nothing else.

/// What a piece of Rust text is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// The text with comments, strings and character literals blanked out. Lines and columns stay.
pub(crate) fn code(text: &str) -> String {
    keep(text, |kind| kind == Kind::Code)
}

/// The text with the comments blanked out. Lines and columns stay.
pub(crate) fn without_comments(text: &str) -> String {
    keep(text, |kind| kind != Kind::Comment)
}

fn keep(text: &str, wanted: impl Fn(Kind) -> bool) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let (kind, len) = piece(text, at);
        let piece = &text[at..at + len];
        if wanted(kind) {
            kept.push_str(piece);
        } else {
            kept.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        at += len;
    }
    kept
}

/// The piece that begins at `at`: its kind and its length in bytes.
fn piece(text: &str, at: usize) -> (Kind, usize) {
    let rest = &text[at..];
    let first = rest.chars().next().map_or(1, char::len_utf8);
    // an identifier is taken whole, so that the r of `for"` begins no raw string
    let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    if rest.starts_with("//") {
        (Kind::Comment, rest.find('\n').unwrap_or(rest.len()))
    } else if rest.starts_with("/*") {
        (Kind::Comment, block_comment(rest))
    } else if let Some(inside) = rest.strip_prefix('"') {
        (Kind::Literal, 1 + string(inside))
    } else if let Some(len) = raw_string(rest) {
        (Kind::Literal, len)
    } else if let Some(inside) = rest.strip_prefix("b\"").or_else(|| rest.strip_prefix("c\"")) {
        (Kind::Literal, 2 + string(inside))
    } else if word > 0 {
        // the quote of b'x' is looked at next, as one of its own
        (Kind::Code, word)
    } else if let Some(len) = character(rest) {
        (Kind::Literal, len)
    } else {
        (Kind::Code, first)
    }
}

/// Length of a block comment, which may hold others.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Length of a string's inside and closing quote.
fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Length of a raw string, if one begins here.
fn raw_string(rest: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"]
        .into_iter()
        .find(|p| rest.strip_prefix(p).is_some_and(|r| r.trim_start_matches('#').starts_with('"')))?;
    let hashes = rest[prefix.len()..].chars().take_while(|c| *c == '#').count();
    let open = prefix.len() + hashes + 1;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(rest[open..].find(&close).map_or(rest.len(), |at| open + at + close.len()))
}

/// Length of a character literal, if this quote begins one and not a lifetime.
fn character(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    let mut chars = inside.chars();
    match chars.next()? {
        '\\' => {
            let escape = chars.next()?.len_utf8();
            inside[1 + escape..].find('\'').map(|end| 1 + 1 + escape + end + 1)
        }
        c => (chars.next()? == '\'').then(|| 1 + c.len_utf8() + 1),
    }
}

/// A function: its name, its first line (from 1), its number of lines.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
}

/// All functions with a body. `code` is what [`code`] gave.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let after = code[at + 3..].trim_start();
        let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if name.is_empty() {
            continue;
        }
        let Some(open) = body(code, at) else { continue };
        let close = matching_brace(code, open);
        let line = 1 + code[..at].matches('\n').count();
        let lines = 1 + code[at..close].matches('\n').count();
        found.push(Function { name, line, lines });
    }
    found
}

/// Where the body of the function whose signature begins at `at` opens; `None` if it has no body.
fn body(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0i32;
    for (offset, c) in code[at..].char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ';' if depth == 0 => return None,
            '{' if depth == 0 => return Some(at + offset),
            _ => {}
        }
    }
    None
}

/// The brace that closes the one at `open`, or the end of the text.
pub(crate) fn matching_brace(code: &str, open: usize) -> usize {
    let mut depth = 0i32;
    for (offset, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return open + offset;
        }
    }
    code.len()
}

/// Whether `name` stands in `text` as a whole word.
pub(crate) fn has_word(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(part)
            && !text[at + name.len()..].chars().next().is_some_and(part)
    })
}

/// Whether there is a function with this name.
pub(crate) fn has_function(code: &str, name: &str) -> bool {
    code.match_indices("fn ").any(|(at, _)| {
        let after = code[at + 3..].trim_start();
        after.strip_prefix(name).is_some_and(|r| !r.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

#[cfg(test)]
mod tests;
