//! A follower: reads frames, keeps them as the configuration says, answers with the number of bytes it holds.

use crate::disk::LogFile;
use crate::roles::{self, Done, Word};
use crate::{Config, Doing, Error, Result, frame, net};
use std::io::{IoSlice, Read, Write};

/// Room for what arrived while the last part was written and synced.
const BUFFER: usize = 4 << 20;

pub(crate) fn run(config: &Config, number: usize) -> Result<()> {
    let mut log = LogFile::of(config, &format!("follower-{number}.log"))?;
    let (listener, address) = net::listen()?;
    roles::say(&Word::Ready(address))?;
    let mut stream = net::accept(&listener, &config.congestion_control)?;
    let mut buffer = vec![0u8; BUFFER];
    let (mut have, mut total, mut sum, mut commands) = (0usize, 0u64, 0u64, 0u64);
    loop {
        let n = stream.read(&mut buffer[have..]).doing("read from the leader")?;
        if n == 0 {
            break;
        }
        have += n;
        let mut rest = &buffer[..have];
        while let Some((body, next)) = frame::split(rest, config.batch_bytes, commands)
            .map_err(|what| Error::Child { role: "leader".into(), what: format!("sent {what}") })?
        {
            sum = sum.wrapping_add(frame::touch(body));
            commands += (body.len() / config.command_bytes) as u64;
            rest = next;
        }
        let whole = have - rest.len();
        if whole > 0 {
            if let Some(log) = &mut log {
                log.append(&mut [IoSlice::new(&buffer[..whole])])?;
            }
            total += whole as u64;
            stream.write_all(&total.to_le_bytes()).doing("answer the leader")?;
            buffer.copy_within(whole..have, 0);
            have -= whole;
        }
    }
    roles::say(&Word::Replica(Done { commands, sum, writes: log.map_or(0, |l| l.writes) }))
}
