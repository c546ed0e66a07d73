//! Licenses as manifests write them: `MIT OR Apache-2.0`, `(MIT OR Apache-2.0) AND Unicode-3.0`, and `MIT/Apache-2.0` in old ones.

/// Whether the licenses that are allowed are enough for this text. A license with an exception is allowed if it is without; one `or later`
/// is named without its `+`.
///
/// # Errors
/// When the text is not understood.
pub(crate) fn satisfied(text: &str, allowed: &dyn Fn(&str) -> bool) -> Result<bool, String> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, allowed, depth: 0 };
    let satisfied = reader.either().ok_or(format!("{text:?} is not understood"))?;
    if reader.words.is_empty() { Ok(satisfied) } else { Err(format!("{text:?} is not understood")) }
}

/// What is left to read. `None` from its functions: not understood.
struct Reader<'a> {
    words: &'a [&'a str],
    allowed: &'a dyn Fn(&str) -> bool,
    depth: u32,
}

impl Reader<'_> {
    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.words.first() == Some(&word);
        if is_next {
            self.words = &self.words[1..];
        }
        is_next
    }

    /// `OR` binds less than `AND`.
    fn either(&mut self) -> Option<bool> {
        let mut satisfied = self.both()?;
        while self.takes("OR") {
            satisfied |= self.both()?;
        }
        Some(satisfied)
    }

    fn both(&mut self) -> Option<bool> {
        let mut satisfied = self.one()?;
        while self.takes("AND") {
            satisfied &= self.one()?;
        }
        Some(satisfied)
    }

    fn one(&mut self) -> Option<bool> {
        if self.takes("(") {
            self.depth += 1;
            let inner = if self.depth < 20 { self.either() } else { None };
            self.depth -= 1;
            return inner.filter(|_| self.takes(")"));
        }
        let (name, rest) = self.words.split_first()?;
        if ["OR", "AND", "WITH", ")"].contains(name) {
            return None;
        }
        self.words = rest;
        if self.takes("WITH") {
            self.words = self.words.split_first()?.1;
        }
        Some((self.allowed)(name.trim_end_matches('+')))
    }
}
