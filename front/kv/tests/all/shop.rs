//! The bookshop: what its transactions do, what it refuses, and that its hints name every table that is used.

use crate::support::ctx;
use proptest::prelude::*;
use quorate_execute::{InStore, KeyUse, Parallel, ParallelService, ReplySink, Service};
use quorate_kv::shop::{
    Browsing, Refusal, Rows, Shop, ShopCommand, ShopReply, ShopTotals, Size, Table, Transaction, carry_out,
    totals,
};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const SMALL: Size = Size { items: 40, customers: 10, orders: 30 };

type Service1 = InStore<Parallel<Shop>>;

fn ask(service: &mut Service1, what: Transaction) -> ShopReply {
    raw(service, &ShopCommand { sleep_us: 0, rounds: 0, what }.encode())
}

fn raw(service: &mut Service1, command: &[u8]) -> ShopReply {
    let mut reply = Vec::new();
    service.execute(command, &ctx(), &mut ReplySink::new(&mut reply, 1 << 16));
    ShopReply::decode(&reply).expect("a reply")
}

fn done(service: &mut Service1, what: Transaction) -> Vec<u64> {
    match ask(service, what) {
        ShopReply::Done(numbers) => numbers,
        ShopReply::Refused(why) => panic!("{what:?}: {why:?}"),
    }
}

fn sums(service: &Service1) -> ShopTotals {
    let mut answer = Vec::new();
    service.query(b"", &ctx(), &mut ReplySink::new(&mut answer, 100));
    ShopTotals::decode(&answer).expect("totals")
}

fn open() -> Service1 {
    let mut service = InStore::new(Parallel::new(Shop));
    assert_eq!(done(&mut service, Transaction::Open(SMALL)), [40, 10, 30]);
    service
}

#[test]
fn what_is_bought_leaves_the_stock_and_is_the_most_recent_order() {
    let mut service = open();
    let before = sums(&service);
    assert_eq!((before.orders, before.sold, before.in_carts), (30, 0, 0));
    let cart = |item, quantity| Transaction::DoCart { cart: 3, item, quantity };
    assert_eq!(done(&mut service, cart(5, 2))[..2], [1, 2]);
    assert_eq!(done(&mut service, cart(9, 1))[..2], [2, 3]);
    let filled = done(&mut service, cart(5, 1));
    assert_eq!(filled[..2], [2, 4]);
    assert_eq!(sums(&service).in_carts, 4);
    let bought = done(&mut service, Transaction::DoBuyConfirm { cart: 3, customer: 7 });
    assert_eq!(bought[..2], [30, 4], "its number follows the others");
    assert!(bought[2] <= filled[2] && bought[2] * 2 >= filled[2], "with a discount of at most half");
    let recent = done(&mut service, Transaction::GetMostRecentOrder { customer: 7 });
    assert_eq!(recent[..2], [30, bought[2]]);
    assert_eq!(recent[3..], [5, 3, 9, 1]);
    let after = sums(&service);
    assert_eq!((after.orders, after.sold, after.in_carts), (31, 4, 0));
    assert_eq!((after.ordered, after.lines), (before.ordered + 4, before.lines + 2));
    assert_eq!(after.stock + after.sold, after.delivered);
    assert_eq!(after.paid, before.paid + bought[2]);
}

#[test]
fn the_best_sellers_of_a_subject_come_in_their_order() {
    let mut service = open();
    // Of 40 items 1 and 25 have subject 1.
    done(&mut service, Transaction::DoCart { cart: 0, item: 25, quantity: 30 });
    done(&mut service, Transaction::DoBuyConfirm { cart: 0, customer: 0 });
    let best = done(&mut service, Transaction::GetBestSellers { subject: 1 });
    let (pairs, _) = best.as_chunks::<2>();
    assert_eq!(pairs[0][0], 25);
    assert!(pairs[0][1] >= 30 && pairs.iter().all(|[item, _]| item % 24 == 1), "{pairs:?}");
    assert!(pairs.is_sorted_by(|one, next| one[1] >= next[1]), "{pairs:?}");
    assert_eq!(done(&mut service, Transaction::GetBestSellers { subject: 99 }), [0_u64; 0]);
}

#[test]
fn related_items_come_with_their_prices() {
    let mut service = open();
    let related = done(&mut service, Transaction::GetRelated { item: 0 });
    assert_eq!(related.len(), 10);
    assert!(related.as_chunks::<2>().0.iter().all(|[item, cents]| *item < 40 && *cents >= 100));
}

#[test]
fn what_can_not_be_is_refused_and_changes_nothing() {
    let mut service = open();
    let cart = |item, quantity| Transaction::DoCart { cart: 1, item, quantity };
    for item in 0..40 {
        done(&mut service, Transaction::DoCart { cart: 2, item, quantity: 100 });
    }
    done(&mut service, cart(1, 60));
    let root = service.objects().version().root();
    let refused = [
        (Transaction::Open(SMALL), Refusal::Open),
        (Transaction::GetRelated { item: 40 }, Refusal::Item),
        (Transaction::GetMostRecentOrder { customer: 10 }, Refusal::Customer),
        (Transaction::GetMostRecentOrder { customer: u32::MAX }, Refusal::Customer),
        (cart(40, 1), Refusal::Item),
        (cart(u32::MAX, 1), Refusal::Item),
        (cart(1, 0), Refusal::Quantity),
        (cart(1, 41), Refusal::Quantity),
        (cart(1, u32::MAX), Refusal::Quantity),
        (Transaction::DoBuyConfirm { cart: 1, customer: 10 }, Refusal::Customer),
        (Transaction::DoBuyConfirm { cart: 9, customer: 1 }, Refusal::EmptyCart),
        (Transaction::DoBuyConfirm { cart: u32::MAX, customer: 1 }, Refusal::EmptyCart),
        (Transaction::DoBuyConfirm { cart: 2, customer: 1 }, Refusal::Stock),
    ];
    for (what, why) in refused {
        assert_eq!(ask(&mut service, what), ShopReply::Refused(why), "{what:?}");
    }
    for bytes in [&b""[..], &[0; 12], &[0; 14], &[9; 40]] {
        assert_eq!(raw(&mut service, bytes), ShopReply::Refused(Refusal::NoCommand));
    }
    assert_eq!(service.objects().version().root(), root);
}

#[test]
fn a_cart_has_as_many_lines_as_it_may() {
    let mut service = InStore::new(Parallel::new(Shop));
    done(&mut service, Transaction::Open(Size { items: 100, customers: 1, orders: 0 }));
    for item in 0..64 {
        done(&mut service, Transaction::DoCart { cart: 0, item, quantity: 1 });
    }
    let full = ask(&mut service, Transaction::DoCart { cart: 0, item: 64, quantity: 1 });
    assert_eq!(full, ShopReply::Refused(Refusal::FullCart));
    assert_eq!(done(&mut service, Transaction::DoCart { cart: 0, item: 63, quantity: 1 })[..2], [64, 65]);
    assert_eq!(done(&mut service, Transaction::GetMostRecentOrder { customer: 0 }), [0_u64; 0]);
}

#[test]
fn a_shop_that_is_not_open_has_nothing() {
    let mut service = InStore::new(Parallel::new(Shop));
    assert_eq!(sums(&service), ShopTotals::default());
    assert_eq!(done(&mut service, Transaction::GetBestSellers { subject: 0 }), [0_u64; 0]);
    assert_eq!(ask(&mut service, Transaction::GetRelated { item: 0 }), ShopReply::Refused(Refusal::Item));
}

#[test]
fn commands_over_a_limit_are_none() {
    let what = Transaction::GetRelated { item: 1 };
    let wrong = [
        ShopCommand { sleep_us: 1_000_001, rounds: 0, what },
        ShopCommand { sleep_us: 0, rounds: u64::MAX, what },
        ShopCommand { sleep_us: 0, rounds: 0, what: Transaction::Open(Size { items: 0, ..SMALL }) },
        ShopCommand { sleep_us: 0, rounds: 0, what: Transaction::Open(Size { customers: 20_001, ..SMALL }) },
        ShopCommand { sleep_us: 0, rounds: 0, what: Transaction::Open(Size { orders: 20_001, ..SMALL }) },
    ];
    for command in wrong {
        assert_eq!(ShopCommand::decode(&command.encode()), None, "{command:?}");
    }
    assert_eq!(
        ShopCommand::decode(&[&ShopCommand { sleep_us: 0, rounds: 0, what }.encode()[..], &[0]].concat()),
        None
    );
}

/// Rows in a map, and the tables that were read and written.
#[derive(Default)]
struct Noted {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    read: RefCell<BTreeSet<Table>>,
    written: BTreeSet<Table>,
}

fn table(key: &[u8]) -> Table {
    Table::of(key).expect("every key belongs to a table")
}

impl Rows for Noted {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.read.borrow_mut().insert(table(key));
        self.rows.get(key).map(|row| Cow::Borrowed(&row[..]))
    }

    fn each(&self, start: &[u8], end: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        self.read.borrow_mut().insert(table(start));
        let range = self.rows.range(start.to_vec()..end.to_vec());
        for (key, row) in range {
            assert_eq!(table(key), table(start), "a range is one of a single table");
            if !each(key, row) {
                return;
            }
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.written.insert(table(key));
        self.rows.insert(key.to_vec(), value.to_vec());
    }

    fn remove(&mut self, key: &[u8]) {
        self.written.insert(table(key));
        self.rows.remove(key);
    }
}

/// The tables that hints name as read and as written.
fn hinted(what: Transaction) -> (BTreeSet<Table>, BTreeSet<Table>) {
    let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
    let command = ShopCommand { sleep_us: 0, rounds: 0, what }.encode();
    assert!(Shop.hints(&command, &mut |key| match key {
        KeyUse::Read(key) => drop(read.insert(table(key))),
        KeyUse::Write(key) => drop(written.insert(table(key))),
        KeyUse::ReadRange { start, end } => {
            let end = end.expect("an end");
            assert!(start == table(start).name() && end > start, "the name and all rows");
            for name in Table::ALL.iter().filter(|of| **of != table(start)).map(|of| of.name()) {
                assert!(!(start..end).contains(&name), "no other table");
            }
            read.insert(table(start));
        }
    }));
    (read, written)
}

#[test]
fn hints_are_those_of_the_paper() {
    use Table::{
        Address, Author, CcXacts, Country, Customer, Item, OrderLine, ShoppingCart, ShoppingCartLine,
    };
    let expected: [(Transaction, &[Table], &[Table]); 5] = [
        (Transaction::GetBestSellers { subject: 1 }, &[Item, Author, OrderLine], &[]),
        (Transaction::GetRelated { item: 1 }, &[Item], &[]),
        (
            Transaction::GetMostRecentOrder { customer: 1 },
            &[Customer, CcXacts, Address, Country, OrderLine],
            &[],
        ),
        (Transaction::DoCart { cart: 1, item: 1, quantity: 1 }, &[Item], &[ShoppingCartLine, ShoppingCart]),
        (
            Transaction::DoBuyConfirm { cart: 1, customer: 1 },
            &[Customer, Address],
            &[OrderLine, Item, CcXacts, ShoppingCartLine],
        ),
    ];
    for (what, read, written) in expected {
        let sets = (read.iter().copied().collect(), written.iter().copied().collect());
        assert_eq!(hinted(what), sets, "{what:?}");
    }
}

pub(crate) fn any_transaction() -> impl Strategy<Value = Transaction> {
    let (cart, item) = (0..4_u32, 0..42_u32);
    prop_oneof![
        1 => Just(Transaction::Open(SMALL)),
        3 => (0..25_u32).prop_map(|subject| Transaction::GetBestSellers { subject }),
        3 => item.clone().prop_map(|item| Transaction::GetRelated { item }),
        3 => (0..11_u32).prop_map(|customer| Transaction::GetMostRecentOrder { customer }),
        9 => (cart.clone(), item, 0..60_u32)
            .prop_map(|(cart, item, quantity)| Transaction::DoCart { cart, item, quantity }),
        6 => (cart, 0..11_u32).prop_map(|(cart, customer)| Transaction::DoBuyConfirm { cart, customer }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// After every transaction what was delivered is in stock or sold, and what was ordered is paid. Hints name every table that was used.
    #[test]
    fn totals_are_right_and_hints_name_what_is_used(list in prop::collection::vec(any_transaction(), 1..80)) {
        let mut rows = Noted::default();
        carry_out(&mut rows, &Transaction::Open(SMALL));
        let (mut orders, mut quantity, mut paid) = (0, 0, 0);
        let opened = totals(&rows);
        for what in list {
            let before = rows.rows.clone();
            (rows.read, rows.written) = Default::default();
            let reply = carry_out(&mut rows, &what);
            let (read, written) = hinted(what);
            let used: BTreeSet<Table> = read.union(&written).copied().collect();
            prop_assert!(rows.read.borrow().is_subset(&used), "{what:?} read {:?}", rows.read);
            prop_assert!(rows.written.is_subset(&written), "{what:?} wrote {:?}", rows.written);
            match (&what, reply) {
                (_, ShopReply::Refused(_)) => prop_assert!(rows.rows == before, "{what:?} changed something"),
                (Transaction::DoBuyConfirm { .. }, ShopReply::Done(bought)) => {
                    (orders, quantity, paid) = (orders + 1, quantity + bought[1], paid + bought[2]);
                }
                (Transaction::DoCart { .. }, _) => {}
                _ => prop_assert!(rows.rows == before, "{what:?} changed something"),
            }
            let now = totals(&rows);
            prop_assert_eq!(now.stock + now.sold, now.delivered);
            prop_assert_eq!((now.orders, now.sold), (opened.orders + orders, quantity));
            prop_assert_eq!((now.ordered, now.paid), (opened.ordered + quantity, opened.paid + paid));
            prop_assert!(now.stock < 1 << 30, "no stock fell below none");
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), kind in 0..7_u8) {
        let mut service = open();
        raw(&mut service, &bytes);
        let mut likely = vec![0; 12];
        likely.push(kind);
        likely.extend_from_slice(&bytes);
        raw(&mut service, &likely);
        quorate_kv::fuzzing::decode(&likely);
    }

    #[test]
    fn commands_and_replies_come_back(what in any_transaction(), sleep_us in 0..=1_000_000_u32, rounds in 0..1_u64 << 34, numbers in prop::collection::vec(any::<u64>(), 0..50)) {
        let command = ShopCommand { sleep_us, rounds, what };
        prop_assert_eq!(ShopCommand::decode(&command.encode()), Some(command));
        quorate_kv::fuzzing::decode(&command.encode());
        let reply = ShopReply::Done(numbers);
        prop_assert_eq!(ShopReply::decode(&reply.encode()), Some(reply));
    }
}

#[test]
fn browsing_mostly_reads_and_every_purchase_finds_something_in_its_cart() {
    let size = Size { items: 1000, customers: 100, orders: 50 };
    let (mut service, mut mix) = (InStore::new(Parallel::new(Shop)), Browsing::new(size, 8, 1));
    done(&mut service, Transaction::Open(size));
    let (mut reads, mut bought, mut refused) = (0, 0, 0);
    for at in 0..20_000 {
        let what = mix.next(at % 8);
        let reply = ask(&mut service, what);
        reads += u32::from(what.tables().1.is_empty());
        bought += u32::from(matches!(what, Transaction::DoBuyConfirm { .. }));
        refused += u32::from(matches!(reply, ShopReply::Refused(_)));
        if matches!(what, Transaction::DoBuyConfirm { .. }) {
            assert_ne!(reply, ShopReply::Refused(Refusal::EmptyCart));
        }
    }
    assert!((18_800..19_200).contains(&reads), "{reads} of 20,000 read");
    assert!((150..260).contains(&bought), "{bought} of 20,000 bought");
    assert_eq!(refused, 0);
}
