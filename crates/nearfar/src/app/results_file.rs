//! The results file, or the server that stores results.

use std::path::PathBuf;
use std::sync::Once;

use model::values::record::RunSummary;
use store::Store;

use crate::error::{CliError, CliStatus};

/// `--verbose` names the file once, although several steps of a command open it.
static NAMED: Once = Once::new();

/// The selected file or server; without a selection, nearfar/results.db in the XDG data directory.
#[derive(Clone)]
pub struct ResultsFile(pub Option<PathBuf>);

impl ResultsFile {
    /// Returns the path of the file or the address of the server.
    pub fn path(&self) -> Result<PathBuf, CliError> {
        let Some(path) = &self.0 else { return default_path() };
        if store::is_server(path) {
            return Ok(path.clone());
        }
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        match dir.filter(|dir| !dir.is_dir()) {
            Some(dir) => Err(CliError::usage(format!(
                "--store {}: the directory {} does not exist",
                path.display(),
                dir.display()
            ))),
            None => Ok(path.clone()),
        }
    }

    /// Returns the path of a file next to this file, or next to the default file if results are on a server.
    pub fn sibling(&self, name: &str) -> Result<PathBuf, CliError> {
        let path = self.path()?;
        let file = if store::is_server(&path) { default_path()? } else { path };
        Ok(file.with_file_name(name))
    }

    /// Whether there may be results: the file exists, or results are on a server.
    pub fn may_exist(&self) -> Result<bool, CliError> {
        let path = self.path()?;
        Ok(store::is_server(&path) || path.exists())
    }

    /// Opens or creates the file.
    pub fn open(&self) -> Result<Store, CliError> {
        Store::open(&self.used_path()?).map_err(|error| CliError::store(&error, CliStatus::Failure))
    }

    /// Opens the file, which must exist, to read it. A file that the user names may be of unknown origin and is not
    /// changed; the default one is migrated.
    pub fn open_existing(&self) -> Result<Store, CliError> {
        let open = if self.0.is_some() { Store::open_unchanged } else { Store::open_existing };
        open(&self.used_path()?).map_err(|error| CliError::store(&error, CliStatus::Usage))
    }

    /// Returns the path, and names it with `--verbose`.
    fn used_path(&self) -> Result<PathBuf, CliError> {
        let path = self.path()?;
        // The address of a server is displayed without its password.
        NAMED.call_once(|| detail!("results file: {}", store::displayed(&path).display()));
        Ok(path)
    }
}

/// Returns the runs in the order of the store, and reports those that are damaged.
pub fn readable_runs(store: &Store) -> Result<Vec<RunSummary>, CliError> {
    let (runs, damaged) = store.runs_and_damage().map_err(CliError::failure)?;
    for description in damaged {
        message!("warning: {}: {description}; it is left out", store.path().display());
    }
    Ok(runs)
}

fn default_path() -> Result<PathBuf, CliError> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")));
    data.map(|data| data.join("nearfar/results.db")).ok_or_else(|| {
        CliError::usage("no default results file: neither XDG_DATA_HOME nor HOME is set").hint("use --store FILE")
    })
}
