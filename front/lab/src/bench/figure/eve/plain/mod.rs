//! A server without replication that runs the shop in parallel, and a primary with a passive backup that ships state: what replication is compared with.
//!
//! Threads of this process take requests from sockets on loopback, and hold the locks of a transaction's tables while it runs, readers together. A primary
//! with a backup keeps replies until the backup has the state behind them, as Remus does (Cully et al., NSDI 2008). Files: `memory` (pages), `link` (the
//! backup), `callers` (the load). Tests: `tests`.

mod callers;
mod link;
mod memory;
#[cfg(test)]
mod tests;

use super::shop::{Sold, lock};
pub(super) use callers::{Called, call};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use link::{Frame, Link};
use memory::{Memory, Which, Written};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_kv::shop::{
    Refusal, ShopCommand, ShopReply, ShopTotals, Size, Table, Transaction, carry_out, totals,
};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest request or reply.
const FRAME_MAX: usize = 64 << 10;

/// What a primary ships to its backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ships {
    /// It has no backup.
    Nothing,
    /// All pages that changed: rows, and the temporary memory of transactions.
    Pages,
    /// The pages of rows that changed.
    RowPages,
    /// The rows that were written, at once.
    Writes,
}

/// A link, and how often pages are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shipping {
    pub(super) ships: Ships,
    pub(super) mbit: u32,
    pub(super) every: Duration,
}

impl Shipping {
    pub(super) const NONE: Self = Self { ships: Ships::Nothing, mbit: 0, every: Duration::ZERO };
}

/// A request, and where its reply goes.
struct Request {
    bytes: Vec<u8>,
    from: Arc<TcpStream>,
}

/// What waits until the backup has what is behind it.
#[derive(Default)]
struct Pending {
    replies: Vec<(Arc<TcpStream>, Vec<u8>)>,
    writes: Vec<Written>,
}

/// What the threads of a server share.
struct Shared {
    memory: Memory,
    tables: [RwLock<()>; Table::ALL.len()],
    ships: Ships,
    pending: Mutex<Pending>,
    /// Something waits.
    waits: Sender<()>,
    stop: AtomicBool,
}

/// A running server.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    sent: Arc<AtomicU64>,
    shipper: Option<JoinHandle<Outcome<Option<ShopTotals>>>>,
    listener: JoinHandle<()>,
}

impl Server {
    /// Opens a shop of this size, with so many threads that run transactions.
    pub(super) fn start(size: Size, workers: u16, shipping: Shipping) -> Outcome<Self> {
        let doing = "start a server";
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).doing(doing)?;
        let address = socket.local_addr().doing(doing)?;
        let (waits, waiting) = bounded(1);
        let sent = Arc::new(AtomicU64::new(0));
        let shared = Arc::new(Shared {
            memory: Memory::new(workers.into()),
            tables: std::array::from_fn(|_| RwLock::new(())),
            ships: shipping.ships,
            pending: Mutex::default(),
            waits,
            stop: AtomicBool::new(false),
        });
        let mut opening = shared.memory.by(0);
        if !matches!(carry_out(&mut opening, &Transaction::Open(size)), ShopReply::Done(_)) {
            return Err(Failure::new("a server could not open its shop"));
        }
        lock(&shared.pending).writes = opening.written;
        let shipper = (shipping.ships != Ships::Nothing).then(|| {
            let mut shipper = Shipper {
                shared: shared.clone(),
                link: Link::to_backup(shipping.mbit, sent.clone())?,
                every: shipping.every,
                waiting,
            };
            // The backup has everything before anybody asks.
            shipper.round().doing(doing)?;
            Ok(std::thread::spawn(move || shipper.run()))
        });
        let shipper = shipper.transpose()?;
        let (asked, asking) = unbounded();
        for worker in 0..usize::from(workers) {
            let (shared, asking) = (shared.clone(), asking.clone());
            std::thread::spawn(move || work(&shared, worker, &asking));
        }
        let stops = shared.clone();
        let listener = std::thread::spawn(move || listen(&socket, &asked, &stops));
        Ok(Self { address, shared, sent, shipper, listener })
    }

    /// Bytes that were shipped to the backup so far.
    pub(super) fn shipped(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Ends it, once all callers have their replies. Gives the sums over its shop, and over that of the backup.
    pub(super) fn end(self) -> Outcome<(ShopTotals, Option<ShopTotals>)> {
        self.shared.stop.store(true, Ordering::SeqCst);
        let _ = self.shared.waits.try_send(());
        // The listener looks whether it is to stop whenever somebody comes.
        drop(TcpStream::connect(self.address));
        let panicked = |_| Failure::new("a thread of a server ended with a panic");
        self.listener.join().map_err(panicked)?;
        let backup = match self.shipper {
            Some(shipper) => shipper.join().map_err(panicked)??,
            None => None,
        };
        let own = totals(&*self.shared.memory.heap());
        Ok((own, backup))
    }
}

fn listen(socket: &TcpListener, asked: &Sender<Request>, shared: &Shared) {
    for caller in socket.incoming() {
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let Ok(caller) = caller else { continue };
        let asked = asked.clone();
        std::thread::spawn(move || {
            let _ = caller.set_nodelay(true);
            let from = Arc::new(caller);
            while let Ok(bytes) = read(&mut &*from) {
                if asked.send(Request { bytes, from: from.clone() }).is_err() {
                    return;
                }
            }
        });
    }
}

/// Reads a frame: `length u32 | bytes`.
fn read(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > FRAME_MAX {
        return Err(io::Error::other("a frame is too long"));
    }
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn write(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let len = (bytes.len() as u32).to_le_bytes();
    to.write_all(&[&len, bytes].concat())
}

/// The locks of a transaction's tables.
enum Held<'s> {
    Reads { _guard: RwLockReadGuard<'s, ()> },
    Writes { _guard: RwLockWriteGuard<'s, ()> },
}

/// Runs requests until nobody can ask any more.
fn work(shared: &Shared, worker: usize, asking: &Receiver<Request>) {
    while let Ok(Request { bytes, from }) = asking.recv() {
        let mut memory = shared.memory.by(worker);
        memory.copy(&bytes);
        let Some(command) = ShopCommand::decode(&bytes) else {
            let _ = write(&mut &*from, &ShopReply::Refused(Refusal::NoCommand).encode());
            continue;
        };
        let held = shared.hold(&command.what);
        command.take_time();
        let reply = carry_out(&mut memory, &command.what).encode();
        memory.copy(&reply);
        if shared.ships == Ships::Nothing {
            drop(held);
            // A caller that went away needs no reply.
            let _ = write(&mut &*from, &reply);
        } else {
            let mut pending = lock(&shared.pending);
            if shared.ships == Ships::Writes {
                pending.writes.append(&mut memory.written);
            }
            pending.replies.push((from, reply));
            drop(pending);
            drop(held);
            // Full: somebody has said so already.
            let _ = shared.waits.try_send(());
        }
    }
}

impl Shared {
    /// Waits for the tables of a transaction, in their order.
    fn hold(&self, what: &Transaction) -> Vec<Held<'_>> {
        let (reads, writes) = what.tables();
        let each = Table::ALL.iter().zip(&self.tables).filter_map(|(table, lock)| {
            if writes.contains(table) {
                Some(Held::Writes { _guard: lock.write().unwrap_or_else(PoisonError::into_inner) })
            } else {
                let read = || Held::Reads { _guard: lock.read().unwrap_or_else(PoisonError::into_inner) };
                reads.contains(table).then(read)
            }
        });
        each.collect()
    }
}

/// The thread that ships.
struct Shipper {
    shared: Arc<Shared>,
    link: Link,
    every: Duration,
    waiting: Receiver<()>,
}

impl Shipper {
    fn run(mut self) -> Outcome<Option<ShopTotals>> {
        let mut next = Instant::now() + self.every;
        while !self.shared.stop.load(Ordering::SeqCst) {
            if self.shared.ships == Ships::Writes {
                if self.waiting.recv_timeout(self.every) == Err(RecvTimeoutError::Disconnected) {
                    break;
                }
            } else {
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
                next = Instant::now() + self.every;
            }
            self.round().doing("ship to a backup")?;
        }
        self.round().doing("ship to a backup")?;
        Ok(self.link.end()?.totals())
    }

    /// Ships what changed, and lets those replies go that wait for it.
    fn round(&mut self) -> io::Result<()> {
        // What is behind a reply was there before the reply.
        let Pending { replies, writes } = std::mem::take(&mut *lock(&self.shared.pending));
        let frame = match self.shared.ships {
            Ships::Nothing | Ships::Writes => Frame::of_writes(&writes),
            Ships::RowPages => Frame::of_pages(&self.shared.memory, Which::Rows),
            Ships::Pages => Frame::of_pages(&self.shared.memory, Which::All),
        };
        if !frame.is_empty() {
            self.link.ship(&frame)?;
        }
        for (to, reply) in replies {
            // A caller that went away needs no reply.
            let _ = write(&mut &*to, &reply);
        }
        Ok(())
    }
}

/// Whether a server kept what it answered, and its backup with it.
pub(super) fn kept(server: Server, sold: &Sold) -> Outcome<super::Check> {
    let (own, backup) = server.end()?;
    Ok(match (sold.of(&own), backup.map(|backup| backup == own)) {
        (Err(why), _) => super::Check::failed(why),
        (_, Some(false)) => super::Check::failed("the backup has another state"),
        (_, Some(true)) => super::Check::passed("every order was kept, and the backup has the same state"),
        (_, None) => super::Check::passed("every order was kept"),
    })
}
