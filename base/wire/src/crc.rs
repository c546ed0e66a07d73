//! The checksum of two byte strings one after the other, from the checksums of both. So a large batch is read once and then sent to many.
//!
//! A CRC is a remainder of polynomials over two elements, so bytes that stand before n others count times x^(8n). That power is the product
//! of those x^(2^k) for which bit k of 8n is set. Bit 31 of a number is the coefficient of x^0, as in the CRC. Tests: crc/tests.rs.

/// To read this many bytes again takes about as long as to join their checksum with another one; to read fewer is quicker.
pub(crate) const WORTH_JOINING: usize = 4 << 10;

/// CRC-32C without x^32.
const POLYNOMIAL: u32 = 0x82f6_3b78;
const ONE: u32 = 1 << 31;

/// x^(2^k) for all k that a length of 64 bits can ask for.
const POWERS: [u32; 67] = {
    let mut powers = [ONE >> 1; 67];
    let mut k = 1;
    while k < powers.len() {
        powers[k] = times(powers[k - 1], powers[k - 1]);
        k += 1;
    }
    powers
};

/// The product of two remainders.
const fn times(mut a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    while a != 0 {
        // No branch on the coefficients, which are as good as random.
        product ^= b & (a >> 31).wrapping_neg();
        a <<= 1;
        b = (b >> 1) ^ (POLYNOMIAL & (b & 1).wrapping_neg());
    }
    product
}

/// The checksum of both strings; `second` is that of `len` bytes.
pub(crate) fn join(first: u32, second: u32, len: u64) -> u32 {
    let mut shift = ONE;
    let mut rest = len;
    while rest != 0 {
        shift = times(POWERS[3 + rest.trailing_zeros() as usize], shift);
        rest &= rest - 1;
    }
    times(first, shift) ^ second
}

#[cfg(test)]
mod tests;
