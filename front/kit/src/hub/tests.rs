use super::{Hub, QUEUE_BYTES_MAX};

#[test]
fn nothing_is_queued_while_nobody_watches() {
    let hub = Hub::new();
    hub.reached(2);
    hub.publish(10, "unseen");
    assert_eq!((hub.position(), hub.take()), (2, None));
    hub.want(1);
    hub.reached(3);
    hub.publish(10, "seen");
    assert_eq!((hub.position(), hub.take(), hub.take()), (3, Some("seen"), None));
    assert_eq!(hub.wanted(), 1);
}

#[test]
fn a_full_queue_drops_what_is_in_it() {
    let hub = Hub::new();
    hub.want(1);
    let puts = 2 * QUEUE_BYTES_MAX as i64 / 500_000;
    for position in 1..=puts {
        hub.reached(position);
        hub.publish(500_000, position);
    }
    let left: Vec<i64> = std::iter::from_fn(|| hub.take()).collect();
    assert!((left.len() as i64) < puts && !left.is_empty());
    // What is left is without a gap, and ends with the newest.
    assert!(left.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    assert_eq!(left.last(), Some(&hub.position()));
}

#[test]
fn a_position_that_was_read_never_leads_back() {
    let hub = Hub::<()>::new();
    hub.saw(5);
    hub.saw(3);
    assert_eq!(hub.position(), 5);
    // A repaired replica does.
    hub.reached(4);
    assert_eq!(hub.position(), 4);
}

#[tokio::test]
async fn whoever_waits_is_woken_by_what_came_before_it_waited() {
    let hub = Hub::new();
    hub.want(1);
    hub.publish(1, ());
    hub.filled().await;
    assert_eq!(hub.take(), Some(()));
}
