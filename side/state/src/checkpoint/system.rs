//! The system part: the replicated state that is no object. One half says how commands were ordered, the other is what execution has.
//!
//! Each half is cut into pieces by itself, so that the pieces of one do not change with the length of the other.

use bytes::{Bytes, BytesMut};

/// A half of the system part is cut into pieces of this size; its last one is shorter. A constant of format 1.
pub const PIECE_BYTES: usize = 64 * 1024;

/// All agreed state beside the objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemPart {
    /// How commands were ordered: where each instance stands, the generations, the membership. Execution does not need it.
    pub order: Bytes,
    /// What execution has: sessions with the replies that they keep, agreed time, the feature level.
    pub execution: Bytes,
}

/// A system part that holds only execution's half.
impl<T: Into<Bytes>> From<T> for SystemPart {
    fn from(execution: T) -> Self {
        Self { order: Bytes::new(), execution: execution.into() }
    }
}

impl SystemPart {
    /// The length of both halves together.
    pub fn len(&self) -> usize {
        self.order.len() + self.execution.len()
    }

    /// Whether both halves are empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The piece with this number; the pieces of the order's half come first.
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

    /// Joins pieces to the two halves; the first `of_order` of them belong to the order's half.
    pub(crate) fn joined<'a>(of_order: usize, pieces: impl Iterator<Item = &'a Bytes>) -> Self {
        let mut halves = (BytesMut::new(), BytesMut::new());
        for (number, piece) in pieces.enumerate() {
            let half = if number < of_order { &mut halves.0 } else { &mut halves.1 };
            half.extend_from_slice(piece);
        }
        Self { order: halves.0.freeze(), execution: halves.1.freeze() }
    }
}
