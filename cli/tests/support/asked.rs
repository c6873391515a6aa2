//! Processes that are asked, and tell in the end whether anything has harmed them.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::explained::{Running, preloaded};
use super::{compile, tool, wait_until};

pub static ASKED: LazyLock<PathBuf> = LazyLock::new(|| asked("asked", &[]));

/// asked.c, at work.
pub struct Asked(pub Running);

impl Asked {
    pub fn preloaded(words: &[&str]) -> Option<Asked> {
        Some(Asked::started(ASKED.clone(), words, &[("LD_PRELOAD", &preloaded()?)]))
    }

    pub fn started(program: PathBuf, words: &[&str], environment: &[(&str, &str)]) -> Asked {
        let mut command = Command::new(program);
        // What is free stays until it is asked for, however long that takes.
        command.args(words).env("PRIMALLOC_PURGE", "0").envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Asked::try_started(&mut command).unwrap()
    }

    /// None if what the program was to be started in cannot be had.
    pub fn try_started(command: &mut Command) -> Option<Asked> {
        let mut child = command.spawn().ok()?;
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take()?);
        output.read_line(&mut line).ok()?;
        child.stdout = Some(output.into_inner());
        let started = Asked(Running(child));
        (line == "ready\n").then_some(started)
    }

    pub fn id(&self) -> String {
        self.0.0.id().to_string()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.0.0.id() as i32)
    }

    /// The number of a thread that is not its first one.
    pub fn other_thread(&self) -> String {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.id())).unwrap();
        let mut names = threads.map(|thread| thread.unwrap().file_name().into_string().unwrap());
        names.find(|name| *name != self.id()).unwrap()
    }

    pub fn trim(&self) -> assert_cmd::assert::Assert {
        tool().args(["trim", &self.id()]).assert()
    }

    pub fn set(&self, options: &[&str]) -> assert_cmd::assert::Assert {
        tool().args(["set", &self.id()]).args(options).assert()
    }

    pub fn profile(&self, words: &[&str]) -> assert_cmd::assert::Assert {
        tool().args(["profile", "--pid", &self.id(), "--rate", "1K"]).args(words).assert()
    }

    /// Until it has done a good deal of work, and the tool is asked to end it; what is shown then.
    pub fn profile_at_work(&self, mut command: Command, words: &[&str]) -> String {
        command.args(["profile", "--rate", "1K", "--duration", "1h", "--pid", &self.id()]);
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(running.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("is profiled for 60 minutes"), "{line}");
        let end = self.ticks() + 5;
        wait_until("some work", || self.ticks() >= end);
        kill(Pid::from_raw(running.id() as i32), Signal::SIGTERM).unwrap();
        let output = running.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    }

    /// How long it has had a processor.
    fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        let words: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        words[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }

    pub fn assert_unharmed(mut self) {
        let child = &mut self.0.0;
        drop(child.stdin.take());
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((said.as_str(), child.wait().unwrap().code()), ("unharmed\n", Some(0)));
    }
}

pub fn asked(name: &str, flags: &[&str]) -> PathBuf {
    compile("asked.c", name, &[&["-O1", "-g", "-fno-builtin", "-pthread"], flags].concat())
}
