//! The parts that need no cluster.

use super::etcd::memory::Held;
use super::median::Median;
use super::{append, cpu, kv, load, quota, report, series};
use quorate_floor::{FaultModel, Sync};
use quorate_kv::Totals;
use quorate_types::Items;

#[test]
fn numbered_commands_are_a_list_that_adds_up() {
    for bytes in [16, 24, 40] {
        let (body, sum) = append::body(5, bytes, 100);
        let items = Items::parse(&body).expect("a list");
        let mut totals = Totals::default();
        items.iter().for_each(|command| totals.add(command));
        assert_eq!((totals.count, totals.sum), (5, sum));
        assert!(items.iter().all(|command| command.len() == bytes));
        let first = items.iter().next().and_then(|command| command.first_chunk::<8>().copied());
        assert_eq!(first.map(u64::from_le_bytes), Some(101));
    }
}

#[test]
fn processor_time_is_found_behind_any_name() {
    let stat = "42 (a ) b (c)) S 1 42 42 0 -1 4194304 100 0 0 0 250 75 0 0 20 0 3 0 12345 1000 50";
    let cpu = cpu::parse_stat(stat).expect("a line of /proc/PID/stat");
    assert!((cpu.user_s - 250.0 * cpu::tick_s()).abs() < 1e-9);
    assert!((cpu.system_s - 75.0 * cpu::tick_s()).abs() < 1e-9);
    assert!(cpu::parse_stat("42 (short) S 1").is_none());
}

#[test]
fn our_own_processor_time_grows() {
    let me = std::process::id();
    let before = cpu::of_process(me).expect("our own /proc entry");
    let mut random = kv::Random(7);
    let mut sum = 0u64;
    while cpu::of_process(me).expect("our own /proc entry").since(before).total_s() < 3.0 * cpu::tick_s() {
        sum = (0..100_000).fold(sum, |sum, _| sum.wrapping_add(random.next()));
    }
    assert!(sum != 0 && cpu::memory_of(me).expect("our own memory") > 0 && cpu::of_machine_s() > 0.0);
}

#[test]
fn memory_is_read_as_linux_writes_it() {
    let status = "Name:\tx\nVmHWM:\t   4096 kB\nVmRSS:\t   2048 kB\nRssAnon:\t    1024 kB\nRssFile:\t 5 kB\n";
    let held = Held::parse(status).expect("a status");
    assert_eq!((held.peak_mib, held.resident_mib, held.anonymous_mib), (4.0, 2.0, 1.0));
    assert!(Held::parse("VmRSS:\t 1 kB\n").is_none());
}

#[test]
fn medians() {
    assert_eq!(report::median([3.0, 1.0, 2.0].into_iter()), 2.0);
    assert_eq!(report::median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
    assert_eq!(report::median(std::iter::empty()), 0.0);
}

#[test]
fn keys_are_the_same_in_every_run_and_differ() {
    let keys: std::collections::BTreeSet<_> = (0..10_000).map(kv::key).collect();
    assert_eq!(keys.len(), 10_000);
    assert_eq!(kv::key(5), kv::key(5));
}

#[test]
fn the_floor_promises_what_we_promise() {
    assert_eq!(series::sync_of("memory"), Sync::Memory);
    assert_eq!(series::sync_of("async"), Sync::Write);
    assert_eq!(series::sync_of("group"), Sync::Fdatasync);
}

/// Beside replicas that may lie it is the null program that agrees for them, synced as ours are.
#[test]
fn the_floor_agrees_for_the_same_faults() {
    let config = quorate_floor::Config { window: 7, ..quorate_floor::Config::default() };
    let group = report::Durability { durability: "group".into(), sync_delay_us: 40 };
    let floor = series::beside(&config, &group, FaultModel::Byzantine);
    assert_eq!((floor.fault_model, floor.followers, floor.in_flight), (FaultModel::Byzantine, 3, 1));
    assert_eq!((floor.sync, floor.sync_delay_us, floor.window), (Sync::Fdatasync, 40, 7));
    let floor = series::beside(&floor, &group, FaultModel::Crash);
    assert_eq!((floor.fault_model, floor.followers), (FaultModel::Crash, 2));
}

/// A future that a thread completes after this many milliseconds.
fn later(value: u64) -> impl Future<Output = u64> {
    let done = std::sync::Arc::new(std::sync::Mutex::new(None));
    let mut begun = false;
    std::future::poll_fn(move |context| {
        if !std::mem::replace(&mut begun, true) {
            let (waker, done) = (context.waker().clone(), done.clone());
            std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(value));
                *done.lock().expect("no panic") = Some(value);
                waker.wake();
            });
        }
        match done.lock().expect("no panic").take() {
            Some(value) => std::task::Poll::Ready(value),
            None => std::task::Poll::Pending,
        }
    })
}

/// Also those that are done while an earlier one is still waited for: nobody wakes us for them again.
#[test]
fn all_futures_are_waited_for_whatever_their_order() {
    let futures = [60, 1, 30, 2].map(|value| Box::pin(later(value)));
    assert_eq!(load::all(futures.into()), [60, 1, 30, 2]);
}

#[test]
fn the_place_of_quotas_is_found_among_the_mounts() {
    let mounts = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                  cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0\n";
    assert_eq!(quota::hierarchy(mounts), Some("/sys/fs/cgroup/cpu".into()));
    assert_eq!(quota::hierarchy("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"), None);
}

#[test]
fn a_median_has_bounds() {
    assert_eq!(Median::of(Vec::new()), None);
    let of = |count: u32| Median::of((1..=count).rev().map(f64::from).collect()).expect("a median");
    let eleven = of(11);
    assert_eq!((eleven.median, eleven.low, eleven.high, eleven.of), (6.0, 2.0, 10.0, 11));
    // One of eleven below is 12 of 2048 cases, and as many above.
    assert!((eleven.confidence - (1.0 - 24.0 / 2048.0) * 100.0).abs() < 1e-9, "{eleven:?}");
    let four = of(4);
    assert_eq!((four.median, four.low, four.high, four.confidence), (2.5, 1.0, 4.0, 87.5));
    // Fewer bound nothing closer than all of them.
    assert_eq!((of(1).low, of(1).high, of(1).confidence), (1.0, 1.0, 0.0));
    // Of many, a share that shrinks: 41 to 60 of 100.
    let hundred = of(100);
    assert_eq!((hundred.low, hundred.high), (40.0, 61.0));
}
