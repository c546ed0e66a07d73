//! The bytes of the shop's commands, replies and totals. Decoders return `None` for all bytes that are none, and never panic.

use super::tables::Table;
use std::time::Duration;

/// The longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// The most rounds of computing: some ten seconds.
const ROUNDS_MAX: u64 = 1 << 34;
/// Bytes before the numbers of a transaction.
const HEAD: usize = 13;
/// The most numbers in a reply.
const NUMBERS_MAX: usize = 1024;

/// How much a shop has when it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Items, 1 to [`Self::MOST`]; for every four there is an author.
    pub items: u32,
    /// Customers, 1 to [`Self::MOST`]; each has an address.
    pub customers: u32,
    /// Orders of before, up to [`Self::MOST`], with three lines on average.
    pub orders: u32,
}

impl Size {
    /// The most of each.
    pub const MOST: u32 = 20_000;
}

/// A transaction. Those of TPC-W have its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// Fills an empty shop.
    Open(Size),
    /// The 50 items of a subject that sold most in the last 3,333 orders. Gives item and quantity of each, the most first.
    GetBestSellers {
        /// 0 to 23.
        subject: u32,
    },
    /// The items that are related to one. Gives item and price of each.
    GetRelated {
        /// The item.
        item: u32,
    },
    /// The last order of a customer. Gives its number, cents, country, and item and quantity of each line; nothing if there is none.
    GetMostRecentOrder {
        /// The customer.
        customer: u32,
    },
    /// Puts more of an item into a cart, which is made if there is none. Gives lines, quantity and cents of the cart.
    DoCart {
        /// The cart.
        cart: u32,
        /// The item.
        item: u32,
        /// How many, 1 to 100.
        quantity: u32,
    },
    /// Buys what is in a cart. Gives the order's number, quantity and cents.
    DoBuyConfirm {
        /// The cart.
        cart: u32,
        /// The customer.
        customer: u32,
    },
}

impl Transaction {
    /// The tables that it reads and does not write, and those that it writes: figure 3.2 of Kapritsos' dissertation.
    pub const fn tables(&self) -> (&'static [Table], &'static [Table]) {
        use Table::{
            Address, Author, CcXacts, Country, Customer, Item, OrderLine, ShoppingCart, ShoppingCartLine,
        };
        match self {
            Self::Open(_) => (&[], &Table::ALL),
            Self::GetBestSellers { .. } => (&[Item, Author, OrderLine], &[]),
            Self::GetRelated { .. } => (&[Item], &[]),
            Self::GetMostRecentOrder { .. } => (&[Customer, CcXacts, Address, Country, OrderLine], &[]),
            Self::DoCart { .. } => (&[Item], &[ShoppingCartLine, ShoppingCart]),
            Self::DoBuyConfirm { .. } => {
                (&[Customer, Address], &[OrderLine, Item, CcXacts, ShoppingCartLine])
            }
        }
    }

    fn encode(self, out: &mut Vec<u8>) {
        let (kind, numbers): (u8, &[u32]) = match &self {
            Self::Open(Size { items, customers, orders }) => (0, &[*items, *customers, *orders]),
            Self::GetBestSellers { subject } => (1, &[*subject]),
            Self::GetRelated { item } => (2, &[*item]),
            Self::GetMostRecentOrder { customer } => (3, &[*customer]),
            Self::DoCart { cart, item, quantity } => (4, &[*cart, *item, *quantity]),
            Self::DoBuyConfirm { cart, customer } => (5, &[*cart, *customer]),
        };
        out.push(kind);
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    }

    fn decode(kind: u8, bytes: &[u8]) -> Option<Self> {
        let (chunks, rest) = bytes.as_chunks::<4>();
        let mut list = [0; 3];
        if !rest.is_empty() || chunks.len() > list.len() {
            return None;
        }
        list.iter_mut().zip(chunks).for_each(|(number, bytes)| *number = u32::from_le_bytes(*bytes));
        let [first, second, third] = list;
        let (count, transaction) = match kind {
            0 => {
                let fits = (1..=Size::MOST).contains(&first)
                    && (1..=Size::MOST).contains(&second)
                    && third <= Size::MOST;
                (3, Self::Open(fits.then_some(Size { items: first, customers: second, orders: third })?))
            }
            1 => (1, Self::GetBestSellers { subject: first }),
            2 => (1, Self::GetRelated { item: first }),
            3 => (1, Self::GetMostRecentOrder { customer: first }),
            4 => (3, Self::DoCart { cart: first, item: second, quantity: third }),
            5 => (2, Self::DoBuyConfirm { cart: first, customer: second }),
            _ => return None,
        };
        (chunks.len() == count).then_some(transaction)
    }
}

/// A command: a transaction, and how long it takes beside its own work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShopCommand {
    /// How long it sleeps, in microseconds.
    pub sleep_us: u32,
    /// How many rounds it computes ([`compute`](crate::compute)).
    pub rounds: u64,
    /// What it does.
    pub what: Transaction,
}

impl ShopCommand {
    /// Its bytes: `sleep u32 | rounds u64 | kind u8 | number u32 ...`, little-endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.sleep_us.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.rounds.to_le_bytes());
        self.what.encode(&mut bytes);
        bytes
    }

    /// Reads a command; `None` if the bytes are none, or it is over a limit.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, list) = bytes.split_first_chunk::<HEAD>()?;
        let sleep_us = u32::from_le_bytes(*head.first_chunk()?);
        let rounds = u64::from_le_bytes(*head[4..].first_chunk()?);
        let fits = Duration::from_micros(sleep_us.into()) <= SLEEP_MAX && rounds <= ROUNDS_MAX;
        let what = Transaction::decode(head[HEAD - 1], list)?;
        fits.then_some(Self { sleep_us, rounds, what })
    }
}

/// Why a transaction did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes are no command.
    NoCommand = 1,
    /// The shop is open already.
    Open = 2,
    /// There is no such item.
    Item = 3,
    /// There is no such customer.
    Customer = 4,
    /// So many of one item can not be in a cart, or none.
    Quantity = 5,
    /// The cart has as many lines as it may.
    FullCart = 6,
    /// There is nothing in the cart.
    EmptyCart = 7,
    /// There is less in stock.
    Stock = 8,
}

impl Refusal {
    const ALL: [Self; 8] = [
        Self::NoCommand,
        Self::Open,
        Self::Item,
        Self::Customer,
        Self::Quantity,
        Self::FullCart,
        Self::EmptyCart,
        Self::Stock,
    ];
}

/// What a command is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShopReply {
    /// What the transaction gives.
    Done(Vec<u64>),
    /// It did nothing.
    Refused(Refusal),
}

impl ShopReply {
    /// Its bytes: the refusal, or 0 and the numbers, 8 bytes each, little-endian.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Refused(why) => vec![*why as u8],
            Self::Done(numbers) => {
                let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
                std::iter::once(0).chain(numbers).collect()
            }
        }
    }

    /// Reads a reply; `None` if the bytes are none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (status, list) = bytes.split_first()?;
        if *status > 0 {
            let why = Refusal::ALL.into_iter().find(|why| *why as u8 == *status)?;
            return list.is_empty().then_some(Self::Refused(why));
        }
        let (chunks, rest) = list.as_chunks::<8>();
        let fits = rest.is_empty() && chunks.len() <= NUMBERS_MAX;
        fits.then(|| Self::Done(chunks.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()))
    }
}

/// Sums over the whole shop, which show a lost or repeated transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShopTotals {
    /// Orders, those of before included, and their lines.
    pub orders: u64,
    /// All lines of orders.
    pub lines: u64,
    /// How many items are in these lines.
    pub ordered: u64,
    /// How many items are in stock.
    pub stock: u64,
    /// How many items were sold since the shop opened.
    pub sold: u64,
    /// How many items were delivered to the shop.
    pub delivered: u64,
    /// How many items are in carts.
    pub in_carts: u64,
    /// Cents paid.
    pub paid: u64,
}

impl ShopTotals {
    /// Its bytes: the numbers in their order, 8 bytes each, little-endian.
    pub fn encode(&self) -> Vec<u8> {
        let Self { orders, lines, ordered, stock, sold, delivered, in_carts, paid } = *self;
        let all = [orders, lines, ordered, stock, sold, delivered, in_carts, paid];
        all.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    /// Reads totals; `None` if the bytes are none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (chunks, rest) = bytes.as_chunks::<8>();
        let [orders, lines, ordered, stock, sold, delivered, in_carts, paid] = *chunks else { return None };
        let number = u64::from_le_bytes;
        rest.is_empty().then(|| Self {
            orders: number(orders),
            lines: number(lines),
            ordered: number(ordered),
            stock: number(stock),
            sold: number(sold),
            delivered: number(delivered),
            in_carts: number(in_carts),
            paid: number(paid),
        })
    }
}
