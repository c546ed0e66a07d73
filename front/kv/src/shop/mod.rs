//! A bookshop, for measurements of execution: the five most frequent transactions of TPC-W, with the tables and the keys for the mixer that Kapritsos'
//! dissertation (Eve) gives in figure 3.2.
//!
//! Its commands may run at the same time, and their hints are the names of tables. Each takes the time of its own work, and more if the client asks for
//! it: with it as many run at the same time as where each has a core. What it holds is much less than TPC-W's: there are no pages and no payment
//! elsewhere. Files: `command` (bytes), `tables` (keys and rows), `transactions` (what commands do). Tests: tests/all/shop.rs.

mod command;
mod tables;
mod transactions;

use crate::work::compute;
pub use command::{Refusal, ShopCommand, ShopReply, ShopTotals, Size, Transaction};
use quorate_execute::{Context, KeyUse, ParallelService, ReplySink, StateView};
use quorate_types::Random;
use std::time::Duration;
pub use tables::{Rows, Table};
pub use transactions::{carry_out, totals};

/// The service. Commands are [`ShopCommand`]s, and replies [`ShopReply`]s; a query of no bytes is answered with [`ShopTotals`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Shop;

impl ParallelService for Shop {
    fn execute(&self, view: &mut StateView<'_>, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let done = match ShopCommand::decode(command) {
            Some(command) => {
                command.take_time();
                carry_out(view, &command.what)
            }
            None => ShopReply::Refused(Refusal::NoCommand),
        };
        reply.write(&done.encode());
    }

    fn query(&self, view: &StateView<'_>, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(&totals(view).encode());
    }

    /// The names of the tables. Rows of `order_line` are read as a range, so its name is one, too: with [`quorate_execute::InOrder`] a command is given
    /// what earlier ones wrote under the keys that its hints cover.
    fn hints(&self, command: &[u8], uses: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        let Some(command) = ShopCommand::decode(command) else { return true };
        let (reads, writes) = command.what.tables();
        for table in reads {
            match table {
                Table::OrderLine => {
                    uses(KeyUse::ReadRange { start: table.name(), end: Some(&table.end()) });
                }
                other => uses(KeyUse::Read(other.name())),
            }
        }
        writes.iter().for_each(|table| uses(KeyUse::Write(table.name())));
        true
    }
}

impl ShopCommand {
    /// Sleeps and computes as the client asked.
    pub fn take_time(&self) {
        if self.sleep_us > 0 {
            std::thread::sleep(Duration::from_micros(self.sleep_us.into()));
        }
        compute(self.rounds);
    }
}

/// The transactions of shoppers who mostly browse.
///
/// They have the shares of TPC-W's browsing mix (clause 5.2.1), of the pages that use one of the five: for [`Transaction::GetBestSellers`] Best Sellers, 11 %
/// of all pages; for [`Transaction::GetRelated`] Home and Search Request, which show related items, 29 % and 12 %; for [`Transaction::GetMostRecentOrder`]
/// Order Display, 0.25 %; for [`Transaction::DoCart`] Shopping Cart, 2 %; for [`Transaction::DoBuyConfirm`] Buy Confirm, 0.69 %. So 95 of 100 only read.
#[derive(Clone, Debug)]
pub struct Browsing {
    random: Random,
    size: Size,
    carts: Vec<Cart>,
}

/// What a shopper has.
#[derive(Clone, Copy, Debug, Default)]
struct Cart {
    number: u32,
    /// How many lines were put there since it was bought last.
    filled: u32,
}

/// The shares of 10,000 pages, of the 5,494 that use one of the five transactions.
const SHARES: [(Page, u64); 5] =
    [(Page::Best, 1100), (Page::Related, 4100), (Page::Recent, 25), (Page::Cart, 200), (Page::Buy, 69)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Best,
    Related,
    Recent,
    Cart,
    Buy,
}

impl Browsing {
    /// So many shoppers, each with a cart of its own.
    pub fn new(size: Size, shoppers: u32, seed: u64) -> Self {
        let carts = (0..shoppers.max(1)).map(|number| Cart { number, filled: 0 }).collect();
        Self { random: Random::new(seed), size, carts }
    }

    /// The next transaction of a shopper, who has been answered everything before. Whoever would buy an empty cart fills it.
    pub fn next(&mut self, shopper: usize) -> Transaction {
        let all = SHARES.iter().map(|(_, share)| share).sum();
        let mut drawn = self.random.below(all);
        let page = SHARES.iter().find(|(_, share)| {
            let found = drawn < *share;
            drawn = drawn.saturating_sub(*share);
            found
        });
        let Size { items, customers, .. } = self.size;
        let item = self.random.below(items.into()) as u32;
        let customer = self.random.below(customers.into()) as u32;
        let quantity = 1 + self.random.below(3) as u32;
        let at = shopper % self.carts.len();
        let Cart { number: cart, filled } = &mut self.carts[at];
        match page.map_or(Page::Related, |(page, _)| *page) {
            Page::Best => {
                Transaction::GetBestSellers { subject: self.random.below(transactions::SUBJECTS) as u32 }
            }
            Page::Related => Transaction::GetRelated { item },
            Page::Recent => Transaction::GetMostRecentOrder { customer },
            Page::Buy if *filled > 0 => {
                *filled = 0;
                Transaction::DoBuyConfirm { cart: *cart, customer }
            }
            Page::Cart | Page::Buy => {
                *filled += 1;
                Transaction::DoCart { cart: *cart, item, quantity }
            }
        }
    }
}
