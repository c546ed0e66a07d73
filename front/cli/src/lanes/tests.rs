use super::{Place, parse_place};
use quorate_types::InstanceId;

#[test]
fn places_are_an_instance_and_a_lane_or_auto() {
    assert_eq!(parse_place("2=3"), Ok(Place::On(InstanceId::new(2), 3)));
    assert_eq!(parse_place("auto"), Ok(Place::Auto));
    for wrong in ["", "2", "2=", "=3", "0=1", "1=0", "a=b", "70000=1"] {
        assert!(parse_place(wrong).is_err(), "{wrong}");
    }
}
