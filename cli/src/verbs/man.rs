//! `primalloc man`: the manual pages, made from the command line's own description.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;

use super::report_files::print_plain;
use crate::arguments::Arguments;

const EXAMPLES: &str = "\
Examples:
  primalloc man | man -l -
  primalloc man --dir /usr/local/share/man/man1";

/// Print the manual page, or write those of all verbs
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ManArguments {
    /// Write primalloc.1 and a page for each verb into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The synopsis is the usage that --help shows: one of all options would name them without their
/// values.
fn with_usage(mut verb: Command) -> Command {
    let usage = verb.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    verb.override_usage(usage)
}

pub fn run(arguments: &ManArguments) -> Result<ExitCode> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let command = command.mut_subcommands(with_usage);
    match &arguments.dir {
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page)?;
            print_plain(&String::from_utf8(page)?)?;
        }
        Some(directory) => {
            fs::create_dir_all(directory)
                .with_context(|| format!("{}: cannot be created", directory.display()))?;
            clap_mangen::generate_to(command, directory)
                .with_context(|| format!("{}: cannot be written to", directory.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
