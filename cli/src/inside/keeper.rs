//! A child of the tool that holds threads in its place, and outlives it.
//!
//! A thread whose tracer dies in the middle of a call is lost, and its process with it. So the tool
//! itself traces nobody, and may be interrupted, killed, or lose its terminal at any time: the
//! child has a session of its own, takes no signal, finishes the call and puts the thread back.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Context, Result, anyhow};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::SigSet;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, dup2_stdin, dup2_stdout, fork, setsid};

/// Other than the tool's, so that who kills all tools by their name leaves it to finish.
const NAME: &std::ffi::CStr = c"prim-keeper";

/// The child, as the tool sees it.
pub struct Keeper {
    child: Pid,
    channel: UnixStream,
}

/// The tool, as the child sees it.
pub struct Tool(UnixStream);

impl Keeper {
    /// The child does the work, and its result is the last answer.
    pub fn start(work: impl FnOnce(&mut Tool) -> Result<Vec<u8>>) -> Result<Keeper> {
        let (channel, to_tool) = UnixStream::pair().context("no channel can be made")?;
        // SAFETY: the tool has one thread here, so that the child may do all that it may.
        match unsafe { fork() }.context("no process can be made")? {
            ForkResult::Parent { child } => Ok(Keeper { child, channel }),
            ForkResult::Child => {
                drop(channel);
                serve(Tool(to_tool), work)
            }
        }
    }

    /// Waits for what it answers next.
    pub fn answer(&mut self) -> Result<Vec<u8>> {
        read_answer(&mut self.channel).unwrap_or_else(|_| {
            Err(anyhow!("the process that did this for the tool, {}, was killed", self.child))
        })
    }

    /// Lets it go on with what comes next.
    pub fn go_on(&mut self) -> Result<()> {
        self.channel.write_all(&[1]).context("the process that did this for the tool was killed")
    }
}

/// It sees that nobody waits for it any more, and ends.
impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.channel.shutdown(std::net::Shutdown::Both);
        let _ = waitpid(self.child, None);
    }
}

impl Tool {
    pub fn answer(&mut self, answer: Result<Vec<u8>>) {
        let (is_error, bytes) = match answer {
            Ok(bytes) => (0_u8, bytes),
            Err(error) => (1, format!("{error:#}").into_bytes()),
        };
        let head = [&[is_error], &bytes.len().to_ne_bytes()[..]].concat();
        // If the tool is gone, nobody wants to know.
        let _ = self.0.write_all(&head).and_then(|()| self.0.write_all(&bytes));
    }

    pub fn has_ended(&self) -> bool {
        let mut channel = [PollFd::new(self.0.as_fd(), PollFlags::empty())];
        poll(&mut channel, PollTimeout::ZERO).is_ok_and(|count| count != 0)
    }

    /// Whether the tool wants what comes next; else it has ended.
    pub fn wait(&mut self) -> bool {
        self.0.read_exact(&mut [0]).is_ok()
    }
}

fn serve(mut tool: Tool, work: impl FnOnce(&mut Tool) -> Result<Vec<u8>>) -> ! {
    let _ = setsid();
    let _ = SigSet::all().thread_block();
    let _ = prctl::set_name(NAME);
    leave_pipes();
    let done = catch_unwind(AssertUnwindSafe(|| work(&mut tool)));
    tool.answer(done.unwrap_or_else(|_| Err(anyhow!("this is a fault of the tool"))));
    // SAFETY: ends this process, and runs nothing of what the tool has left for its end.
    unsafe { libc::_exit(0) }
}

/// Whoever reads what the tool writes waits no longer than for the tool.
fn leave_pipes() {
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        let _ = dup2_stdin(&nothing);
        let _ = dup2_stdout(&nothing);
    }
}

fn read_answer(channel: &mut UnixStream) -> io::Result<Result<Vec<u8>>> {
    let (mut is_error, mut size) = ([0], [0; size_of::<usize>()]);
    channel.read_exact(&mut is_error)?;
    channel.read_exact(&mut size)?;
    let mut bytes = vec![0; usize::from_ne_bytes(size)];
    channel.read_exact(&mut bytes)?;
    Ok(match is_error {
        [0] => Ok(bytes),
        _ => Err(anyhow!(String::from_utf8_lossy(&bytes).into_owned())),
    })
}
