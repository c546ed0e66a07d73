//! The two halves of every codec: a reader that checks before it reads, and little-endian writers.

use bytes::Bytes;
use quorate_types::Reject;

/// Takes fixed-size values off the front of a byte string. When bytes are missing, a method fails; it does not panic.
#[derive(Debug)]
pub struct Reader {
    bytes: Bytes,
    what: &'static str,
}

impl Reader {
    /// Reads these bytes; `what` names them in errors.
    pub fn new(bytes: Bytes, what: &'static str) -> Self {
        Self { bytes, what }
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// When fewer bytes are left.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Reject> {
        let array = *self.bytes.first_chunk::<N>().ok_or(Reject::Malformed(self.what))?;
        let _ = self.bytes.split_to(N);
        Ok(array)
    }
    /// The next byte.
    ///
    /// # Errors
    /// When fewer bytes are left.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Reject> {
        Ok(u8::from_le_bytes(self.array()?))
    }
    /// The next byte, which is 0 or 1.
    ///
    /// # Errors
    /// When bytes lack, or it is another one.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, Reject> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Reject::Malformed(self.what)),
        }
    }
    /// The next two bytes.
    ///
    /// # Errors
    /// When fewer bytes are left.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Reject> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    /// The next four bytes.
    ///
    /// # Errors
    /// When fewer bytes are left.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Reject> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    /// The next eight bytes.
    ///
    /// # Errors
    /// When fewer bytes are left.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Reject> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    /// The next sixteen bytes.
    ///
    /// # Errors
    /// When fewer bytes are left.
    #[inline]
    pub fn u128(&mut self) -> Result<u128, Reject> {
        Ok(u128::from_le_bytes(self.array()?))
    }
    /// The next `len` bytes, shared with the frame they came in.
    ///
    /// # Errors
    /// When there are fewer.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Result<Bytes, Reject> {
        if len > self.bytes.len() {
            return Err(Reject::Malformed(self.what));
        }
        Ok(self.bytes.split_to(len))
    }
    /// How many bytes are left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }
    /// All bytes that are left.
    #[inline]
    pub fn rest(self) -> Bytes {
        self.bytes
    }
    /// Checks that nothing is left over, since trailing bytes would be carried along unnoticed.
    ///
    /// # Errors
    /// When bytes are left.
    #[inline]
    pub fn end(self) -> Result<(), Reject> {
        if self.bytes.is_empty() { Ok(()) } else { Err(Reject::Malformed(self.what)) }
    }
}

/// Appends fixed-size values.
pub trait Put {
    /// Appends one byte.
    fn put_u8(&mut self, value: u8);
    /// Appends two bytes.
    fn put_u16(&mut self, value: u16);
    /// Appends four bytes.
    fn put_u32(&mut self, value: u32);
    /// Appends eight bytes.
    fn put_u64(&mut self, value: u64);
    /// Appends sixteen bytes.
    fn put_u128(&mut self, value: u128);
}

impl Put for Vec<u8> {
    #[inline]
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }
    #[inline]
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    #[inline]
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    #[inline]
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    #[inline]
    fn put_u128(&mut self, value: u128) {
        self.extend_from_slice(&value.to_le_bytes());
    }
}
