use super::Hub;
use quorate_etcd::{Command, Etcd, EtcdConfig, Observer as _, Wants, proto};
use quorate_execute::{Context, InStore, Observer, ReplySink, Service as _, Store, Tells};
use quorate_types::{AgreedTime, Seq};

/// A service, and who hears what it changes.
type Observed = (InStore<Etcd>, Box<dyn Observer>);

fn put(service: &mut Observed, bytes: usize) {
    let (mut message, mut command, mut reply) = (vec![], vec![], vec![]);
    proto::bytes_field(&mut message, 1, b"key");
    proto::bytes_field(&mut message, 2, &vec![1; bytes]);
    Command::Put.encode(&message, &mut command);
    let ctx = Context::at(Seq::FIRST, AgreedTime::ZERO);
    service.0.execute(&command, &ctx, &mut ReplySink::new(&mut reply, 1 << 20));
    assert_eq!(reply[0], 0);
    tell(service);
}

/// What changed is final.
fn tell((service, observer): &mut Observed) {
    if let Some(events) = service.tells().and_then(Tells::take_events) {
        observer.told(events);
    }
}

fn observed() -> (Hub, Observed) {
    let hub = Hub::new();
    let mut service = InStore::new(Etcd::new(EtcdConfig::default()).observed(hub.clone()));
    let observer = service.tells().and_then(Tells::observer).expect("the hub");
    (hub, (service, observer))
}

#[test]
fn nothing_is_queued_while_nobody_watches() {
    let (hub, mut service) = observed();
    put(&mut service, 10);
    assert_eq!(hub.revision(), 2);
    assert!(hub.take().is_none());
    hub.want(Wants::Events);
    put(&mut service, 10);
    let events = hub.take().expect("queued");
    assert_eq!((events.before, events.revision, events.iter().count()), (2, 3, 1));
    assert_eq!(hub.wants(), Wants::Events);
}

#[test]
fn a_checkpoint_that_takes_the_place_of_the_state_is_told() {
    let (hub, mut service) = observed();
    hub.want(Wants::Events);
    put(&mut service, 10);
    let (_, mut other) = observed();
    (0..5).for_each(|_| put(&mut other, 10));
    let objects = other.0.objects().version();
    *service.0.store_mut().expect("it has one") = Store::from_version(&objects);
    service.0.restored();
    tell(&mut service);
    assert_eq!(hub.revision(), 6);
    assert_eq!(hub.take().map(|events| events.revision), Some(2));
    let jump = hub.take().expect("queued");
    assert_eq!((jump.before, jump.revision, jump.wants), (2, 6, Wants::Nothing));
}
