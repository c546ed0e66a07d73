use super::Recovered;
use quorate_state::checkpoint::{Image, Opened, SystemPart};
use quorate_state::store::Store;
use quorate_types::Seq;

fn opened(lost: &[&str]) -> Opened {
    let image = Image {
        seq: Seq::new(13),
        border: 1,
        system: SystemPart::default(),
        objects: Store::new().version(),
    };
    let lost = lost.iter().map(|file| ((*file).to_owned(), "it is rotten".to_owned())).collect();
    Opened { image: Some(image), lost, ..Opened::default() }
}

/// The log may begin after the checkpoint that is lost.
#[test]
fn an_older_checkpoint_is_known_for_one() {
    let outdated = |lost: &[&str]| Recovered::new(opened(lost), false).expect("one is whole").outdated;
    assert!(!outdated(&[]));
    assert!(outdated(&["00000000000000000050.full"]));
}
