//! What is replicated and no object, in two halves: what says how it was ordered, and what execution has.
//!
//! Both are cut into pieces, each half by itself, so that the pieces of one do not change with the length of the other.

use bytes::{Bytes, BytesMut};

/// A half of the system part is cut into pieces of this size; its last one is shorter. A constant of format 1.
pub const PIECE_BYTES: usize = 64 * 1024;

/// Everything that is agreed on beside the objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemPart {
    /// How it was ordered: where each instance stands, the generations, the membership. Nobody needs it to execute.
    pub order: Bytes,
    /// What execution has: sessions with the replies they keep, agreed time, the feature level.
    pub execution: Bytes,
}

/// What execution has, and nothing of how it was ordered.
impl<T: Into<Bytes>> From<T> for SystemPart {
    fn from(execution: T) -> Self {
        Self { order: Bytes::new(), execution: execution.into() }
    }
}

impl SystemPart {
    /// How long both halves are together.
    pub fn len(&self) -> usize {
        self.order.len() + self.execution.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The piece with this number: those of the order's half come first.
    pub fn piece(&self, number: usize) -> Option<Bytes> {
        let (half, number) = match number.checked_sub(self.order.len().div_ceil(PIECE_BYTES)) {
            None => (&self.order, number),
            Some(number) => (&self.execution, number),
        };
        let from = number.checked_mul(PIECE_BYTES).filter(|from| *from < half.len())?;
        Some(half.slice(from..half.len().min(from + PIECE_BYTES)))
    }

    /// All pieces, in order.
    pub fn pieces(&self) -> impl Iterator<Item = Bytes> {
        (0..).map_while(|number| self.piece(number))
    }

    /// Pieces become the two halves again; `of_order` of them are the order's.
    pub(crate) fn joined<'a>(of_order: usize, pieces: impl Iterator<Item = &'a Bytes>) -> Self {
        let mut halves = (BytesMut::new(), BytesMut::new());
        for (number, piece) in pieces.enumerate() {
            let half = if number < of_order { &mut halves.0 } else { &mut halves.1 };
            half.extend_from_slice(piece);
        }
        Self { order: halves.0.freeze(), execution: halves.1.freeze() }
    }
}
