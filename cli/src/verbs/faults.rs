//! `primalloc faults`: what a program's page faults are, where they come from, what would help.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueHint};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Pid, Uid, geteuid};

use crate::allocators::{self, option_complaints};
use crate::arguments::PreloadArguments;
use crate::child::{self, LaunchStamp, Supervisor};
use crate::environment;
use crate::explain;
use crate::faults::{End, Findings, Plan, Recorder, Target, is_running};
use crate::library;
use crate::output::faults as output;
use crate::proc_texts;
use crate::processes;
use crate::program::{self, Program};
use crate::verbs::meant::{meant, process_number};
use crate::verbs::profile_options::keep_output_free;
use crate::verbs::report_files::{
    STANDARD_OUTPUT, all_of, check_files, limit_of, print, print_beside, shell_text, spare_program,
    take_output, tell, write, write_page,
};
use crate::verbs::times::time;

const EXAMPLES: &str = "\
Examples:
  primalloc faults -- ./solver input.dat
  primalloc faults --html faults.html -- python3 script.py
  primalloc faults --allocator primalloc:purge_delay=0 -- ./solver input.dat
  primalloc faults --pid 4711 --duration 10s

A minor fault gives a page of memory to a program that has touched it, a major one also waits for
the disk. The report shows them over time beside resident and virtual size, by kind of memory, and
by call site; how many hit a page that had faulted before; and says what would help.

The report goes to standard error, for standard output is the program's; of a running process it
goes to standard output. A running process is watched until it ends, until Ctrl-C, or for
--duration.

Exit status: the program's own; 0 after a running process has been watched; 125 if primalloc itself
fails, 126 or 127 if the program cannot be started.";

/// Find a program's page faults: when, where from, and what would help
///
/// Runs the program as it is, or watches a running process, and reports its page faults, with the
/// processes that it starts.
#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "primalloc faults [OPTIONS] -- <PROGRAM>...
       primalloc faults [OPTIONS] --pid <PID>")]
pub struct FaultsArguments {
    /// Watch this running process instead of starting a program
    #[arg(long, value_name = "PID", value_parser = process_number,
          conflicts_with_all = ["command", "allocator", "options"], allow_negative_numbers = true)]
    pid: Option<i32>,

    /// Stop watching the running process after this time, for example 10s
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true)]
    duration: Option<Duration>,

    /// Run the program on this allocator: glibc, primalloc, jemalloc, ..., or NAME=PATH; with
    /// settings as in compare: NAME:SETTING=VALUE
    #[arg(long, value_name = "NAME")]
    allocator: Option<String>,

    /// Length of the timeline's intervals, for example 100ms; else as the program's length suits
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true)]
    interval: Option<Duration>,

    /// Record the address of each Nth fault only, which slows the program down less
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    every: u64,

    /// Only count faults, as without the right to watch them: no kinds, no call sites
    #[arg(long)]
    no_perf: bool,

    /// Write the report as JSON, to standard output (the program's then goes to standard error) or
    /// to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,

    /// Write the report with plots as one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    preload: PreloadArguments,

    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        required_unless_present = "pid",
        num_args = 1..,
        trailing_var_arg = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    command: Vec<OsString>,
}

impl FaultsArguments {
    fn files(&self) -> [&Option<PathBuf>; 2] {
        [&self.json, &self.html]
    }
}

pub fn run(arguments: &FaultsArguments) -> Result<ExitCode> {
    spare_program(arguments.files(), &arguments.command)?;
    check_files(arguments.files(), &[])?;
    match arguments.pid {
        None if arguments.duration.is_some() => bail!("--duration needs --pid"),
        Some(pid) => watch_process(arguments, Pid::from_raw(meant(pid))),
        None => watch_program(arguments),
    }
}

fn plan(arguments: &FaultsArguments, target: Target) -> Plan {
    Plan {
        target,
        interval: arguments.interval,
        every: arguments.every,
        attribute: !arguments.no_perf,
    }
}

fn warn_if_refused(arguments: &FaultsArguments, recorder: &Recorder) {
    if let Some(why) = recorder.unattributed().filter(|_| !arguments.no_perf) {
        tell(format!("faults are counted but not attributed: {why}"));
    }
}

fn watch_program(arguments: &FaultsArguments) -> Result<ExitCode> {
    let program = Program::resolve(&arguments.command)?;
    let mut command = program.command();
    let is_primalloc = set_environment(arguments, &program, &mut command)?;
    let are_heeded = is_primalloc || arguments.preload.settings().next().is_none();
    if !are_heeded {
        tell(
            "the program does not run on primalloc, and only primalloc heeds --option; \
             --allocator primalloc runs it on that",
        );
    }
    if take_output(arguments.files()) {
        keep_output_free(&mut command)?;
    }

    let mut supervisor = Supervisor::of_program()?;
    let stamp = LaunchStamp::new().context("cannot share a page with the program")?;
    let recorder = Recorder::new(plan(arguments, Target::NextChild));
    warn_if_refused(arguments, &recorder);
    let mask = supervisor.original_mask;
    let child = child::start_stamped(&program, &mut command, mask, &stamp)?;
    let pid = Pid::from_raw(child.id() as i32);
    let running = recorder.begin(pid, shell_text(&arguments.command), minor_of(&stamp.usage()))?;
    let ended = supervisor.wait_for_end(&child)?;
    drop(supervisor);
    let findings = running.finish(end_of(&ended.usage, &stamp.usage()))?;
    if !is_primalloc {
        tell_of_options(&arguments.preload);
    }
    report(arguments, &findings, false)?;
    Ok(ended.outcome.imitate())
}

/// As the caller has it, or on the allocator that is asked for and no other; and whether that is
/// primalloc, which says itself which options it can't use.
fn set_environment(
    arguments: &FaultsArguments,
    program: &Program,
    command: &mut Command,
) -> Result<bool> {
    let PreloadArguments { library, options, force } = &arguments.preload;
    let Some(name) = &arguments.allocator else {
        environment::apply(command, options);
        return Ok(environment::preloads_primalloc());
    };
    let selected = allocators::select(std::slice::from_ref(name), library.as_deref())?;
    let [candidate] = &selected[..] else {
        bail!("{name}: the program can run on one allocator only; compare shows several");
    };
    environment::apply(command, options.iter().chain(&candidate.settings));
    if let Some(library) = candidate.library() {
        match program::check_preloadable(program, library) {
            Err(reason) if reason.is_only_about_preloading() && *force => {}
            checked => {
                checked?;
                allocators::check_serves(library)?;
            }
        }
    }
    environment::replace_allocator(command, candidate.library())?;
    Ok(candidate.is_primalloc())
}

/// What primalloc would say of them. It is asked when all has been counted: a process that is
/// started for it would be watched as the program is.
fn tell_of_options(preload: &PreloadArguments) {
    // The program has run: that nothing can be asked is no failure now.
    if let Err(error) = preload.list_options() {
        tell(format!("{error:#}"));
    }
    let Ok(found) = library::find(preload.library.as_deref()) else { return };
    if preload.settings().next().is_some() {
        option_complaints(&found, preload.settings()).unwrap_or_default().iter().for_each(tell);
    }
}

fn minor_of(usage: &libc::rusage) -> u64 {
    usage.ru_minflt as u64
}

/// What the kernel has counted for the program and all that it has waited for, without the start.
/// Other children of the tool have tried the library: they do not count.
fn end_of(usage: &libc::rusage, before: &libc::rusage) -> End {
    End {
        minor: minor_of(usage).saturating_sub(minor_of(before)),
        major: (usage.ru_majflt as u64).saturating_sub(before.ru_majflt as u64),
        peak_resident_bytes: usage.ru_maxrss as u64 * 1024,
    }
}

fn watch_process(arguments: &FaultsArguments, pid: Pid) -> Result<ExitCode> {
    if !arguments.no_perf {
        explain::check_numbers(pid.as_raw())?; // events know no other numbers
    }
    let command = check_process(pid)?;
    raise_limit_of_files();
    let mut supervisor = Supervisor::of_work()?;
    let recorder = Recorder::new(plan(arguments, Target::Process(pid)));
    warn_if_refused(arguments, &recorder);
    let deadline = arguments.duration.map(|duration| Instant::now() + duration);
    let running = recorder.begin(pid, command, 0)?;
    let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    supervisor.wait_for_request(|| is_late() || !is_running(pid))?;
    drop(supervisor);
    let findings = running.finish(End::default())?;
    report(arguments, &findings, true)?;
    Ok(ExitCode::SUCCESS)
}

/// Events take three for each thread and processor; no program is started that would inherit it.
fn raise_limit_of_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // If it cannot be raised, what was opened in vain says so.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// The command line of a process that may be watched.
fn check_process(pid: Pid) -> Result<String> {
    let process = processes::open(pid.as_raw());
    let process = process.map_err(|error| explain::refusal(pid.as_raw(), error))?;
    explain::check(&process)?;
    let status = proc_texts::status(&process);
    let status = status.with_context(|| format!("{pid}: cannot be looked at"))?;
    if !geteuid().is_root() && Uid::from_raw(status.euid) != geteuid() {
        bail!("{pid}: is another user's process, which only root can watch");
    }
    let words: Vec<OsString> =
        proc_texts::cmdline(&process).unwrap_or_default().into_iter().map(OsString::from).collect();
    // A process may wipe it.
    Ok(if words.is_empty() { status.name } else { shell_text(&words) })
}

fn report(arguments: &FaultsArguments, findings: &Findings, to_output: bool) -> Result<()> {
    let printed = if take_output(arguments.files()) {
        Ok(())
    } else if to_output {
        print(&output::text(findings, limit_of(std::io::stdout().is_terminal())))
    } else {
        print_beside(&output::text(findings, limit_of(std::io::stderr().is_terminal())))
    };
    let json = |path: &PathBuf| write(path, output::json(findings));
    let html = |path: &PathBuf| write_page(path, &output::html(findings)?);
    all_of([
        printed,
        arguments.json.as_ref().map_or(Ok(()), json),
        arguments.html.as_ref().map_or(Ok(()), html),
    ])
}
