//! The proof that the library is in a program: it answers on a pipe that the tool hands it.
//!
//! The variable carries the descriptor and the pipe's identity, so that a library which finds
//! another file under that number (the program's own, say) keeps its hands off it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::process::Command;

use anyhow::{Context, Result};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::fstat;
use nix::unistd::pipe2;

/// What the library asks its environment for: in whatever it is linked into.
pub const VARIABLE: &str = "PRIMALLOC_HANDSHAKE";

/// Above the small numbers that shell scripts and daemons take for themselves.
const LOWEST_DESCRIPTOR: i32 = 100;

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub version: String,
    pub pid: i32,
}

#[derive(Debug, PartialEq)]
pub enum State {
    Waiting,
    Answered(Answer),
    /// Every holder of the pipe's other end is gone, and none has spoken.
    Closed,
}

/// The tool's end of the pipe; the other end closes here as soon as the program is started.
pub struct Handshake {
    reader: File,
    writer: Option<OwnedFd>,
    received: Vec<u8>,
}

impl Handshake {
    /// Opens the pipe and announces it in the environment of `command`.
    pub fn offer(command: &mut Command) -> Result<Handshake> {
        let (reader, writer) =
            pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).context("cannot make a pipe")?;
        let writer = inheritable(writer)?;
        let facts = fstat(&writer).context("cannot look at the pipe")?;
        command.env(VARIABLE, format!("{}:{}:{}", writer.as_raw_fd(), facts.st_dev, facts.st_ino));
        Ok(Handshake { reader: File::from(reader), writer: Some(writer), received: Vec::new() })
    }

    pub fn program_started(&mut self) {
        self.writer = None;
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    /// Takes in what has arrived, without waiting.
    pub fn poll(&mut self) -> State {
        let mut chunk = [0; 256];
        loop {
            match self.reader.read(&mut chunk) {
                Ok(0) => return parse(&self.received).map_or(State::Closed, State::Answered),
                Ok(length) => self.received.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return parse(&self.received).map_or(State::Waiting, State::Answered),
            }
        }
    }
}

/// A copy that survives exec, at a number that the program hardly uses itself.
fn inheritable(writer: OwnedFd) -> Result<OwnedFd> {
    let number = fcntl(&writer, FcntlArg::F_DUPFD(LOWEST_DESCRIPTOR))
        .or_else(|_| fcntl(&writer, FcntlArg::F_DUPFD(3)))
        .context("cannot copy the pipe's descriptor")?;
    // SAFETY: fcntl has just made this descriptor, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The library's line: "primalloc VERSION PID\n".
fn parse(received: &[u8]) -> Option<Answer> {
    let line = received.split(|&byte| byte == b'\n').next()?;
    if line.len() == received.len() {
        return None;
    }
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some("primalloc"), Some(version), Some(pid), None) => {
            Some(Answer { version: version.to_owned(), pid: pid.parse().ok()? })
        }
        _ => None,
    }
}

/// What a library's file says of its version: the line that it answers with, but for the number.
pub fn version_in(file: &[u8]) -> Option<String> {
    let (begin, end) = (&b"primalloc "[..], &b" %u\n"[..]);
    let found = file.windows(begin.len()).enumerate().filter(|&(_, bytes)| bytes == begin);
    let mut versions = found.filter_map(|(at, _)| {
        let rest = &file[at + begin.len()..];
        let is_of_it = |byte: &u8| byte.is_ascii_alphanumeric() || b".-+".contains(byte);
        let (version, rest) = rest.split_at(rest.iter().take_while(|byte| is_of_it(byte)).count());
        let is_one = !version.is_empty() && rest.starts_with(end);
        is_one.then(|| String::from_utf8_lossy(version).into_owned())
    });
    versions.next()
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_answer_is_one_whole_line() {
        let answer = Answer { version: "0.1.0".into(), pid: 42 };
        assert_eq!(parse(b"primalloc 0.1.0 42\n"), Some(answer));
        assert_eq!(parse(b"primalloc 0.1.0 4"), None);
        assert_eq!(parse(b"primalloc 0.1.0\n"), None);
        assert_eq!(parse(b"other 0.1.0 42\n"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn the_version_stands_in_the_file() {
        let file = b"primalloc serves\0primalloc 0.1.0 in\0primalloc 1.2.3-rc1 %u\n\0";
        assert_eq!(version_in(file).as_deref(), Some("1.2.3-rc1"));
        assert_eq!(version_in(b"primalloc  %u\n, primalloc 0.1.0 %u"), None);
        assert_eq!(version_in(b"primal"), None);
    }

    #[test]
    fn the_pipe_is_announced_and_closes() {
        let mut command = Command::new("true");
        let mut handshake = Handshake::offer(&mut command).unwrap();
        let announced = command.get_envs().find(|(name, _)| *name == VARIABLE).unwrap().1.unwrap();
        assert_eq!(announced.to_str().unwrap().split(':').count(), 3);
        assert_eq!(handshake.poll(), State::Waiting);
        handshake.program_started();
        // What other tests start meanwhile has a copy of the pipe's end until it ends.
        let deadline = Instant::now() + Duration::from_secs(20);
        while handshake.poll() == State::Waiting && Instant::now() < deadline {
            sleep(Duration::from_millis(1));
        }
        assert_eq!(handshake.poll(), State::Closed);
    }
}
