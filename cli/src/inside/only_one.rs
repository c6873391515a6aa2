//! What only one tool at a time may do in a process: it has one profile, and who starts another one
//! ends the first, whose tool would take the second's for its own.

use std::fs::File;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// So long a killed tool's keeper may take to end what it had begun.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

/// A lock on the process's directory in /proc. The keeper inherits it, and so has it for as long as
/// it lives, whatever ends the tool.
pub struct OnlyOne {
    _lock: Flock<File>,
}

impl OnlyOne {
    pub fn begin(pid: i32) -> Result<OnlyOne> {
        let directory = File::open(format!("/proc/{pid}"));
        let mut directory = directory.with_context(|| format!("{pid}: cannot be looked at"))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Flock::lock(directory, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(OnlyOne { _lock: lock }),
                Err((file, Errno::EWOULDBLOCK)) if Instant::now() < deadline => directory = file,
                Err((_, Errno::EWOULDBLOCK)) => bail!(
                    "{pid}: another primalloc profile --pid profiles it now, and a new profile \
                     would end that; wait until that one is over, or end it"
                ),
                Err((_, error)) => {
                    return Err(error).with_context(|| format!("{pid}: cannot be locked"));
                }
            }
            sleep(PAUSE);
        }
    }
}
