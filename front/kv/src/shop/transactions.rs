//! What the transactions do with the rows.

use super::command::{Refusal, ShopReply, ShopTotals, Size, Transaction};
use super::tables::{Rows, Table, numbers, row, second, with_numbers};
use quorate_types::Random;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Best sellers are those of so many orders, and so many of them are shown: TPC-W, clause 2.7.
const RECENT_ORDERS: u64 = 3333;
const SHOWN: usize = 50;
/// Subjects of books.
pub(super) const SUBJECTS: u64 = 24;
/// Related items of each.
const RELATED: usize = 5;
/// Where less than this would be left in stock, so many come: TPC-W, clause 2.7.
const STOCK_LEAST: u64 = 10;
const DELIVERY: u64 = 21;
/// The most of one item in a cart, and the most lines.
const QUANTITY_MAX: u64 = 100;
const LINES_MAX: usize = 64;
/// Countries of the world, as TPC-W counts them.
const COUNTRIES: u32 = 92;

/// The numbers of an item's row.
#[derive(Clone, Copy)]
struct Item {
    author: u64,
    subject: u64,
    cents: u64,
    stock: u64,
    sold: u64,
    delivered: u64,
}

impl Item {
    fn of(row: &[u8]) -> Option<Self> {
        let [author, subject, cents, stock, sold, delivered] = numbers(row)?;
        Some(Self { author, subject, cents, stock, sold, delivered })
    }

    const fn numbers(self) -> [u64; 6] {
        [self.author, self.subject, self.cents, self.stock, self.sold, self.delivered]
    }

    /// After so many are sold; `None` if there are not enough, even with a delivery.
    fn sell(self, quantity: u64) -> Option<Self> {
        let come = if self.stock < quantity + STOCK_LEAST { DELIVERY } else { 0 };
        let stock = (self.stock + come).checked_sub(quantity)?;
        Some(Self { stock, sold: self.sold + quantity, delivered: self.delivered + come, ..self })
    }
}

/// Carries out a transaction. It changes nothing if it is refused.
pub fn carry_out(rows: &mut dyn Rows, what: &Transaction) -> ShopReply {
    let done = match *what {
        Transaction::Open(size) => open(rows, size),
        Transaction::GetBestSellers { subject } => Ok(best_sellers(rows, subject.into())),
        Transaction::GetRelated { item } => related(rows, item),
        Transaction::GetMostRecentOrder { customer } => most_recent_order(rows, customer),
        Transaction::DoCart { cart, item, quantity } => fill_cart(rows, cart, item, quantity.into()),
        Transaction::DoBuyConfirm { cart, customer } => buy(rows, cart, customer),
    };
    done.map_or_else(ShopReply::Refused, ShopReply::Done)
}

type Done = Result<Vec<u64>, Refusal>;

fn open(rows: &mut dyn Rows, size: Size) -> Done {
    let Size { items, customers, orders } = size;
    if rows.get(Table::OrderLine.name()).is_some() {
        return Err(Refusal::Open);
    }
    let mut random = Random::new(7);
    for country in 0..COUNTRIES {
        rows.put(&Table::Country.key(&[country]), &row(&[country.into()], 40));
    }
    let authors = items.div_ceil(4);
    for author in 0..authors {
        rows.put(&Table::Author.key(&[author]), &row(&[author.into()], 60));
    }
    for item in 0..items {
        let (cents, stock) = (100 + random.below(9900), STOCK_LEAST + random.below(21));
        let own = [random.below(authors.into()), subject_of(item), cents, stock, 0, stock];
        let related: [u64; RELATED] = std::array::from_fn(|_| random.below(items.into()));
        rows.put(&Table::Item.key(&[item]), &row(&[&own[..], &related].concat(), 100));
    }
    for customer in 0..customers {
        let address = row(&[random.below(COUNTRIES.into())], 80);
        rows.put(&Table::Address.key(&[customer]), &address);
        let own = row(&[customer.into(), random.below(51)], 80);
        rows.put(&Table::Customer.key(&[customer]), &own);
    }
    for order in 0..orders {
        let customer = random.below(customers.into()) as u32;
        let mut cents = 0;
        for line in 0..1 + random.below(5) {
            let (item, quantity) = (random.below(items.into()), 1 + random.below(4));
            let price = 100 + random.below(9900);
            cents += price * quantity;
            let line = Table::OrderLine.key(&[order, line as u32]);
            rows.put(&line, &row(&[item, quantity, subject_of(item as u32), price], 0));
        }
        rows.put(&Table::CcXacts.key(&[customer, order]), &row(&[cents, customer.into()], 20));
    }
    rows.put(Table::OrderLine.name(), &row(&[orders.into()], 0));
    Ok(vec![items.into(), customers.into(), orders.into()])
}

fn subject_of(item: u32) -> u64 {
    u64::from(item) % SUBJECTS
}

/// How many orders there are.
fn orders(rows: &dyn Rows) -> u64 {
    let count = rows.get(Table::OrderLine.name()).and_then(|row| numbers::<1>(&row));
    count.map_or(0, |[count]| count)
}

fn best_sellers(rows: &dyn Rows, subject: u64) -> Vec<u64> {
    let first = orders(rows).saturating_sub(RECENT_ORDERS) as u32;
    let mut sold = BTreeMap::<u64, u64>::new();
    rows.each(&Table::OrderLine.key(&[first]), &Table::OrderLine.end(), &mut |_, row| {
        if let Some([item, quantity, of]) = numbers(row)
            && of == subject
        {
            *sold.entry(item).or_default() += quantity;
        }
        true
    });
    let mut best: Vec<(u64, u64)> = sold.into_iter().collect();
    best.sort_by_key(|(item, quantity)| (Reverse(*quantity), *item));
    best.truncate(SHOWN);
    // The page shows the title and the author of each.
    let is_there = |(item, _): &(u64, u64)| {
        let row = rows.get(&Table::Item.key(&[*item as u32]));
        let author = row.as_deref().and_then(Item::of).map(|item| item.author as u32);
        author.is_some_and(|author| rows.get(&Table::Author.key(&[author])).is_some())
    };
    best.into_iter().filter(is_there).flat_map(|(item, quantity)| [item, quantity]).collect()
}

fn related(rows: &dyn Rows, item: u32) -> Done {
    let row = rows.get(&Table::Item.key(&[item])).ok_or(Refusal::Item)?;
    let all: [u64; 6 + RELATED] = numbers(&row).ok_or(Refusal::Item)?;
    let priced = all[6..].iter().filter_map(|item| {
        let row = rows.get(&Table::Item.key(&[*item as u32]))?;
        Some([*item, Item::of(&row)?.cents])
    });
    Ok(priced.flatten().collect())
}

fn most_recent_order(rows: &dyn Rows, customer: u32) -> Done {
    let row = rows.get(&Table::Customer.key(&[customer])).ok_or(Refusal::Customer)?;
    let [_, _] = numbers(&row).ok_or(Refusal::Customer)?;
    let (start, end) = (Table::CcXacts.key(&[customer]), behind(Table::CcXacts, customer));
    let mut last = None;
    rows.each(&start, &end, &mut |key, row| {
        last = numbers(row).map(|[cents, address]| (second(Table::CcXacts, key), cents, address));
        true
    });
    let Some((order, cents, address)) = last else { return Ok(Vec::new()) };
    let country = rows.get(&Table::Address.key(&[address as u32])).and_then(|row| numbers::<1>(&row));
    let country = country.map_or(0, |[country]| country);
    let named = rows.get(&Table::Country.key(&[country as u32])).and_then(|row| numbers::<1>(&row));
    let mut found = vec![order.into(), cents, named.map_or(0, |[country]| country)];
    rows.each(&Table::OrderLine.key(&[order]), &behind(Table::OrderLine, order), &mut |_, row| {
        found.extend(numbers::<2>(row).unwrap_or_default());
        true
    });
    Ok(found)
}

/// The first key behind those that begin with this number.
fn behind(table: Table, first: u32) -> Vec<u8> {
    first.checked_add(1).map_or_else(|| table.end(), |next| table.key(&[next]))
}

/// The lines of a cart: item and quantity.
fn lines(rows: &dyn Rows, cart: u32) -> Vec<(u32, u64)> {
    let table = Table::ShoppingCartLine;
    let mut lines = Vec::new();
    rows.each(&table.key(&[cart]), &behind(table, cart), &mut |key, row| {
        lines.extend(numbers(row).map(|[quantity]| (second(table, key), quantity)));
        true
    });
    lines
}

fn item(rows: &dyn Rows, item: u32) -> Option<(Vec<u8>, Item)> {
    let row = rows.get(&Table::Item.key(&[item]))?.into_owned();
    let item = Item::of(&row)?;
    Some((row, item))
}

fn fill_cart(rows: &mut dyn Rows, cart: u32, wanted: u32, quantity: u64) -> Done {
    let mut all = lines(rows, cart);
    let at = all.binary_search_by_key(&wanted, |(item, _)| *item);
    let had = at.map_or(0, |at| all[at].1);
    if quantity == 0 || had + quantity > QUANTITY_MAX {
        return Err(Refusal::Quantity);
    }
    item(rows, wanted).ok_or(Refusal::Item)?;
    match at {
        Ok(at) => all[at].1 += quantity,
        Err(_) if all.len() >= LINES_MAX => return Err(Refusal::FullCart),
        Err(at) => all.insert(at, (wanted, quantity)),
    }
    let price = |(of, quantity): &(u32, u64)| item(rows, *of).map_or(0, |(_, item)| item.cents * quantity);
    let cents = all.iter().map(price).sum();
    let totals = [all.len() as u64, all.iter().map(|(_, quantity)| quantity).sum(), cents];
    rows.put(&Table::ShoppingCartLine.key(&[cart, wanted]), &row(&[had + quantity], 0));
    rows.put(&Table::ShoppingCart.key(&[cart]), &row(&totals, 0));
    Ok(totals.to_vec())
}

fn buy(rows: &mut dyn Rows, cart: u32, customer: u32) -> Done {
    let buyer = rows.get(&Table::Customer.key(&[customer])).ok_or(Refusal::Customer)?;
    let [address, discount] = numbers(&buyer).ok_or(Refusal::Customer)?;
    drop(buyer);
    rows.get(&Table::Address.key(&[address as u32])).ok_or(Refusal::Customer)?;
    let bought = lines(rows, cart);
    if bought.is_empty() {
        return Err(Refusal::EmptyCart);
    }
    let mut changed = Vec::new();
    for (wanted, quantity) in &bought {
        let (row, own) = item(rows, *wanted).ok_or(Refusal::Item)?;
        let own = own.sell(*quantity).ok_or(Refusal::Stock)?;
        changed.push((*wanted, *quantity, own, with_numbers(&row, &own.numbers())));
    }
    // Order numbers are keys of 4 bytes: a shop that sold so much takes no more orders.
    let order = u32::try_from(orders(rows)).ok().filter(|order| *order < u32::MAX).ok_or(Refusal::Stock)?;
    let (mut quantity, mut cents) = (0, 0);
    for (line, (wanted, count, own, changed)) in (0..).zip(changed) {
        quantity += count;
        cents += count * own.cents;
        rows.put(&Table::Item.key(&[wanted]), &changed);
        let sold = row(&[wanted.into(), count, own.subject, own.cents], 0);
        rows.put(&Table::OrderLine.key(&[order, line]), &sold);
        rows.remove(&Table::ShoppingCartLine.key(&[cart, wanted]));
    }
    let cents = cents - cents * discount.min(100) / 100;
    rows.put(&Table::CcXacts.key(&[customer, order]), &row(&[cents, address], 20));
    rows.put(Table::OrderLine.name(), &row(&[u64::from(order) + 1], 0));
    Ok(vec![order.into(), quantity, cents])
}

/// Sums over all rows.
pub fn totals(rows: &dyn Rows) -> ShopTotals {
    let mut all = ShopTotals { orders: orders(rows), ..ShopTotals::default() };
    each(rows, Table::OrderLine, &mut |row| {
        if let Some([_, quantity]) = numbers(row) {
            all.lines += 1;
            all.ordered += quantity;
        }
    });
    each(rows, Table::Item, &mut |row| {
        if let Some(Item { stock, sold, delivered, .. }) = Item::of(row) {
            all.stock += stock;
            all.sold += sold;
            all.delivered += delivered;
        }
    });
    each(rows, Table::ShoppingCartLine, &mut |row| {
        all.in_carts += numbers(row).map_or(0, |[quantity]| quantity);
    });
    each(rows, Table::CcXacts, &mut |row| all.paid += numbers(row).map_or(0, |[cents]| cents));
    all
}

fn each(rows: &dyn Rows, table: Table, take: &mut dyn FnMut(&[u8])) {
    rows.each(&table.key(&[]), &table.end(), &mut |_, row| {
        take(row);
        true
    });
}
