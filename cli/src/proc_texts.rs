//! What /proc says with names in it, whose bytes need not be UTF-8: a file may be called anything,
//! and the kernel cuts the names of programs and threads after 15 bytes.

use std::io::Read;

use procfs::process::{MemoryMaps, Process, Status};
use procfs::{FromBufRead, ProcResult};

pub fn status(process: &Process) -> ProcResult<Status> {
    Status::from_buf_read(text(process, "status")?.as_bytes())
}

pub fn maps(process: &Process) -> ProcResult<MemoryMaps> {
    MemoryMaps::from_buf_read(text(process, "maps")?.as_bytes())
}

pub fn smaps(process: &Process) -> ProcResult<MemoryMaps> {
    MemoryMaps::from_buf_read(text(process, "smaps")?.as_bytes())
}

/// The words of the command line.
pub fn cmdline(process: &Process) -> ProcResult<Vec<String>> {
    let text = text(process, "cmdline")?;
    Ok(text.split('\0').filter(|word| !word.is_empty()).map(str::to_owned).collect())
}

fn text(process: &Process, name: &str) -> ProcResult<String> {
    let mut bytes = Vec::new();
    process.open_relative(name)?.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
