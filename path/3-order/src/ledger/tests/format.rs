//! What is written is read back, and what is cut off or changed is refused.

use super::{batch, proof, slot};
use crate::Anchor;
use crate::ledger::{Decided, Floor};
use bytes::Bytes;
use quorate_types::View;

#[test]
fn decided_slots_are_read_back() {
    let (of, view) = (proof(7, 1), View::new(3));
    for batch in [None, Some(batch(1))] {
        let record = Decided::record(&of, view, batch.as_ref());
        let read = Decided::read(record.clone()).expect("ours");
        assert_eq!(read, Decided { slot: slot(7), view, proof: of.clone(), batch });
        for end in 0..record.payload.len().min(30) {
            let mut cut = record.clone();
            cut.payload.truncate(end);
            assert!(Decided::read(cut).is_err(), "cut after {end} bytes");
        }
        assert!(Floor::read(record).is_err(), "another kind");
    }
}

#[test]
fn floors_are_read_back() {
    let anchor = Anchor::decode(b"an anchor").expect("short");
    for (cleared, anchor) in
        [(false, None), (true, None), (false, Some(anchor.clone())), (true, Some(anchor))]
    {
        for proof in [None, Some(proof(4, 1))] {
            let own = Bytes::from_static(b"of the protocol");
            let floor =
                Floor { slot: slot(4), view: View::new(2), cleared, own, anchor: anchor.clone(), proof };
            let record = floor.record();
            assert_eq!(Floor::read(record.clone()), Ok(floor));
            let mut cut = record.clone();
            cut.payload.truncate(10);
            assert!(Floor::read(cut).is_err(), "cut off");
            let mut other = record;
            other.head = Bytes::from([&other.head[..16], &[4]].concat());
            assert!(Floor::read(other).is_err(), "what no program of ours writes");
        }
    }
}
