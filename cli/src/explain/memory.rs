//! The memory of what is explained, wherever it is read from.

use std::io;

pub trait Memory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// What nobody has touched yet reads as zero, and stays untouched.
    fn read_touched(&self, address: u64, size: usize) -> io::Result<Vec<u8>>;

    /// Where pages are shared, as with a fork's child, those of zeros are not told apart.
    fn resident_bytes(&self, start: u64, end: u64, may_share: bool) -> io::Result<u64>;

    fn page_size(&self) -> u64;

    fn read_vec(&self, address: u64, size: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; size];
        self.read(address, &mut buffer)?;
        Ok(buffer)
    }

    fn word(&self, address: u64) -> io::Result<u64> {
        let mut word = [0; 8];
        self.read(address, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }
}
