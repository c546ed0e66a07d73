use super::utc;
use quorate_types::AgreedTime;

#[test]
fn times_are_shown_as_calendars_do() {
    // Compared with `date -u -d @SECONDS`.
    let cases = [
        (0, "1970-01-01 00:00:00.000 UTC"),
        (951_782_399_999, "2000-02-28 23:59:59.999 UTC"),
        (951_782_400_000, "2000-02-29 00:00:00.000 UTC"),
        (951_868_800_000, "2000-03-01 00:00:00.000 UTC"),
        (1_735_689_599_500, "2024-12-31 23:59:59.500 UTC"),
        (1_735_689_600_000, "2025-01-01 00:00:00.000 UTC"),
        (4_107_542_400_000, "2100-03-01 00:00:00.000 UTC"),
    ];
    for (millis, shown) in cases {
        assert_eq!(utc(AgreedTime::from_nanos(millis * 1_000_000)), shown);
    }
    assert_eq!(utc(AgreedTime::from_nanos(u64::MAX)), "2554-07-21 23:34:33.709 UTC");
}
