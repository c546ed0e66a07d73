//! The file that `etcdctl snapshot save` writes: a backup as of `quorate backup create`, and at its end what etcd's programs look for.
//!
//! ```text
//! the backup | zeros | "quorate backup 1" | length of the backup, 8 bytes, little-endian | SHA-256 of all before, 32 bytes
//! ```
//!
//! The zeros make the SHA-256 begin at a multiple of 512 bytes: by that etcdctl sees that the file is complete.
//! Tests: `saved/tests.rs`, and with etcdctl `front/cli/tests/all/etcd/`.

use crate::errors::{Refusal, UNIMPLEMENTED};
use crate::maintenance::VERSION;
use crate::pb::etcdserverpb::SnapshotResponse;
use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use quorate_kit::Backups;
use quorate_kit::backups::BackupError;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use tokio::sync::mpsc;
use tonic::Status;

#[cfg(test)]
mod tests;

const MAGIC: &[u8; 16] = b"quorate backup 1";
const LENGTH_BYTES: usize = 8;
/// The SHA-256 begins at a multiple of this.
const BLOCK: u64 = 512;
/// How much is read and sent at once.
const PIECE: usize = 64 << 10;
/// How many pieces may be on their way to a client.
const PIECES: usize = 4;

/// The bytes between a backup of this length and the SHA-256.
fn trailer(len: u64) -> Vec<u8> {
    let least = (MAGIC.len() + LENGTH_BYTES) as u64;
    let zeros = (len + least).next_multiple_of(BLOCK) - len - least;
    let mut trailer = vec![0; zeros as usize];
    trailer.extend_from_slice(MAGIC);
    trailer.extend_from_slice(&len.to_le_bytes());
    trailer
}

/// The length of the backup in this file, if etcdctl saved it. Compares no checksum.
///
/// # Errors
/// When the file can not be read.
pub fn backup_len(file: &File) -> io::Result<Option<u64>> {
    let Some(sum_at) = sum_at(file)? else { return Ok(None) };
    let mut end = [0; MAGIC.len() + LENGTH_BYTES];
    let Some(at) = sum_at.checked_sub(end.len() as u64) else { return Ok(None) };
    file.read_exact_at(&mut end, at)?;
    let (magic, len) = end.split_at(MAGIC.len());
    let len = len.first_chunk().map_or(0, |len| u64::from_le_bytes(*len));
    let fits = magic == MAGIC && len.checked_add(trailer_len(len)) == Some(sum_at);
    Ok(fits.then_some(len))
}

fn trailer_len(len: u64) -> u64 {
    // Of a length that no file has, only that it does not fit is needed.
    if len > u64::MAX / 2 { u64::MAX } else { trailer(len).len() as u64 }
}

/// Whether the file's SHA-256 is right.
///
/// # Errors
/// When the file can not be read.
pub fn is_whole(file: &File) -> io::Result<bool> {
    let Some(sum_at) = sum_at(file)? else { return Ok(false) };
    let mut context = Context::new(&SHA256);
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < sum_at {
        let len = usize::try_from(sum_at - at).unwrap_or(PIECE).min(PIECE);
        file.read_exact_at(&mut piece[..len], at)?;
        context.update(&piece[..len]);
        at += len as u64;
    }
    let mut sum = [0; SHA256_OUTPUT_LEN];
    file.read_exact_at(&mut sum, sum_at)?;
    Ok(context.finish().as_ref() == sum)
}

fn sum_at(file: &File) -> io::Result<Option<u64>> {
    let len = file.metadata()?.len();
    let at = len.checked_sub(SHA256_OUTPUT_LEN as u64);
    Ok(at.filter(|at| at.is_multiple_of(BLOCK)))
}

type Sender = mpsc::Sender<Result<SnapshotResponse, Status>>;

/// Begins a backup for a client. It is sent as fast as the client takes it.
pub(crate) fn begin(backups: &Backups) -> Result<mpsc::Receiver<Result<SnapshotResponse, Status>>, Refusal> {
    let (sender, receiver) = mpsc::channel(PIECES);
    let begun = backups.begin(move |made| {
        if let Err(why) = made.and_then(|file| send(&file, &sender).map_err(|why| why.to_string())) {
            let text = format!("etcdserver: the snapshot can not be made: {why}");
            let _ = sender.blocking_send(Err(Status::unavailable(text)));
        }
    });
    begun.map(|()| receiver).map_err(|why| match why {
        BackupError::None => Refusal::new(UNIMPLEMENTED, "this member makes no backups"),
        BackupError::Busy | BackupError::Thread(_) => Refusal::TOO_MANY,
    })
}

/// Sends the whole file, as fast as the client takes it.
fn send(file: &File, sender: &Sender) -> io::Result<()> {
    let len = file.metadata()?.len();
    let trailer = trailer(len);
    let mut left = len + trailer.len() as u64;
    let mut bytes = file.take(len).chain(trailer.as_slice());
    let mut context = Context::new(&SHA256);
    while left > 0 {
        let mut piece = vec![0; usize::try_from(left).unwrap_or(PIECE).min(PIECE)];
        bytes.read_exact(&mut piece)?;
        context.update(&piece);
        left -= piece.len() as u64;
        if !send_piece(sender, piece, left) {
            return Ok(());
        }
    }
    send_piece(sender, context.finish().as_ref().to_vec(), 0);
    Ok(())
}

/// Sends a piece. `false` when nobody listens any more.
fn send_piece(sender: &Sender, piece: Vec<u8>, left: u64) -> bool {
    let (blob, version) = (piece.into(), VERSION.to_owned());
    let response = SnapshotResponse { header: None, remaining_bytes: left, blob, version };
    sender.blocking_send(Ok(response)).is_ok()
}
