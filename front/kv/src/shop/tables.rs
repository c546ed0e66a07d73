//! The tables of the shop: their names, keys and rows.
//!
//! A row's key is the table's name, `/`, and the row's numbers, 4 bytes each, big-endian. A row is numbers of 8 bytes, little-endian, and then text. Under the
//! name `order_line` alone lies how many orders there are, which is the number of the next one.

use quorate_execute::StateView;
use std::borrow::Cow;

/// A table; the names are those of TPC-W.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// By its number: author, subject, price in cents, stock, sold, delivered, and five related items.
    Item,
    /// By its number.
    Author,
    /// By order and line: item, quantity, subject, price.
    OrderLine,
    /// By its number: address, discount in percent.
    Customer,
    /// A payment, by customer and order: cents, address.
    CcXacts,
    /// By its number: country.
    Address,
    /// By its number.
    Country,
    /// By its number: lines, quantity, cents.
    ShoppingCart,
    /// By cart and item: quantity.
    ShoppingCartLine,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Item,
        Self::Author,
        Self::OrderLine,
        Self::Customer,
        Self::CcXacts,
        Self::Address,
        Self::Country,
        Self::ShoppingCart,
        Self::ShoppingCartLine,
    ];

    /// Its name, which begins the keys of its rows.
    pub const fn name(self) -> &'static [u8] {
        match self {
            Self::Item => b"item",
            Self::Author => b"author",
            Self::OrderLine => b"order_line",
            Self::Customer => b"customer",
            Self::CcXacts => b"cc_xacts",
            Self::Address => b"address",
            Self::Country => b"country",
            Self::ShoppingCart => b"shopping_cart",
            Self::ShoppingCartLine => b"shopping_cart_line",
        }
    }

    /// The table that a key belongs to.
    pub fn of(key: &[u8]) -> Option<Self> {
        let name = key.split(|byte| *byte == b'/').next()?;
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// The key of a row, or the beginning of the keys of several.
    pub(super) fn key(self, numbers: &[u32]) -> Vec<u8> {
        let mut key = self.name().to_vec();
        key.push(b'/');
        numbers.iter().for_each(|number| key.extend_from_slice(&number.to_be_bytes()));
        key
    }

    /// Where its keys end, the first one behind them.
    pub(super) fn end(self) -> Vec<u8> {
        [self.name(), b"0"].concat()
    }
}

/// The second number of the key of a row that has two.
pub(super) fn second(table: Table, key: &[u8]) -> u32 {
    let at = table.name().len() + 5;
    key.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// The first numbers of a row; `None` if it has fewer.
pub(super) fn numbers<const N: usize>(row: &[u8]) -> Option<[u64; N]> {
    let (chunks, _) = row.as_chunks::<8>();
    let mut numbers = [0; N];
    let first = chunks.get(..N)?;
    numbers.iter_mut().zip(first).for_each(|(number, bytes)| *number = u64::from_le_bytes(*bytes));
    Some(numbers)
}

/// A row with so many bytes of text.
pub(super) fn row(numbers: &[u64], text: usize) -> Vec<u8> {
    let mut row = Vec::with_capacity(numbers.len() * 8 + text);
    numbers.iter().for_each(|number| row.extend_from_slice(&number.to_le_bytes()));
    let first = numbers.first().copied().unwrap_or(0) as usize;
    row.extend((0..text).map(|at| b'a' + ((first + at) % 26) as u8));
    row
}

/// Changes the first numbers of a row, and keeps its text.
pub(super) fn with_numbers(row: &[u8], numbers: &[u64]) -> Vec<u8> {
    let mut changed = row.to_vec();
    let (chunks, _) = changed.as_chunks_mut::<8>();
    chunks.iter_mut().zip(numbers).for_each(|(bytes, number)| *bytes = number.to_le_bytes());
    changed
}

/// Where rows lie: the state of a replica, or the memory of a server that is compared with it.
pub trait Rows {
    /// The value under a key.
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>>;
    /// Passes the entries from `start` to before `end` in key order, until `each` returns `false`.
    fn each(&self, start: &[u8], end: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool);
    /// Gives a key this value.
    fn put(&mut self, key: &[u8], value: &[u8]);
    /// Removes a key.
    fn remove(&mut self, key: &[u8]);
}

impl Rows for StateView<'_> {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        StateView::get(self, key)
    }

    fn each(&self, start: &[u8], end: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        for (key, value) in self.range(start, Some(end)) {
            if !each(&key, &value) {
                return;
            }
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.set(key, value);
    }

    fn remove(&mut self, key: &[u8]) {
        StateView::remove(self, key);
    }
}
