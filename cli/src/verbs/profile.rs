//! `primalloc profile`: a program under the library with its profiler on.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueHint};

use super::meant::process_number;
use super::process_files::{
    NUMBER, ProcessFile, keep, none_written, of_another, tell_not_shown, tell_still_running,
};
use super::profile_options::{Heading, ShownArguments, WrittenArguments, keep_output_free};
use super::profile_running;
use super::report_files::{all_of, check_files, shell_text, spare_program, take_output, tell};
use super::run::{Ended, run_with};
use super::temporary::TemporaryDirectory;
use super::times::time;
use crate::arguments::PreloadArguments;
use crate::profile::{self, Profile, View};

const EXAMPLES: &str = "\
Examples:
  primalloc profile -- python3 script.py
  primalloc profile --rate 1 -- ./small-program
  primalloc profile --html heap.html -- python3 script.py
  primalloc profile --view peak --keep heap.pb.gz -- redis-server --port 7000
  primalloc profile --pid 4711 --duration 1m     who allocates from now on

One allocation in every 512 KiB is recorded with its stack, or fewer where that would take more than
1 % of the time; figures are estimates of the whole. --rate says how many, whatever the time, and
--rate 1 records every call. A program that ends by a signal or by _exit
writes no profile.

The report goes to standard error, for standard output is the program's; of a running process it
goes to standard output. A running process is profiled until --duration is over, or Ctrl-C; what it
had allocated before is not in the profile. Nothing must have been prepared in it: a thread that
waits, or happens to be outside of malloc, is made to start and to end the profile.

Exit status: the program's own; 0 after a running process was profiled; 125 if primalloc itself
fails, there is no profile, or it is empty where a malloc is linked into the program, 126 or 127 if
the program cannot be started.";

const VARIABLE: &str = "PRIMALLOC_PROFILE";
const OWN_OPTIONS: [(&str, &str); 1] = [("profile", "--keep, --rate or --budget")];
/// Where who outlives the program may write to.
const ELSEWHERE: &str = "--option profile=NAME.%p.pb.gz";
const INSTEAD: &str = "profile it while it runs, by primalloc profile --pid, or let it end by exit";

/// Run a program and show who holds its memory: live, at the peak, in all
///
/// Of a running process (--pid) it shows who allocates from now on.
#[derive(Args)]
#[command(after_help = EXAMPLES, override_usage = "primalloc profile [OPTIONS] -- <PROGRAM>...
       primalloc profile [OPTIONS] --pid <PID>")]
pub struct ProfileArguments {
    /// Profile this running process from now on instead of starting a program
    #[arg(long, value_name = "PID", value_parser = process_number,
          conflicts_with_all = ["command", "options", "force"], allow_negative_numbers = true)]
    pid: Option<i32>,

    /// Of a running process: for this time, for example 10s or 5m; 30s as a rule
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true,
          conflicts_with = "command")]
    pub(super) duration: Option<Duration>,

    /// Mean number of bytes between samples, for example 64K; 1 records every call
    #[arg(long, value_name = "SIZE", value_parser = rate, allow_negative_numbers = true)]
    rate: Option<String>,

    /// Percent of the time that sampling may take; 1 as a rule, without bound if --rate is given
    #[arg(long, value_name = "PERCENT", value_parser = budget, allow_negative_numbers = true)]
    budget: Option<String>,

    /// Keep the profile in this file (.pb.gz), for report, diff and pprof; with %p in its name one
    /// of each process, by their numbers
    #[arg(long, value_name = "FILE")]
    pub(super) keep: Option<PathBuf>,

    #[command(flatten)]
    pub(super) shown: ShownArguments,

    #[command(flatten)]
    pub(super) written: WrittenArguments,

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

/// The library reads so many digits of a size.
const RATE_DIGITS_MAX: usize = 15;

/// "512K", "64KiB", "1g", "4096"; the library understands them as they are.
fn rate(text: &str) -> Result<String, String> {
    let (digits, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" => Some(1),
        "k" | "kb" | "kib" => Some(1 << 10),
        "m" | "mb" | "mib" => Some(1 << 20),
        "g" | "gb" | "gib" => Some(1 << 30),
        "t" | "tb" | "tib" => Some(1 << 40),
        _ => None,
    };
    let number = digits.parse::<u64>().ok().filter(|_| digits.len() <= RATE_DIGITS_MAX);
    match number.zip(factor).and_then(|(number, factor): (u64, u64)| number.checked_mul(factor)) {
        Some(1..) => Ok(text.to_owned()),
        _ => Err("a number of bytes such as 512K is needed".to_owned()),
    }
}

/// "2", "0.05"; the library understands up to four digits behind the point.
fn budget(text: &str) -> Result<String, String> {
    let digits = text.split_once('.').map_or(0, |(_, digits)| digits.len());
    match text.parse::<f64>() {
        Ok(0.0..=100.0) if digits <= 4 && text.bytes().all(|b| b == b'.' || b.is_ascii_digit()) => {
            Ok(text.to_owned())
        }
        _ => Err("a percentage from 0 to 100 such as 0.5 is needed".to_owned()),
    }
}

pub fn run(arguments: &ProfileArguments) -> Result<ExitCode> {
    let files = || arguments.written.files().chain([&arguments.keep]);
    spare_program(files(), &arguments.command)?;
    check_files(files(), &[])?;
    if let Some(pid) = arguments.pid {
        return profile_running::run(arguments, pid);
    }
    arguments.preload.refuse_or_tell(&OWN_OPTIONS)?;
    let is_quiet = take_output(files());
    let directory = TemporaryDirectory::new()?;
    let Ended { pid, outcome, has_other_malloc, supervisor } =
        run_with(&arguments.preload, &arguments.command, |command| {
            command.env(VARIABLE, arguments.setting(&directory));
            if is_quiet { keep_output_free(command) } else { Ok(()) }
        })?;
    tell_still_running("profile", directory.path(), ELSEWHERE);
    let Some(found) = Found::of(&directory, pid)? else {
        tell(none_written(outcome, "profile", "profiler", INSTEAD));
        drop(directory);
        return Ok(outcome.imitate_failure());
    };
    let kept = arguments.keep.as_ref();
    let kept = kept.map_or(Ok(()), |target| keep(target, &found.file, &found.others));
    // From here on a signal may end us: a reader that has seen enough, or the program's own.
    drop(directory);
    drop(supervisor);
    if has_other_malloc && found.file.pid == pid && found.profile.sample_count() == 0 {
        all_of([kept])?;
        tell("no samples: the program's own malloc has served it, or too little was allocated");
        return Ok(outcome.imitate_failure());
    }
    if let Some((other, name)) = found.program().filter(|(other, _)| *other != pid) {
        tell(of_another("profile", name, *other));
    }
    let shown = report(arguments, found.profile);
    tell_not_shown("profile", &found.others, arguments.keep.as_deref());
    all_of([kept, shown])?;
    Ok(outcome.imitate())
}

fn report(arguments: &ProfileArguments, profile: Profile) -> Result<()> {
    let shown =
        arguments.shown.prepare(profile, Some(View::Peak)).context("the program's profile")?;
    let title = shell_text(&arguments.command);
    let heading = Heading { verb: "profile", title: &title, to_output: false };
    arguments.written.report(&heading, &shown, &arguments.shown)
}

impl ProfileArguments {
    /// For the library. Each process has a file of its own: who comes later takes none away.
    fn setting(&self, directory: &TemporaryDirectory) -> OsString {
        let mut setting = directory.path().join(format!("heap.{NUMBER}.pb.gz")).into_os_string();
        setting.push(self.settings());
        setting
    }

    /// What stands behind the name of a file.
    pub(super) fn settings(&self) -> String {
        let mut setting = String::new();
        if let Some(rate) = &self.rate {
            setting += &format!(",rate={rate}");
        }
        if let Some(budget) = &self.budget {
            setting += &format!(",budget={budget}");
        }
        setting
    }
}

/// What a program and the processes that it started have written.
struct Found {
    file: ProcessFile,
    profile: Profile,
    /// The last ones of other processes.
    others: Vec<ProcessFile>,
}

/// The last profile of a process.
struct Last {
    path: PathBuf,
    time: i64,
    /// Bytes at the peak.
    most: i64,
}

impl Found {
    /// The last one of the program itself, else of the process that had most.
    fn of(directory: &TemporaryDirectory, pid: u64) -> Result<Option<Found>> {
        let mut processes: BTreeMap<u64, Last> = BTreeMap::new();
        for path in directory.profiles() {
            let profile = read(&path)?;
            let (time, most) = (profile.time_nanos, peak_of(&profile));
            let process = profile.facts.program.map_or(0, |(pid, _)| pid);
            if processes.get(&process).is_none_or(|last| last.time < time) {
                processes.insert(process, Last { path, time, most });
            }
        }
        let rank = |(process, last): &(&u64, &Last)| (**process == pid, last.most, last.time);
        let Some(best) = processes.iter().max_by_key(rank).map(|(process, _)| *process) else {
            return Ok(None);
        };
        let file = |(pid, last): (u64, Last)| ProcessFile { pid, path: last.path };
        let (shown, others): (Vec<_>, Vec<_>) =
            processes.into_iter().map(file).partition(|file| file.pid == best);
        let Some(file) = shown.into_iter().next() else { return Ok(None) };
        let profile = read(&file.path)?;
        Ok(Some(Found { file, profile, others }))
    }

    fn program(&self) -> Option<&(u64, String)> {
        self.profile.facts.program.as_ref()
    }
}

fn peak_of(profile: &Profile) -> i64 {
    let name = format!("{}_space", View::Peak.key());
    profile.value_index(&name).map_or(0, |bytes| profile.total(bytes))
}

fn read(path: &Path) -> Result<Profile> {
    let profile = profile::read(path)?;
    if profile.facts.kind.is_none() {
        bail!("{}: is not what this library writes", path.display());
    }
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &TemporaryDirectory, name: &str, pid: u64, time: i64) {
        let mut profile = profile::sample::service();
        if pid == 11 {
            profile = profile::sample::service_later(); // it had more
        }
        let program = format!("program {pid} service");
        profile.facts = profile::Facts::parse(["format primalloc-heap 1", &program]);
        profile.time_nanos = time;
        let bytes = profile::encode(&profile).unwrap();
        std::fs::write(directory.path().join(name), bytes).unwrap();
    }

    #[test]
    fn the_last_profile_of_the_program_itself_is_shown() {
        let directory = TemporaryDirectory::new().unwrap();
        assert!(Found::of(&directory, 7).unwrap().is_none());
        write(&directory, "heap.9.pb.gz", 9, 500);
        assert_eq!(Found::of(&directory, 7).unwrap().unwrap().others.len(), 0);
        write(&directory, "heap.11.pb.gz", 11, 500);
        write(&directory, "heap.7.0001.pb.gz", 7, 100);
        write(&directory, "heap.7.0002.pb.gz", 7, 200);
        write(&directory, "heap.7.pb.gz", 7, 300);
        let found = Found::of(&directory, 7).unwrap().unwrap();
        assert_eq!((found.others.len(), found.profile.time_nanos), (2, 300));
    }

    #[test]
    fn else_that_of_who_had_most() {
        let directory = TemporaryDirectory::new().unwrap();
        for (name, pid, time) in [("a.pb.gz", 9, 500), ("b.pb.gz", 11, 200), ("c.pb.gz", 12, 600)] {
            write(&directory, name, pid, time);
        }
        let found = Found::of(&directory, 7).unwrap().unwrap();
        assert_eq!((found.file.pid, found.others.len()), (11, 2));
    }

    #[test]
    fn rates_are_sizes() {
        for right in ["512K", "1", "4M", "1G", "64KiB", "2T", "3gb", "999999999M"] {
            assert!(rate(right).is_ok(), "{right}");
        }
        for wrong in ["+5", "-1", "0K", "1.5M", "K", "5P", "5Ki", "1000000000000000", "99999999T"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        assert!(budget("0.05").is_ok() && budget("100").is_ok() && budget("0").is_ok());
        for wrong in ["101", "-1", "1e1", "0.00001", "inf", "", ".", "5%"] {
            assert!(budget(wrong).is_err(), "{wrong}");
        }
        assert!(rate("0").is_err() && rate("fast").is_err() && rate("1,signal=9").is_err());
    }
}
