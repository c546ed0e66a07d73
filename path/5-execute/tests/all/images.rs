//! Images of services of all kinds over one random history: INV-EXEC-4, INV-EXEC-5. That the histories find bugs is shown by
//! `RUSTFLAGS="--cfg planted" cargo test -p quorate-execute --test all planted -- --ignored`.

use crate::histories::{play, steps};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Plain, in the store or tracked, however copying ahead, borders and restarts are strewn in: replicas answer alike, give equal
    /// images at equal places, and go on alike from them.
    #[test]
    fn a_service_is_the_same_however_it_keeps_its_state(steps in steps()) {
        prop_assert_eq!(play(&steps), Ok(()));
    }
}
