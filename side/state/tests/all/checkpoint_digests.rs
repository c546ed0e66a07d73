//! An image has two digests: of the state alone, as execution has it, and of all of it.

use quorate_state::checkpoint::{Image, Manifest, SystemPart};
use quorate_state::store::Store;
use quorate_types::Seq;

fn image(order: &'static str, execution: &'static str, value: &[u8]) -> Image {
    let mut store = Store::new();
    store.put(b"key", value);
    let system = SystemPart { order: order.into(), execution: execution.into() };
    Image { seq: Seq::new(90), border: 3, system, objects: store.version() }
}

#[test]
fn equal_states_that_were_ordered_otherwise_have_equal_digests_of_the_state() {
    let (one, other) = (image("anchors", "sessions", b"value"), image("other anchors", "sessions", b"value"));
    assert_eq!(one.digests().state, other.digests().state);
    assert_ne!(one.digests().image, other.digests().image);
    // Who executes, and orders nothing, knows no anchor and numbers no border.
    let alone = Image { border: 0, system: "sessions".into(), ..one.clone() };
    assert_eq!(one.digests().state, alone.digests().state);
}

#[test]
fn whatever_execution_has_stands_in_both() {
    let digests = image("anchors", "sessions", b"value").digests();
    let later = Image { seq: Seq::new(91), ..image("anchors", "sessions", b"value") };
    for other in [image("anchors", "other sessions", b"value"), image("anchors", "sessions", b"other"), later]
    {
        assert_ne!(digests.state, other.digests().state);
        assert_ne!(digests.image, other.digests().image);
    }
    // Where one half ends and the other begins is no matter of taste.
    let shifted = image("anchorss", "essions", b"value").digests();
    assert_ne!((digests.state, digests.image), (shifted.state, shifted.image));
}

/// A manifest alone says both, whoever it came from.
#[test]
fn manifests_say_both() {
    let image = image("anchors", "sessions", b"value");
    let manifest = Manifest::decode(&Manifest::of(&image).encode()).expect("a manifest");
    assert_eq!((manifest.digests(), manifest.digest()), (image.digests(), image.digest()));
    assert_eq!(manifest.system().len(), 2, "each half is cut by itself");
}
