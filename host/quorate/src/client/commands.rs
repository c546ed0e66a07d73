//! Lists of byte strings: the commands of a call, and the replies.

use bytes::Bytes;
use quorate_types::{Items, ItemsBuilder, ItemsIter};

/// The commands of one call. They run one after the other, with no other command in between, all or none.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    items: ItemsBuilder,
}

impl Commands {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds one command.
    ///
    /// # Panics
    /// When the command has 4 GiB or more.
    pub fn push(&mut self, command: &[u8]) {
        self.items.push(command);
    }
    /// The number of commands.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether there are no commands.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// Removes the commands and keeps the memory.
    pub fn clear(&mut self) {
        self.items.clear();
    }
    /// The commands as they are sent. Encoded once they can be sent again and again without a copy.
    pub fn encode(&self) -> Encoded {
        let mut out = Vec::new();
        self.items.write_to(&mut out);
        Encoded(Bytes::from(out))
    }
}

/// Commands as they are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded(pub(crate) Bytes);

impl Encoded {
    /// Takes bytes that hold an item list; a call with other bytes ends with [`super::Error::Malformed`].
    pub const fn from_bytes(bytes: Bytes) -> Self {
        Self(bytes)
    }
    /// A list with one command.
    ///
    /// # Panics
    /// When the command has 4 GiB or more.
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

/// The replies to the commands of one call, in the order of the commands. They share the memory of the frame in which they came: copy what
/// you keep for long.
#[derive(Clone, PartialEq, Eq)]
pub struct Replies {
    bytes: Bytes,
}

impl Replies {
    /// The client core gives out only lists that it has checked.
    pub(crate) const fn new(bytes: Bytes) -> Self {
        Self { bytes }
    }
    fn items(&self) -> Items<'_> {
        Items::parse(&self.bytes).expect("the client core hands out lists only")
    }
    /// The number of replies.
    pub fn len(&self) -> usize {
        self.items().len()
    }
    /// Whether there are no replies.
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
