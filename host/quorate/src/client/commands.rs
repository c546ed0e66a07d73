//! What is asked and what is answered: lists of byte strings.

use bytes::Bytes;
use quorate_types::{Items, ItemsBuilder, ItemsIter};

/// The commands of one call: they run one after the other, with nothing between them, all or none.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    items: ItemsBuilder,
}

impl Commands {
    /// No commands yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds one command.
    ///
    /// # Panics
    /// When it is 4 GiB or longer.
    pub fn push(&mut self, command: &[u8]) {
        self.items.push(command);
    }
    /// How many commands.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// Forgets the commands and keeps the memory.
    pub fn clear(&mut self) {
        self.items.clear();
    }
    /// The commands as they travel. What was encoded once can be sent again and again without copying it.
    pub fn encode(&self) -> Encoded {
        let mut out = Vec::new();
        self.items.write_to(&mut out);
        Encoded(Bytes::from(out))
    }
}

/// Commands as they travel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded(pub(crate) Bytes);

impl Encoded {
    /// Takes bytes that hold an item list; a call with anything else ends with [`super::Error::Malformed`].
    pub const fn from_bytes(bytes: Bytes) -> Self {
        Self(bytes)
    }
    /// One command.
    ///
    /// # Panics
    /// When it is 4 GiB or longer.
    pub fn one(command: &[u8]) -> Self {
        let mut commands = Commands::new();
        commands.push(command);
        commands.encode()
    }
}

impl From<&Commands> for Encoded {
    fn from(commands: &Commands) -> Self {
        commands.encode()
    }
}

impl From<&Encoded> for Encoded {
    fn from(encoded: &Encoded) -> Self {
        encoded.clone()
    }
}

/// The replies to the commands of one call, in the order of the commands. Shares the memory of the frame in which it came:
/// copy what is kept for long.
#[derive(Clone, PartialEq, Eq)]
pub struct Replies {
    bytes: Bytes,
}

impl Replies {
    /// The client core hands out lists only, and checked them.
    pub(crate) const fn new(bytes: Bytes) -> Self {
        Self { bytes }
    }
    fn items(&self) -> Items<'_> {
        Items::parse(&self.bytes).expect("the client core hands out lists only")
    }
    /// How many replies.
    pub fn len(&self) -> usize {
        self.items().len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items().is_empty()
    }
    /// The replies in order.
    pub fn iter(&self) -> ItemsIter<'_> {
        self.items().iter()
    }
    /// The replies in order, each keeping the frame's memory for as long as it lives.
    pub fn slices(&self) -> impl Iterator<Item = Bytes> {
        self.iter().map(|reply| self.bytes.slice_ref(reply))
    }
    /// The first reply.
    pub fn first(&self) -> Option<&[u8]> {
        self.iter().next()
    }
}

impl<'a> IntoIterator for &'a Replies {
    type Item = &'a [u8];
    type IntoIter = ItemsIter<'a>;
    fn into_iter(self) -> ItemsIter<'a> {
        self.iter()
    }
}

impl std::fmt::Debug for Replies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.items().fmt(f)
    }
}
