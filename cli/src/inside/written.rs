//! A file that a function in the process writes, and that never is: its system calls end here.
//!
//! So nothing matters of where the process may write, in which root directory it is, and whether a
//! seccomp filter would end it for that.

use anyhow::Result;

use crate::explain::Memory;

/// No file has such a name, nor a descriptor such a number.
pub const NAME: &str = "/primalloc is to have this, no file";
const DESCRIPTOR: i32 = 0x3fff_fff7;
/// What no profile is larger than.
const SIZE_MAX: usize = 2 << 30;

#[derive(Default)]
pub struct Written {
    bytes: Vec<u8>,
}

impl Written {
    /// What the system call answers if it is about our file; None if it is not.
    pub fn answer(
        &mut self,
        memory: &dyn Memory,
        number: i64,
        arguments: [u64; 4],
    ) -> Result<Option<i64>> {
        let [first, second, third, _] = arguments;
        let is_named = |address: u64| {
            memory.read_vec(address, NAME.len()).is_ok_and(|name| name == NAME.as_bytes())
        };
        let is_open = first as u32 as i32 == DESCRIPTOR;
        #[cfg(target_arch = "x86_64")]
        if [libc::SYS_stat, libc::SYS_lstat].contains(&number) {
            return Ok(is_named(first).then_some(-i64::from(libc::ENOENT)));
        }
        Ok(match number {
            libc::SYS_newfstatat | libc::SYS_statx | libc::SYS_unlinkat => {
                is_named(second).then_some(-i64::from(libc::ENOENT))
            }
            libc::SYS_openat => is_named(second).then_some(i64::from(DESCRIPTOR)),
            libc::SYS_renameat | libc::SYS_renameat2 => is_named(second).then_some(0),
            libc::SYS_write if is_open => Some(self.write(memory, second, third)?),
            libc::SYS_close if is_open => Some(0),
            _ => None,
        })
    }

    fn write(&mut self, memory: &dyn Memory, address: u64, size: u64) -> Result<i64> {
        let size = size as usize;
        if size > SIZE_MAX - self.bytes.len() {
            return Ok(-i64::from(libc::EFBIG));
        }
        match memory.read_vec(address, size) {
            Ok(bytes) => self.bytes.extend(bytes),
            Err(_) => return Ok(-i64::from(libc::EFAULT)),
        }
        Ok(size as i64)
    }

    pub fn bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::ProcessMemory;

    #[test]
    fn only_what_is_about_the_file_is_answered() {
        let memory = ProcessMemory::open(std::process::id() as i32).unwrap();
        let (own_name, other_name) = (format!("{NAME}.7.part\0"), "/etc/passwd\0");
        let (own, other) = (own_name.as_ptr() as u64, other_name.as_ptr() as u64);
        let mut written = Written::default();
        let mut answer = |number, arguments| written.answer(&memory, number, arguments).unwrap();
        let directory = libc::AT_FDCWD as u64;
        assert_eq!(answer(libc::SYS_openat, [directory, other, 0, 0]), None);
        assert_eq!(answer(libc::SYS_write, [2, other, 4, 0]), None);
        let descriptor = answer(libc::SYS_openat, [directory, own, 0, 0]).unwrap() as u64;
        assert_eq!(answer(libc::SYS_write, [descriptor, other, 4, 0]), Some(4));
        assert_eq!(answer(libc::SYS_write, [descriptor, 8, 4, 0]), Some(-i64::from(libc::EFAULT)));
        assert_eq!(answer(libc::SYS_close, [descriptor, 0, 0, 0]), Some(0));
        assert_eq!(answer(libc::SYS_renameat, [directory, own, directory, own]), Some(0));
        assert_eq!(written.bytes(), b"/etc");
    }
}
