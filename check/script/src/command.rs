//! One command of a script: `name argument key=value ...`, words in quotation marks may hold spaces.

use std::collections::BTreeMap;
use std::fmt;

/// A parsed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its first word.
    pub name: String,
    /// The words without `=`, and those in quotation marks.
    pub args: Vec<String>,
    /// The words with one.
    pub options: BTreeMap<String, String>,
    /// As it was written.
    pub text: String,
}

impl Command {
    /// The commands of one line, which `;` separates.
    ///
    /// # Errors
    /// When a quotation mark is missing, an option is there twice, or there is nothing before a `;`.
    pub fn parse_line(line: &str) -> Result<Vec<Self>, String> {
        let mut commands = Vec::new();
        let mut words = Vec::new();
        let mut letters = line.char_indices().peekable();
        let mut begin = 0;
        while let Some(&(at, letter)) = letters.peek() {
            match letter {
                ' ' => {
                    letters.next();
                }
                ';' => {
                    letters.next();
                    commands.push(Self::from_words(std::mem::take(&mut words), &line[begin..at])?);
                    begin = at + 1;
                }
                '"' => {
                    letters.next();
                    let rest = &line[at + 1..];
                    let len = rest.find('"').ok_or("a quotation mark is missing")?;
                    words.push(Word { text: rest[..len].to_string(), quoted: true });
                    while letters.peek().is_some_and(|(here, _)| *here <= at + 1 + len) {
                        letters.next();
                    }
                }
                _ => {
                    let rest = &line[at..];
                    let len = rest.find([' ', ';']).unwrap_or(rest.len());
                    words.push(Word { text: rest[..len].to_string(), quoted: false });
                    while letters.peek().is_some_and(|(here, _)| *here < at + len) {
                        letters.next();
                    }
                }
            }
        }
        commands.push(Self::from_words(words, &line[begin..])?);
        Ok(commands)
    }

    fn from_words(words: Vec<Word>, text: &str) -> Result<Self, String> {
        let mut words = words.into_iter();
        let name = words.next().filter(|word| !word.quoted).ok_or("a command is missing")?.text;
        let (mut args, mut options) = (Vec::new(), BTreeMap::new());
        for word in words {
            match word.text.split_once('=').filter(|_| !word.quoted) {
                Some((key, value)) => {
                    if options.insert(key.to_string(), value.to_string()).is_some() {
                        return Err(format!("{key} is given twice"));
                    }
                }
                None => args.push(word.text),
            }
        }
        Ok(Self { name, args, options, text: text.trim().to_string() })
    }

    /// The only argument.
    ///
    /// # Errors
    /// When there is none, or more.
    pub fn only_arg(&self) -> Result<&str, String> {
        match self.args.as_slice() {
            [only] => Ok(only),
            _ => Err(format!("{} takes one argument", self.name)),
        }
    }

    /// An option as a number, when it is there.
    ///
    /// # Errors
    /// When it is no number.
    pub fn number(&self, key: &str) -> Result<Option<u64>, String> {
        let parse = |value: &String| value.parse().map_err(|_| format!("{key}={value} is no number"));
        self.options.get(key).map(parse).transpose()
    }

    /// Refuses options other than these, so that a misspelt one is not passed over.
    ///
    /// # Errors
    /// When there is another.
    pub fn only_options(&self, known: &[&str]) -> Result<(), String> {
        match self.options.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(format!("{} has no option {key}", self.name)),
            None => Ok(()),
        }
    }
}

struct Word {
    text: String,
    quoted: bool,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
