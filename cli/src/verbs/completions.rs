//! `primalloc completions`: the shells' completion scripts, made from the command line's own
//! description.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

use super::report_files::print_plain;
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

/// The command line as help shows it: a script would complete hidden verbs as well.
fn without_hidden_verbs() -> Command {
    let whole = Arguments::command();
    let shown = whole.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    Command::new("primalloc").version(env!("CARGO_PKG_VERSION")).subcommands(shown)
}

pub fn run(arguments: &CompletionsArguments) -> Result<ExitCode> {
    // Printed as a whole: what generates it panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut without_hidden_verbs(), "primalloc", &mut script);
    print_plain(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}
