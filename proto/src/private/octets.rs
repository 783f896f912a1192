//! Values that are signed, to bytes and back: one way to write each, and no other is read.
//!
//! Numbers are big-endian; a name has its length in one byte before it. What is read to its end
//! and written again is the same bytes.

/// Why bytes are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("{0} is cut short or malformed")]
    Field(&'static str),
    #[error("it has {0} bytes more than it should")]
    Excess(usize),
    #[error("it is of version {found}; this release reads version {known}")]
    Version { found: u8, known: u8 },
}

/// Bytes being written.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    /// # Panics
    /// When it is longer than any id.
    pub fn name(&mut self, name: &str) -> &mut Self {
        let length = u8::try_from(name.len()).expect("ids have at most 64 bytes");
        self.u8(length).bytes(name.as_bytes())
    }

    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// Bytes being read.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// What was not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub fn bytes(&mut self, field: &'static str, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed::Field(field))?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let bytes = self.bytes(field, N)?;
        bytes.try_into().map_err(|_| Malformed::Field(field))
    }

    pub fn u8(&mut self, field: &'static str) -> Result<u8, Malformed> {
        self.array(field).map(u8::from_be_bytes)
    }

    pub fn u16(&mut self, field: &'static str) -> Result<u16, Malformed> {
        self.array(field).map(u16::from_be_bytes)
    }

    pub fn u32(&mut self, field: &'static str) -> Result<u32, Malformed> {
        self.array(field).map(u32::from_be_bytes)
    }

    pub fn u64(&mut self, field: &'static str) -> Result<u64, Malformed> {
        self.array(field).map(u64::from_be_bytes)
    }

    /// 0 or 1.
    pub fn flag(&mut self, field: &'static str) -> Result<bool, Malformed> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Field(field)),
        }
    }

    pub fn name<T: std::str::FromStr>(&mut self, field: &'static str) -> Result<T, Malformed> {
        let length = self.u8(field)?;
        let bytes = self.bytes(field, length.into())?;
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed::Field(field))?;
        text.parse().map_err(|_| Malformed::Field(field))
    }

    /// The version that the bytes begin with.
    pub fn version(&mut self, known: u8) -> Result<(), Malformed> {
        let found = self.u8("version")?;
        if found == known { Ok(()) } else { Err(Malformed::Version { found, known }) }
    }

    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Excess(self.0.len())) }
    }
}
