//! Flags of what goes elsewhere: results for strangers (`nearfar share`), completions and manual pages for a package.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use clap_complete::Shell;

use super::TextOrJson;

/// `nearfar share`
#[derive(Args, Debug)]
#[command(after_help = "Example: nearfar share latest --host-label 'board, fan on' -o for-the-forum.db\n\
                        Whoever gets it: nearfar import for-the-forum.db; nearfar compare --by host")]
pub struct ShareArgs {
    /// A run's id or its beginning
    #[arg(default_value = "latest")]
    pub run: String,
    /// An imported table instead of a run, as in --table boards
    #[arg(long, value_name = "NAME", conflicts_with_all = ["run", "host_label"])]
    pub table: Option<String>,
    /// The new results file, as in -o for-the-forum.db; one that is there is left as it is
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// What to leave in, as in --keep commands; may be repeated
    #[arg(long, value_name = "WHAT", value_enum)]
    pub keep: Vec<Keep>,
    /// What to call this machine, as in --host-label 'board, fan on' [default: its cpu model]
    #[arg(long, value_name = "NAME")]
    pub host_label: Option<String>,
    /// How to say what was done, as in --format json
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// What may be left in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Keep {
    /// Command lines of your own programs, still without private paths, names and addresses
    Commands,
    /// The --host-label that the run was made with
    HostLabel,
}

/// `nearfar completions`
#[derive(Args, Debug)]
#[command(after_help = "Example: nearfar completions bash > ~/.local/share/bash-completion/completions/nearfar")]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// `nearfar man`
#[derive(Args, Debug)]
#[command(after_help = "Example: nearfar man place | man -l -")]
pub struct ManPagesArgs {
    /// The command whose page is printed [default: the program's own page]
    #[arg(conflicts_with = "folder", value_name = "COMMAND")]
    pub command: Option<String>,
    /// Write all pages into this folder instead, as in --folder ~/.local/share/man/man1
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub folder: Option<PathBuf>,
}
