//! The link to a backup: frames over a socket on loopback, no faster than the link would be; and the backup at its end.

use super::memory::{Heap, Memory, PAGE, Pages, Which, Written};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_kv::shop::{ShopTotals, totals};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the link takes in one go: its bytes leave together.
const PIECE: usize = 64 << 10;
/// The kinds of frames: pages, and what was written.
const PAGES: u8 = 1;
const WRITES: u8 = 2;
/// The longest frame: all memory of a server of this figure has less.
const FRAME_MAX: usize = 1 << 30;
/// In place of the length of a value: the key has none any more.
const GONE: u32 = u32::MAX;

/// What a primary tells its backup.
pub(super) struct Link {
    socket: TcpStream,
    bytes_per_s: f64,
    /// When the link has sent everything so far.
    clear: Instant,
    sent: Arc<AtomicU64>,
    backup: Option<JoinHandle<io::Result<Backup>>>,
}

impl Link {
    /// Starts a backup, at the other end of a link of this speed.
    pub(super) fn to_backup(mbit: u32, sent: Arc<AtomicU64>) -> Outcome<Self> {
        let doing = "start a backup";
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).doing(doing)?;
        let address = listener.local_addr().doing(doing)?;
        let socket = TcpStream::connect(address).doing(doing)?;
        socket.set_nodelay(true).doing(doing)?;
        let (other, _) = listener.accept().doing(doing)?;
        other.set_nodelay(true).doing(doing)?;
        let backup = std::thread::spawn(move || Backup::default().hear(other));
        let bytes_per_s = f64::from(mbit) * 1e6 / 8.0;
        Ok(Self { socket, bytes_per_s, clear: Instant::now(), sent, backup: Some(backup) })
    }

    /// Sends a frame, and waits until the backup has it.
    pub(super) fn ship(&mut self, frame: &Frame) -> io::Result<()> {
        let len = u32::try_from(frame.bytes.len()).map_err(io::Error::other)?;
        self.piece(&len.to_le_bytes())?;
        frame.bytes.chunks(PIECE).try_for_each(|piece| self.piece(piece))?;
        self.socket.read_exact(&mut [0])
    }

    fn piece(&mut self, bytes: &[u8]) -> io::Result<()> {
        let now = Instant::now();
        std::thread::sleep(self.clear.saturating_duration_since(now));
        self.clear = self.clear.max(now) + Duration::from_secs_f64(bytes.len() as f64 / self.bytes_per_s);
        self.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.socket.write_all(bytes)
    }

    /// Ends the link, and gives what the backup has.
    pub(super) fn end(mut self) -> Outcome<Backup> {
        let doing = "end a backup";
        self.socket.shutdown(std::net::Shutdown::Both).doing(doing)?;
        let backup = self.backup.take().and_then(|thread| thread.join().ok());
        backup.ok_or_else(|| Failure::new("the backup ended with a panic"))?.doing(doing)
    }
}

/// What is shipped in one go.
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
}

impl Frame {
    /// The pages that changed: `kind u8`, then `area u16 | page u32 | bytes` for each.
    pub(super) fn of_pages(memory: &Memory, which: Which) -> Self {
        let mut bytes = vec![PAGES];
        memory.take_changed(which, &mut |area, page, content| {
            bytes.extend_from_slice(&area.to_le_bytes());
            bytes.extend_from_slice(&page.to_le_bytes());
            bytes.extend_from_slice(content);
        });
        Self { bytes }
    }

    /// What was written: `kind u8`, then `key length u32 | value length u32 | key | value` for each.
    pub(super) fn of_writes(writes: &[Written]) -> Self {
        let mut bytes = vec![WRITES];
        for (key, value) in writes {
            let len = value.as_ref().map_or(GONE, |value| value.len() as u32);
            bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(value.as_deref().unwrap_or_default());
        }
        Self { bytes }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.len() <= 1
    }
}

/// What a backup has: pages by area, and rows.
#[derive(Default)]
pub(super) struct Backup {
    areas: BTreeMap<u16, Pages>,
    rows: Heap,
}

impl Backup {
    /// Takes frames until the link ends, each whole or not at all.
    fn hear(mut self, mut socket: TcpStream) -> io::Result<Self> {
        let mut len = [0; 4];
        while socket.read_exact(&mut len).is_ok() {
            let len = u32::from_le_bytes(len) as usize;
            if len > FRAME_MAX {
                return Err(io::Error::other("a frame is too long"));
            }
            let mut frame = vec![0; len];
            socket.read_exact(&mut frame)?;
            self.take(&frame).ok_or_else(|| io::Error::other("a frame can not be read"))?;
            socket.write_all(&[1])?;
        }
        Ok(self)
    }

    /// Takes a frame; `None` if its bytes are none.
    pub(super) fn take(&mut self, frame: &[u8]) -> Option<()> {
        let (kind, mut rest) = frame.split_first()?;
        while !rest.is_empty() {
            if *kind == PAGES {
                let (area, after) = rest.split_first_chunk::<2>()?;
                let (page, after) = after.split_first_chunk::<4>()?;
                let (bytes, after) = after.split_at_checked(PAGE)?;
                let at = u32::from_le_bytes(*page) as usize * PAGE;
                if at > FRAME_MAX {
                    return None;
                }
                self.areas.entry(u16::from_le_bytes(*area)).or_default().write(at, bytes);
                rest = after;
            } else {
                let (key_len, after) = rest.split_first_chunk::<4>()?;
                let (value_len, after) = after.split_first_chunk::<4>()?;
                let (key, after) = after.split_at_checked(u32::from_le_bytes(*key_len) as usize)?;
                let len = Some(u32::from_le_bytes(*value_len)).filter(|len| *len != GONE);
                let (value, after) = after.split_at_checked(len.unwrap_or(0) as usize)?;
                if key.len() + value.len() > PAGE / 2 {
                    return None;
                }
                if len.is_some() {
                    self.rows.put(key, value)
                } else {
                    self.rows.remove(key)
                }
                rest = after;
            }
        }
        Some(())
    }

    /// The sums over its rows; `None` if its pages hold none.
    pub(super) fn totals(mut self) -> Option<ShopTotals> {
        match self.areas.remove(&0) {
            Some(pages) => Some(totals(&Heap::of_pages(pages)?)),
            None => Some(totals(&self.rows)),
        }
    }
}
