//! Running processes, as /proc shows them: which of them run on primalloc, and why one does not.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::unistd::{Pid, Uid, User};
use procfs::process::{MMapPath, Process, Stat, Task, all_processes};
use procfs::{ProcError, ProcResult};
use serde::Serialize;

use crate::allocators::is_glibc;
use crate::explain;
use crate::handshake;
use crate::proc_texts;
use crate::program::{Image, LinkedMalloc};

/// What the library names its anonymous memory, where the kernel lets it.
pub const ANONYMOUS_NAME: &str = "anon:primalloc";
const DELETED: &str = " (deleted)";
/// What no library is larger than.
const LIBRARY_SIZE_MAX: u64 = 64 << 20;
/// The entry of the auxiliary vector that is 1 in secure mode.
const AT_SECURE: u64 = 23;

#[derive(Debug, Serialize)]
pub struct Listing {
    pub processes: Vec<RunningProcess>,
    /// Processes of others, whose mappings may not be read.
    pub unreadable: usize,
}

#[derive(Debug, Serialize)]
pub struct RunningProcess {
    pub pid: i32,
    pub user: String,
    pub program: String,
    pub resident_bytes: u64,
    /// None where primalloc is linked into the program itself.
    pub library: Option<PathBuf>,
    pub library_state: LibraryState,
    pub version: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LibraryState {
    Current,
    /// Another file now has its name, as after an upgrade.
    Replaced,
    /// No file has its name any more.
    Deleted,
    /// Linked into the program.
    Static,
}

/// Every process that runs on primalloc and can be looked at.
pub fn list() -> Result<Listing> {
    let mut listing = Listing { processes: Vec::new(), unreadable: 0 };
    let mut versions = Versions::default();
    let mut programs = HashMap::new();
    for process in all_processes().context("/proc cannot be read")?.flatten() {
        let Ok(process) = open(process.pid) else { continue };
        let mapped = mapped_primalloc(&process).map(|mapped| {
            mapped.or_else(|| is_linked(&process, &mut programs).then_some(Mapped::Linked))
        });
        match mapped {
            Ok(Some(_)) if calls_another(&process) => {}
            Ok(Some(mapped)) => listing.processes.extend(describe(&process, mapped, &mut versions)),
            Ok(None) => {}
            Err(ProcError::PermissionDenied(_)) if is_program(&process) => listing.unreadable += 1,
            // It is of the kernel, or has ended in the meantime.
            Err(_) => {}
        }
    }
    listing.processes.sort_by_key(|process| process.pid);
    Ok(listing)
}

/// What those processes have started, and what these have, by when they started.
pub fn descendants(is_parent: impl Fn(i32) -> bool) -> HashMap<i32, u64> {
    let stats: Vec<Stat> = match all_processes() {
        Ok(processes) => processes.flatten().filter_map(|p| p.stat().ok()).collect(),
        Err(_) => return HashMap::new(),
    };
    let mut found = HashMap::new();
    loop {
        let is_new = |stat: &&Stat| {
            let is_child = is_parent(stat.ppid) || found.contains_key(&stat.ppid);
            is_child && !found.contains_key(&stat.pid)
        };
        let new: Vec<(i32, u64)> =
            stats.iter().filter(is_new).map(|stat| (stat.pid, stat.starttime)).collect();
        if new.is_empty() {
            return found;
        }
        found.extend(new);
    }
}

/// The number under which /proc shows the process's memory: its own, or that of a thread which goes
/// on where the first one has ended.
pub fn shown_as(pid: i32) -> i32 {
    let Ok(process) = Process::new(pid) else { return pid };
    if !process.stat().is_ok_and(|stat| has_ended(&stat) && stat.num_threads > 1) {
        return pid;
    }
    let goes_on = |task: &Task| task.stat().is_ok_and(|stat| !has_ended(&stat));
    let mut tasks = process.tasks().into_iter().flatten().flatten();
    tasks.find(goes_on).map_or(pid, |task| task.tid)
}

/// The process whose thread it is, unless it is the first one, whose number is the process's own.
/// /proc mostly shows the same under both, but locks and events are of the one or the other.
pub fn process_of_thread(tid: i32) -> Option<i32> {
    let status = proc_texts::status(&Process::new(tid).ok()?).ok()?;
    Some(status.tgid).filter(|process| *process != tid)
}

/// The process as /proc shows it, whether or not its first thread has ended before the others.
pub fn open(pid: i32) -> ProcResult<Process> {
    let mut process = Process::new(shown_as(pid))?;
    process.pid = pid;
    Ok(process)
}

/// The same of its state, sizes and counts.
pub fn stat_of(pid: i32) -> Option<Stat> {
    let stat = Process::new(pid).ok()?.stat().ok()?;
    if !has_ended(&stat) {
        return Some(stat);
    }
    let mut thread = open(pid).ok()?.stat().ok()?;
    (thread.pid, thread.starttime) = (pid, stat.starttime);
    Some(thread)
}

pub fn has_ended(stat: &Stat) -> bool {
    "ZX".contains(stat.state)
}

/// What the process has started, if it is the tool itself, and that is one program.
pub fn program_of_tool(pid: i32) -> Option<i32> {
    let name = |process: Process| {
        let name = process.exe().ok()?.file_name()?.to_string_lossy().into_owned();
        // After an upgrade one of the two runs from a file that has lost its name.
        Some(name.strip_suffix(DELETED).map_or(name.clone(), str::to_owned))
    };
    if name(Process::new(pid).ok()?)? != name(Process::myself().ok()?)? {
        return None;
    }
    let stats = all_processes().ok()?.flatten().filter_map(|process| process.stat().ok());
    let mut children = stats.filter(|stat| stat.ppid == pid).map(|stat| stat.pid);
    children.next().filter(|_| children.next().is_none())
}

/// When the process started, if it still runs: another one may get its number. Of one that is about
/// to end nothing can be seen any more, as its memory has gone before it.
pub fn start_of(pid: i32) -> Option<u64> {
    running(pid).filter(|stat| stat.vsize > 0).map(|stat| stat.starttime)
}

/// Where the code and the stack of the process's program lie: elsewhere once it has become another.
pub fn program_places(pid: i32) -> Option<[u64; 3]> {
    stat_of(pid).map(|stat| [stat.startcode, stat.endcode, stat.startstack])
}

/// Whether the one that started then is still there.
pub fn is_same_process(pid: i32, start: u64) -> bool {
    running(pid).is_some_and(|stat| stat.starttime == start)
}

fn running(pid: i32) -> Option<Stat> {
    stat_of(pid).filter(|stat| !has_ended(stat))
}

enum Mapped {
    Library(PathBuf),
    Linked,
}

fn mapped_primalloc(process: &Process) -> Result<Option<Mapped>, ProcError> {
    let mut mapped = None;
    for map in proc_texts::maps(process)? {
        match map.pathname {
            MMapPath::Path(path) if is_library(&path) => return Ok(Some(Mapped::Library(path))),
            MMapPath::Other(name) if name.starts_with(ANONYMOUS_NAME) => {
                mapped = Some(Mapped::Linked)
            }
            _ => {}
        }
    }
    Ok(mapped)
}

/// Whether its malloc is another one although primalloc is loaded: one that is linked into the
/// program, say.
fn calls_another(process: &Process) -> bool {
    let maps = proc_texts::maps(process).map(|maps| maps.into_iter().collect::<Vec<_>>());
    let server = maps.ok().and_then(|maps| explain::server(process.pid, &maps));
    matches!(server, Some(explain::Server::Other(_)))
}

/// Kernels that keep no names of anonymous memory do not tell; the program's file does.
fn is_linked(process: &Process, programs: &mut HashMap<PathBuf, bool>) -> bool {
    let Ok(program) = process.exe() else { return false };
    let link = Path::new("/proc").join(process.pid().to_string()).join("exe");
    let has_note = || Image::read(&link).is_ok_and(|image| image.has_note);
    *programs.entry(program).or_insert_with(has_note)
}

/// Whatever flavour of the library: checked, versioned, deleted since.
pub fn is_library(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.starts_with("libprimalloc") && name.contains(".so")
}

fn describe(process: &Process, mapped: Mapped, versions: &mut Versions) -> Option<RunningProcess> {
    let status = proc_texts::status(process).ok()?;
    let (library, library_state) = match mapped {
        Mapped::Linked => (None, LibraryState::Static),
        Mapped::Library(path) => {
            let (path, state) = state_of(process, &path);
            (Some(path), state)
        }
    };
    let version = match (&library, library_state) {
        (Some(path), LibraryState::Current) => versions.of(&seen_by(process, path)),
        _ => None,
    };
    Some(RunningProcess {
        pid: process.pid(),
        user: user_name(status.euid),
        program: program_name(process).unwrap_or(status.name),
        resident_bytes: status.vmrss.unwrap_or(0) * 1024,
        library,
        library_state,
        version,
    })
}

/// The kernel marks the path of a file that has lost its name.
fn state_of(process: &Process, path: &Path) -> (PathBuf, LibraryState) {
    let text = path.to_string_lossy();
    match text.strip_suffix(DELETED).map(PathBuf::from) {
        None => (path.to_owned(), LibraryState::Current),
        Some(path) if seen_by(process, &path).exists() => (path, LibraryState::Replaced),
        Some(path) => (path, LibraryState::Deleted),
    }
}

/// Where the file lies that the process knows by this path: it may be in a container.
pub fn seen_by(process: &Process, path: &Path) -> PathBuf {
    let root = format!("/proc/{}/root", shown_as(process.pid()));
    Path::new(&root).join(path.strip_prefix("/").unwrap_or(path))
}

/// What libraries' files tell of their versions, by device and inode.
///
/// The files are read and not run: whoever owns a process may have given any file such a name.
#[derive(Default)]
struct Versions(HashMap<(u64, u64), Option<String>>);

impl Versions {
    fn of(&mut self, path: &Path) -> Option<String> {
        // By now it may be a pipe, at which one would wait.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
        let facts = file.metadata().ok().filter(|facts| facts.is_file())?;
        let read = || {
            let mut bytes = Vec::new();
            file.take(LIBRARY_SIZE_MAX).read_to_end(&mut bytes).ok()?;
            handshake::version_in(&bytes)
        };
        self.0.entry((facts.dev(), facts.ino())).or_insert_with(read).clone()
    }
}

fn user_name(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

/// Processes on primalloc in whose environment this directory stands, by number and name.
pub fn running_with(directory: &Path) -> Vec<(i32, String)> {
    let wanted = directory.as_os_str().as_bytes();
    let names_it = |process: &Process| {
        let environment = process.environ().unwrap_or_default();
        environment.values().any(|value| value.as_bytes().starts_with(wanted))
    };
    let processes = all_processes().into_iter().flatten().flatten();
    let found = processes.filter(|process| names_it(process));
    let found = found.filter(|process| matches!(mapped_primalloc(process), Ok(Some(_))));
    let mut named: Vec<(i32, String)> =
        found.map(|process| (process.pid, program_name(&process).unwrap_or_default())).collect();
    named.sort();
    named
}

/// Threads of the kernel have no command line.
fn is_program(process: &Process) -> bool {
    proc_texts::cmdline(process).is_ok_and(|words| !words.is_empty())
}

/// The name that the program was started by, without what it has written after it since.
pub fn program_name(process: &Process) -> Option<String> {
    let words = proc_texts::cmdline(process).ok()?;
    let word = Path::new(words.first()?);
    let name_of = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let is_whole = process.exe().is_ok_and(|exe| name_of(&exe) == name_of(word));
    let path = if is_whole { word } else { Path::new(words[0].split(' ').next()?) };
    let name = path.file_name()?.to_string_lossy();
    Some(name.trim_end_matches(':').to_owned())
}

/// Whether a process that was started with `library` will never have it: what is preloaded comes
/// before libc. One that is still being loaded may have neither.
pub fn is_left_out(pid: Pid, library: &Path) -> bool {
    let look = || {
        let process = Process::new(pid.as_raw()).ok()?;
        let image = Image::read(&process.exe().ok()?).ok()?;
        let maps = proc_texts::maps(&process).ok()?;
        let is_in = |is_it: &dyn Fn(&Path) -> bool| {
            let is_it = |map: &MMapPath| matches!(map, MMapPath::Path(path) if is_it(path));
            maps.iter().any(|map| is_it(&map.pathname))
        };
        let real = real_path(library);
        let has_ours = image.malloc == Some(LinkedMalloc::Primalloc)
            || is_in(&|path| path == real || is_library(path));
        Some(!has_ours && (image.is_static() || is_in(&is_glibc)))
    };
    look().unwrap_or(false)
}

/// As it stands in the mappings.
fn real_path(library: &Path) -> PathBuf {
    library.canonicalize().unwrap_or_else(|_| library.to_owned())
}

/// Why a process that was started with `library` does not run on it, as exactly as can be known;
/// `program` is the file that it was started from.
pub fn explain_missing_library(pid: Pid, library: &Path, program: &Path) -> String {
    let is_static = |file: &Path| Image::read(file).is_ok_and(|image| image.is_static());
    let of_static = |file: &Path| {
        format!("{} is linked statically, so no loader brings a library in", file.display())
    };
    let unknown = match is_static(program) {
        true => of_static(program),
        false => "it has ended before one could see why; the loader may have said so above".into(),
    };
    let Ok(process) = Process::new(pid.as_raw()) else {
        return unknown;
    };
    let is_secure = process.auxv().is_ok_and(|vector| vector.get(&AT_SECURE) == Some(&1));
    if is_secure {
        return "the kernel started it in secure mode, in which the loader ignores LD_PRELOAD"
            .to_owned();
    }
    match (process.exe(), mapped_primalloc(&process)) {
        (_, Ok(Some(Mapped::Library(path)))) if path == real_path(library) => format!(
            "{} is loaded but has not answered; it may be of another version than this tool",
            library.display()
        ),
        (_, Ok(Some(Mapped::Library(path)))) => {
            format!("{} is loaded, not {}, and has not answered", path.display(), library.display())
        }
        (Ok(exe), Ok(_)) if is_static(&exe) => of_static(&exe),
        (Ok(exe), Ok(_)) => format!(
            "the loader has left {} out of {}; what it said above may tell why",
            library.display(),
            exe.display()
        ),
        _ => unknown,
    }
}
