//! Two lists of lines side by side, for people: what is the same, what is missing, what is new.

use std::fmt::Write;

/// The lines of `old` and `new`: ` ` in both, `-` only in the old, `+` only in the new one.
pub fn diff(old: &[String], new: &[String]) -> String {
    let common = common_lengths(old, new);
    let (mut i, mut j, mut out) = (0, 0, String::new());
    while i < old.len() || j < new.len() {
        let (mark, line) = if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
            (' ', &old[i - 1])
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            i += 1;
            ('-', &old[i - 1])
        } else {
            j += 1;
            ('+', &new[j - 1])
        };
        let _ = writeln!(out, "  {mark} {line}");
    }
    out
}

/// Entry (i, j): the length of the longest common subsequence of `old[i..]` and `new[j..]`.
fn common_lengths(old: &[String], new: &[String]) -> Vec<Vec<usize>> {
    let mut table = vec![vec![0; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            table[i][j] =
                if old[i] == new[j] { table[i + 1][j + 1] + 1 } else { table[i + 1][j].max(table[i][j + 1]) };
        }
    }
    table
}

#[cfg(test)]
mod tests;
