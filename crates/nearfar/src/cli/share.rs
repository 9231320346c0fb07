//! Arguments of `nearfar share`, `nearfar completions` and `nearfar man`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use clap_complete::Shell;

use super::TextOrJson;

/// `nearfar share`
#[derive(Args, Debug)]
pub struct ShareArgs {
    /// ID of a run or its first digits
    #[arg(default_value = "latest")]
    pub run: String,
    /// Share this imported table instead of a run
    #[arg(long, value_name = "NAME", conflicts_with_all = ["run", "host_label"])]
    pub table: Option<String>,
    /// Results file to write; an existing file is not overwritten
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Keep this information [repeatable]
    #[arg(long, value_name = "KIND", value_enum)]
    pub keep: Vec<Keep>,
    /// Name of this machine [default: CPU model]
    #[arg(long, value_name = "NAME")]
    pub host_label: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: TextOrJson,
}

/// Information that is removed by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Keep {
    /// Command lines of external programs, without private paths, names and addresses
    Commands,
    /// The --host-label of the run
    HostLabel,
}

/// `nearfar completions`
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// Shell that the script is for
    pub shell: Shell,
}

/// `nearfar man`
#[derive(Args, Debug)]
pub struct ManPagesArgs {
    /// Print the page of this command, such as place or fleet run [default: the page of nearfar]
    #[arg(conflicts_with = "output_dir", value_name = "COMMAND", num_args = 0..=2)]
    pub command: Vec<String>,
    /// Write all pages to this directory, for example ~/.local/share/man/man1
    #[arg(long, alias = "folder", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output_dir: Option<PathBuf>,
}
