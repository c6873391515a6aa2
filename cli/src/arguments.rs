//! The command line as a whole; each verb's own options stand in its file.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand, ValueHint};

use crate::allocators::option_list;
use crate::environment::{LIBRARY, Setting, place_of};
use crate::library;
use crate::verbs;

const EXAMPLES: &str = "\
Examples:
  Run a program on primalloc:
    primalloc run -- python3 script.py

  See whether it is faster and smaller there:
    primalloc compare -- python3 script.py

  See it beside every allocator that this system has, and keep a page with plots:
    primalloc compare --with all --html report.html -- python3 script.py

  See which allocator and which setting suits it:
    primalloc advise -- python3 script.py

  See why a process is as large as it is:
    primalloc explain 4711

  See what of it grows, and whether it comes to rest:
    primalloc watch 4711

  See whether page faults slow it down, and what would help:
    primalloc faults -- python3 script.py

  See who holds its memory, and what it has lost:
    primalloc profile -- python3 script.py
    primalloc leaks -- ./program

  Have a running process give memory back, or change its options:
    primalloc trim 4711
    primalloc set 4711 soft_limit=256M

  Which allocators are installed, and which processes run on primalloc:
    primalloc allocators
    primalloc ps

Every verb explains itself: primalloc compare --help";

/// Run programs on primalloc, compare allocators, see who holds memory
///
/// primalloc is a memory allocator that takes the place of libc's malloc in programs as they
/// are: nothing is recompiled. This tool starts programs on it, proves that it took effect,
/// and measures what it changes.
#[derive(Parser)]
#[command(name = "primalloc", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Subcommand)]
pub enum Verb {
    Run(verbs::run::RunArguments),
    Compare(verbs::compare::CompareArguments),
    Advise(verbs::advise::AdviseArguments),
    Explain(verbs::explain::ExplainArguments),
    Watch(verbs::watch::WatchArguments),
    Faults(Box<verbs::faults::FaultsArguments>),
    Profile(Box<verbs::profile::ProfileArguments>),
    Report(verbs::report::ReportArguments),
    Diff(verbs::diff::DiffArguments),
    Leaks(verbs::leaks::LeaksArguments),
    Symbolize(verbs::symbolize::SymbolizeArguments),
    Allocators(verbs::allocators::AllocatorsArguments),
    Ps(verbs::ps::PsArguments),
    Trim(verbs::trim::TrimArguments),
    Set(verbs::set::SetArguments),
    Completions(verbs::completions::CompletionsArguments),
    Man(verbs::man::ManArguments),
    /// Report which allocator serves this very process (used by `allocators`)
    #[command(hide = true)]
    ProbeAllocator,
}

/// What `run` and `compare` share: the library, its options, and the program.
#[derive(Args)]
pub struct ProgramArguments {
    #[command(flatten)]
    pub preload: PreloadArguments,

    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        required = true,
        num_args = 1..,
        trailing_var_arg = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,
}

/// The library and its options.
#[derive(Args)]
pub struct PreloadArguments {
    /// Use this libprimalloc.so instead of looking for one
    #[arg(long, value_name = "PATH", env = LIBRARY)]
    pub library: Option<PathBuf>,

    /// Set an option of the allocator; may be given several times; `help` lists all
    #[arg(long = "option", short = 'o', value_name = "NAME=VALUE", value_hint = ValueHint::Other)]
    pub options: Vec<Setting>,

    /// Start the program even when the preload is known not to work with it
    #[arg(long)]
    pub force: bool,
}

impl PreloadArguments {
    /// Refuses the options that a verb sets itself, which would be lost; beside each stands what
    /// says the same to the verb.
    pub fn refuse(&self, own: &[(&str, &str)]) -> Result<()> {
        for setting in &self.options {
            if let Some((_, instead)) = own.iter().find(|(name, _)| *name == setting.name()) {
                bail!("--option {setting}: this verb sets that itself; {instead} is for it");
            }
        }
        Ok(())
    }

    /// What is to be set: `help` is not.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> {
        self.options.iter().filter(|option| !option.is_help())
    }

    /// Lists the options, if that is asked for, where the program does not run on primalloc, or
    /// what it writes is not shown.
    pub fn list_options(&self) -> Result<()> {
        if !self.options.iter().any(Setting::is_help) {
            return Ok(());
        }
        let library = library::find(self.library.as_deref())?;
        verbs::print_beside(&option_list(&library)?)
    }

    /// Refuses them as `refuse` does, and tells of those that the environment sets, which are lost
    /// as well: that may be for other programs.
    pub fn refuse_or_tell(&self, own: &[(&str, &str)]) -> Result<()> {
        self.refuse(own)?;
        for (name, instead) in own {
            if let Some(place) = place_of(name) {
                verbs::tell(format!(
                    "{place} is not heeded: this verb sets that itself; {instead} is for it"
                ));
            }
        }
        Ok(())
    }
}

/// Where names of functions come from.
#[derive(Args)]
pub struct SymbolArguments {
    /// Look for separate debug files below DIR as well, which is laid out as /usr/lib/debug
    #[arg(long, value_name = "DIR", value_parser = directory)]
    pub debug_directory: Option<PathBuf>,
}

/// One that is there.
pub fn directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    path.is_dir().then_some(path).ok_or_else(|| "is no directory".to_owned())
}
