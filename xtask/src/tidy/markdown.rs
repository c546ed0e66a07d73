//! A reader of Markdown: headings, tables, code spans and links, with line numbers from 1.

/// The lines outside fenced code blocks.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    split(text).filter(|(_, _, code)| !code).map(|(n, line, _)| (n, line))
}

/// The lines inside fenced code blocks.
pub(crate) fn fenced(text: &str) -> impl Iterator<Item = (usize, &str)> {
    split(text).filter(|(_, line, code)| *code && !is_fence(line)).map(|(n, line, _)| (n, line))
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

fn split(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut inside = false;
    text.lines().enumerate().map(move |(i, line)| {
        let fence = is_fence(line);
        let code = inside || fence;
        inside ^= fence;
        (i + 1, line, code)
    })
}

/// The prose below the heading that says `title` (in any case), down to the next heading of its level or above.
/// `None`: there is no such heading.
pub(crate) fn section<'a>(text: &'a str, title: &str) -> Option<Vec<(usize, &'a str)>> {
    let mut level = None;
    let mut lines = Vec::new();
    for (n, line) in prose(text) {
        let hashes = line.chars().take_while(|c| *c == '#').count();
        match level {
            None if hashes > 0 && line.to_lowercase().contains(&title.to_lowercase()) => level = Some(hashes),
            None => {}
            Some(level) if hashes > 0 && hashes <= level => break,
            Some(_) => lines.push((n, line)),
        }
    }
    level.map(|_| lines)
}

/// The cells of a table's row; `None` for other lines and for the line below the head.
pub(crate) fn row(line: &str) -> Option<Vec<&str>> {
    let line = line.trim().strip_prefix('|')?;
    let cells: Vec<&str> = line.strip_suffix('|').unwrap_or(line).split('|').map(str::trim).collect();
    let rule = cells.iter().all(|c| !c.is_empty() && c.chars().all(|c| c == '-' || c == ':'));
    (!rule).then_some(cells)
}

/// The code spans of a line.
pub(crate) fn spans(line: &str) -> impl Iterator<Item = &str> {
    let pieces: Vec<&str> = line.split('`').collect();
    let last = pieces.len() - 1;
    pieces.into_iter().enumerate().filter(move |(i, _)| i % 2 == 1 && *i < last).map(|(_, s)| s)
}

/// The targets of a line's links.
pub(crate) fn links(line: &str) -> Vec<&str> {
    // what looks like a link inside a code span is none
    let in_span = |at: usize| line[..at].matches('`').count() % 2 == 1;
    line.match_indices("](")
        .filter(|(at, _)| !in_span(*at))
        .map(|(at, _)| &line[at + 2..])
        .filter_map(|rest| rest.split(')').next())
        .map(|target| target.split(' ').next().unwrap_or(target))
        .collect()
}

/// The anchors that a file's headings make.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    prose(text)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests;
