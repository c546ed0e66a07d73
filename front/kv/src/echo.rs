//! A service for measurements of agreement: it counts commands, and answers each command or query with as many bytes as that asks for.

use quorate_execute::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, ReplySink, Service, read_exact,
};

/// The longest reply.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// A command of `request_bytes` bytes that is answered with `reply_bytes` bytes. If both are 0 it is empty, else it has at least 4 bytes,
/// which give the length of the reply (little-endian).
pub fn echo_command(request_bytes: usize, reply_bytes: usize) -> Vec<u8> {
    let len = if reply_bytes > 0 { request_bytes.max(4) } else { request_bytes };
    let mut command = vec![0; len];
    let size = u32::try_from(reply_bytes).unwrap_or(u32::MAX).to_le_bytes();
    command.iter_mut().zip(size).for_each(|(byte, size)| *byte = size);
    command
}

/// A query that is answered with this number of bytes, which do not depend on the state.
pub fn echo_query(reply_bytes: usize) -> Vec<u8> {
    u32::try_from(reply_bytes).unwrap_or(u32::MAX).to_le_bytes().to_vec()
}

/// The service. Commands are those of [`echo_command`], queries those of [`echo_query`]; an empty query is answered with the number of commands
/// so far, 8 bytes.
#[derive(Clone, Debug, Default)]
pub struct Echo {
    count: u64,
}

impl Service for Echo {
    fn execute(&mut self, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        self.count += 1;
        answer(command, reply);
    }

    fn query(&self, query: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        if query.is_empty() {
            reply.write(&self.count.to_le_bytes());
        } else {
            answer(query, reply);
        }
    }

    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        out.write(&self.count.to_le_bytes())
    }

    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        let mut bytes = [0; 8];
        read_exact(from, &mut bytes)?;
        self.count = u64::from_le_bytes(bytes);
        if from.read(&mut [0])? == 0 {
            Ok(())
        } else {
            Err(CheckpointError::Malformed("bytes after the count"))
        }
    }
}

/// Writes as many zeros as the first four bytes ask for.
fn answer(request: &[u8], reply: &mut ReplySink<'_>) {
    const ZEROS: [u8; 1024] = [0; 1024];
    let wanted = request.first_chunk::<4>().map_or(0, |size| u32::from_le_bytes(*size));
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).min(REPLY_BYTES_MAX);
    for begin in (0..wanted).step_by(ZEROS.len()) {
        reply.write(&ZEROS[..ZEROS.len().min(wanted - begin)]);
    }
}
