use super::*;

#[test]
fn quantiles_are_samples_that_were_measured() {
    let mut ns: Vec<u64> = (1..=1000).rev().map(|us| us * 1000).collect();
    let latency = Latency::of(&mut ns);
    assert_eq!(latency.samples, 1000);
    assert_eq!((latency.p50_us, latency.p99_us), (500.0, 990.0));
    assert_eq!((latency.p999_us, latency.max_us), (999.0, 1000.0));
}

#[test]
fn no_sample_and_one_sample_are_fine() {
    assert_eq!(Latency::of(&mut []), Latency::default());
    let one = Latency::of(&mut [2500]);
    assert_eq!((one.p50_us, one.p99_us, one.max_us), (2.5, 2.5, 2.5));
}
