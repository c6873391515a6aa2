//! `primalloc completions`: the shells' completion scripts, made from the command line's own
//! description.

use std::io;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Arguments;

const EXAMPLES: &str = "\
Examples:
  primalloc completions bash > /etc/bash_completion.d/primalloc
  primalloc completions zsh > ~/.zfunc/_primalloc
  primalloc completions fish > ~/.config/fish/completions/primalloc.fish";

/// Print the completion script for a shell
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArguments {
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

pub fn run(arguments: &CompletionsArguments) -> Result<ExitCode> {
    clap_complete::generate(
        arguments.shell,
        &mut Arguments::command(),
        "primalloc",
        &mut io::stdout(),
    );
    Ok(ExitCode::SUCCESS)
}
