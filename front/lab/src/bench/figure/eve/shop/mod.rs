//! The figures `eve-3`, `eve-10` and `eve-11`: a bookshop with TPC-W's browsing mix, beside servers that are not replicated, and beside a primary with a passive
//! backup.
//!
//! After figures 3.3, 3.10 and 3.11 of Kapritsos' dissertation (sections 3.5.1 and 3.5.5). Files: `speedup` (eve-3), `passive` (eve-10 and eve-11).

pub(in super::super) mod passive;
pub(in super::super) mod speedup;

use super::super::refuse;
use crate::bench::load::{self, Call, Work};
use crate::bench::report::Check;
use crate::bench::target::Target;
use quorate::client::{Answer, Encoded, ReadOptions};
use quorate_command::failure::{Failure, Outcome};
use quorate_kv::shop::{Browsing, Refusal, ShopCommand, ShopReply, ShopTotals, Size, Transaction};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long replicas may take to execute everything.
const CATCH_UP: Duration = Duration::from_secs(60);

/// The options of these figures alone.
#[derive(Debug, clap::Args)]
pub(crate) struct ShopArgs {
    /// For eve-3, -10 and -11: how long a transaction sleeps beside its own work, in microseconds; about what the paper's take
    #[arg(long, value_name = "US", default_value_t = 5000)]
    transaction_us: u32,
    /// For eve-3, -10 and -11: items of the shop
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    shop_items: u32,
    /// For eve-3, -10 and -11: orders before it opens; best sellers are those of the last 3333
    #[arg(long, value_name = "COUNT", default_value_t = 4000)]
    shop_orders: u32,
    /// For eve-10 and -11: how many callers, one number after the other, each with one transaction outstanding
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [1, 4, 16, 64, 128])]
    shoppers: Vec<usize>,
    /// For eve-10 and -11: what the link to a passive backup carries, in Mbit per second
    #[arg(long, value_name = "MBIT", default_value_t = 1000)]
    backup_mbit: u32,
    /// For eve-10 and -11: how often a passive primary ships pages, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 25)]
    ship_ms: u32,
}

impl ShopArgs {
    pub(super) fn check(&self) -> Outcome<()> {
        if self.transaction_us > 1_000_000 {
            return refuse("--transaction-us is at most 1000000");
        }
        if !(1..=Size::MOST).contains(&self.shop_items) || self.shop_orders > Size::MOST {
            return refuse("--shop-items is 1 to 20000, and --shop-orders at most 20000");
        }
        if self.shoppers.is_empty() || self.shoppers.iter().any(|count| !(1..=1000).contains(count)) {
            return refuse("--shoppers is a list of numbers from 1 to 1000");
        }
        if !(1..=100_000).contains(&self.backup_mbit) || !(1..=1000).contains(&self.ship_ms) {
            return refuse("--backup-mbit is 1 to 100000, and --ship-ms 1 to 1000");
        }
        Ok(())
    }

    /// The shop: as many customers as TPC-W has for one emulated browser.
    const fn size(&self) -> Size {
        Size { items: self.shop_items, customers: 2880, orders: self.shop_orders }
    }

    /// What a page says of the load.
    fn load(&self) -> String {
        format!(
            "TPC-W's browsing mix of the five most frequent transactions (75 % getRelated, 20 % getBestSellers, 0.5 % getMostRecentOrder, 5 % doCart and doBuyConfirm); each \
             sleeps for {} us beside its own work; a shop of {} items and {} orders",
            self.transaction_us, self.shop_items, self.shop_orders
        )
    }
}

/// Waits for a lock. What a thread that panicked left is as good: all of them are told.
pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was bought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sold {
    /// Orders of before the shop opened.
    before: u64,
    pub(super) orders: u64,
    items: u64,
}

impl Sold {
    /// Whether a shop has these orders, and all others of its sums agree.
    pub(super) fn of(&self, totals: &ShopTotals) -> Result<(), String> {
        let expected = (self.before + self.orders, self.items);
        let found = (totals.orders, totals.sold);
        if found != expected {
            return Err(format!("{found:?} orders and items sold, {expected:?} were answered"));
        }
        if totals.stock + totals.sold != totals.delivered {
            return Err(format!("what was delivered is neither in stock nor sold: {totals:?}"));
        }
        Ok(())
    }
}

/// Callers who browse.
pub(super) struct Shopping {
    mix: Browsing,
    sleep_us: u32,
    asked: Vec<Transaction>,
    pub(super) answered: u64,
    /// How many carts were filled.
    pub(super) carts: u64,
    pub(super) sold: Sold,
}

impl Shopping {
    pub(super) fn new(size: Size, callers: usize, sleep_us: u32) -> Self {
        Self {
            mix: Browsing::new(size, callers as u32, 11),
            sleep_us,
            asked: vec![Transaction::Open(size); callers],
            answered: 0,
            carts: 0,
            sold: Sold { before: size.orders.into(), ..Sold::default() },
        }
    }

    /// The next command of a caller.
    pub(super) fn ask(&mut self, caller: usize) -> Vec<u8> {
        let what = self.mix.next(caller);
        self.asked[caller] = what;
        ShopCommand { sleep_us: self.sleep_us, rounds: 0, what }.encode()
    }

    /// The reply to a caller's last command.
    pub(super) fn take(&mut self, caller: usize, reply: &[u8]) -> Outcome<()> {
        let asked = self.asked[caller];
        self.answered += 1;
        match (asked, ShopReply::decode(reply)) {
            (Transaction::DoBuyConfirm { .. }, Some(ShopReply::Done(numbers))) => {
                self.sold.orders += 1;
                self.sold.items += numbers.get(1).copied().unwrap_or_default();
            }
            (Transaction::DoCart { .. }, Some(ShopReply::Done(_))) => self.carts += 1,
            (_, Some(ShopReply::Done(_))) => {}
            // What may come about in a small shop.
            (_, Some(ShopReply::Refused(Refusal::Quantity | Refusal::FullCart | Refusal::Stock))) => {}
            (_, Some(ShopReply::Refused(Refusal::EmptyCart))) => {}
            (_, other) => return Err(Failure::new(format!("{asked:?} was answered with {other:?}"))),
        }
        Ok(())
    }
}

impl Work for Shopping {
    fn next(&mut self, slot: usize) -> Call {
        Call::Commands(Encoded::one(&self.ask(slot)))
    }

    fn answered(&mut self, slot: usize, answer: &Answer) -> Outcome<()> {
        self.take(slot, answer.first().unwrap_or_default())
    }
}

/// Opens a shop.
struct Opening(Size);

impl Work for Opening {
    fn next(&mut self, _: usize) -> Call {
        let command = ShopCommand { sleep_us: 0, rounds: 0, what: Transaction::Open(self.0) };
        Call::Commands(Encoded::one(&command.encode()))
    }

    fn answered(&mut self, _: usize, answer: &Answer) -> Outcome<()> {
        match answer.first().and_then(ShopReply::decode) {
            Some(ShopReply::Done(_)) => Ok(()),
            other => Err(Failure::new(format!("the shop could not be opened: {other:?}"))),
        }
    }
}

/// Opens the shop of a cluster.
fn open(target: &mut Target, size: Size) -> Outcome<()> {
    load::fill(target, 1, 1, &mut Opening(size), "open the shop")
}

/// Whether every replica has what was bought.
fn verify(target: &Target, sold: &Sold) -> Outcome<Check> {
    let until = Instant::now() + CATCH_UP;
    for replica in target.here() {
        let options = ReadOptions {
            replica: Some(replica),
            timeout: Some(Duration::from_secs(2)),
            ..ReadOptions::WEAK
        };
        loop {
            let answer = target.client.read(Vec::new(), options);
            let totals = answer.as_ref().ok().and_then(|answer| ShopTotals::decode(&answer.body));
            let why = match totals.map(|totals| sold.of(&totals)) {
                Some(Ok(())) => break,
                Some(Err(why)) => why,
                None => format!("{answer:?}"),
            };
            if Instant::now() >= until {
                return Ok(Check::failed(format!("{replica} does not have what was bought: {why}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(Check::passed("every replica has every order"))
}
