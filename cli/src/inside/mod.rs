//! Has a running process do something: a thread of it calls functions of the library.
//!
//! Nothing is prepared in it, and no debugger is needed. One thread is stopped, where it waits in
//! the kernel as a rule, calls what it is told to, and goes on as if nothing had been.
//!
//!   keeper.rs      a child that does this, and outlives the tool
//!   library.rs     which primalloc it is, and where its functions are
//!   threads.rs     which thread may be asked
//!   refusal.rs     why none may
//!   held.rs        a thread that calls, and is put back
//!   tracee.rs      what the kernel offers to debuggers
//!   registers.rs   the machine's part
//!   written.rs     a file that comes to us instead of being written
//!   only_one.rs    what only one tool at a time may do in a process

mod held;
mod keeper;
mod library;
mod only_one;
mod refusal;
mod registers;
mod threads;
mod tracee;
mod written;

use anyhow::{Context, Result, bail};
use procfs::process::Process;
use serde::{Deserialize, Serialize};

use crate::explain::{self, ProcessMemory};
use crate::proc_texts;
use crate::processes::{self, program_name};
use held::Held;
use keeper::{Keeper, Tool};
use library::Library;
use only_one::OnlyOne;
use registers::RETURN;

/// What a text of an option is cut off at.
const TEXT_SIZE: usize = 256;

/// A process that can be asked.
pub struct Inside {
    process: Process,
    memory: ProcessMemory,
    library: Library,
    pub program: String,
}

/// One that has begun. The keeper ends before others may begin one.
pub struct RunningProfile {
    keeper: Keeper,
    _only_one: OnlyOne,
}

/// An option that was to be set, as texts.
#[derive(Serialize, Deserialize)]
pub struct Change {
    /// None if there is no such option.
    pub before: Option<String>,
    pub after: Result<String, String>,
}

impl Inside {
    pub fn open(pid: i32) -> Result<Inside> {
        explain::check_numbers(pid)?;
        let process = processes::open(pid).map_err(|error| explain::refusal(pid, error))?;
        explain::check(&process)?;
        let maps = proc_texts::maps(&process).map_err(|error| explain::refusal(pid, error))?;
        let maps: Vec<_> = maps.into_iter().collect();
        if maps.is_empty() {
            bail!("{pid}: the process has ended");
        }
        if maps.iter().any(|map| map.address.0 == RETURN) {
            bail!(refusal::memory_at_return(pid));
        }
        let memory = ProcessMemory::open(pid)?;
        let library = Library::find(&process, &maps, &memory)?;
        let program = program_name(&process).unwrap_or_default();
        Ok(Inside { process, memory, library, program })
    }

    pub fn pid(&self) -> i32 {
        self.process.pid
    }

    pub fn is_running(&self) -> bool {
        self.process.stat().is_ok_and(|stat| !"ZX".contains(stat.state))
    }

    pub fn resident_bytes(&self) -> Result<u64> {
        let rollup = self.process.smaps_rollup();
        let rollup = rollup.map_err(|error| explain::refusal(self.pid(), error))?;
        Ok(rollup
            .memory_map_rollup
            .into_iter()
            .filter_map(|m| m.extension.map.get("Rss").copied())
            .sum())
    }

    fn hold(&self, is_wanted: impl Fn() -> bool) -> Result<Held<'_>> {
        threads::hold(&self.process, &self.library, &self.memory, is_wanted)
    }

    fn function(&self, name: &str) -> Result<u64> {
        self.library.function(name, &self.memory)
    }

    /// What a thread does that is held for the tool.
    fn ask(&self, what: impl FnOnce(&mut Held) -> Result<Vec<u8>>) -> Result<Vec<u8>> {
        let work = |tool: &mut Tool| what(&mut self.hold(|| !tool.has_ended())?);
        Keeper::start(work)?.answer()
    }

    /// Has it give back what is free; whether there was something.
    pub fn trim(&self) -> Result<bool> {
        let function = self.function("prim_malloc_trim")?;
        let result = self.ask(|held| Ok(vec![held.call(function, &[0])? as u8]))?;
        Ok(result == [1])
    }

    /// One after the other; no process changes options that it does not know.
    pub fn set(&self, settings: &[(&str, &str)]) -> Result<Vec<Change>> {
        let get = self.function("prim_option_get_text")?;
        let set = self.function("prim_option_set_text")?;
        let changes = self.ask(|held| {
            let changes = settings.iter().map(|setting| change(held, get, set, *setting));
            Ok(serde_json::to_vec(&changes.collect::<Result<Vec<Change>>>()?)?)
        })?;
        Ok(serde_json::from_slice(&changes)?)
    }

    /// If the tool does not live to finish it, it is ended all the same.
    pub fn start_profile(&self, settings: &str) -> Result<RunningProfile> {
        let start = self.function("prim_profile_start")?;
        let dump = self.function("prim_profile_dump")?;
        let stop = self.function("prim_profile_stop")?;
        let only_one = OnlyOne::begin(self.pid())?;
        let mut keeper = Keeper::start(|tool| {
            self.begin_profile(&mut self.hold(|| !tool.has_ended())?, start, settings)?;
            tool.answer(Ok(Vec::new()));
            if tool.wait() {
                return self.finish_profile(&mut self.hold(|| true)?, dump, stop);
            }
            self.hold(|| true)?.call(stop, &[]).map(|_| Vec::new())
        })?;
        keeper.answer()?;
        Ok(RunningProfile { keeper, _only_one: only_one })
    }

    fn begin_profile(&self, held: &mut Held, start: u64, settings: &str) -> Result<()> {
        let settings = held.text(settings)?;
        // As the end will be: a kernel that cannot do that lets nothing begin.
        let (result, _) = held.call_to_write(start, &[settings])?;
        if result as i32 == 0 {
            return Ok(());
        }
        match held.errno() {
            Some(libc::ENOMEM) => bail!("{}: it has no memory left for a profile", self.pid()),
            Some(libc::ENOTSUP) => bail!("{}: the minimal library has no profiler", self.pid()),
            _ => bail!("{}: its library refuses to start a profile", self.pid()),
        }
    }

    fn finish_profile(&self, held: &mut Held, dump: u64, stop: u64) -> Result<Vec<u8>> {
        let name = held.text(written::NAME)?;
        let (result, bytes) = held.call_to_write(dump, &[name])?;
        held.call(stop, &[])?;
        if result as i32 != 0 {
            bail!("{}: its library has refused to write the profile", self.pid());
        }
        Ok(bytes)
    }
}

impl RunningProfile {
    /// The profile, which ends.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        self.keeper.go_on()?;
        self.keeper.answer()
    }
}

const TOLD_WHAT_IT_TAKES: &str = "primalloc run -o help -- true tells what each option takes";

fn change(held: &mut Held, get: u64, set: u64, (name, value): (&str, &str)) -> Result<Change> {
    let room = held.room(TEXT_SIZE)?;
    let (name_there, value_there) = (held.text(name)?, held.text(value)?);
    let shown = |held: &mut Held| -> Result<Option<String>> {
        let found = held.call(get, &[name_there, room, TEXT_SIZE as u64])?;
        (found as i32 == 0).then(|| held.read(room, TEXT_SIZE)).transpose()
    };
    let Some(before) = shown(held)? else {
        let after = Err(format!("there is no such option; {TOLD_WHAT_IT_TAKES}"));
        return Ok(Change { before: None, after });
    };
    if held.call(set, &[name_there, value_there])? as i32 == 0 {
        let after = shown(held)?.context("it has gone")?;
        return Ok(Change { before: Some(before), after: Ok(after) });
    }
    let why = match held.errno() {
        Some(libc::EPERM) => "it cannot be changed any more, only be set at the start".to_owned(),
        Some(libc::EINVAL) => format!("'{value}' is no value for it; {TOLD_WHAT_IT_TAKES}"),
        _ => format!("the library refuses '{value}'"),
    };
    Ok(Change { before: Some(before), after: Err(why) })
}
