//! Random numbers from the operating system, for ids that must be unique in the world.

use crate::failure::{Doing as _, Outcome};
use rand::TryRng as _;
use rand::rngs::SysRng;

/// A random number that is not 0, which often means "none".
pub fn number() -> Outcome<u64> {
    loop {
        let number = SysRng.try_next_u64().doing("get random numbers from the operating system")?;
        if number != 0 {
            return Ok(number);
        }
    }
}

/// A random number of 128 bits.
pub fn wide_number() -> Outcome<u128> {
    Ok(u128::from(number()?) << 64 | u128::from(number()?))
}

/// A random key of 32 bytes.
pub fn secret() -> Outcome<[u8; 32]> {
    let mut key = [0; 32];
    SysRng.try_fill_bytes(&mut key).doing("get random numbers from the operating system")?;
    Ok(key)
}
