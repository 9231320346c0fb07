//! Shared libraries of others that a kernel needs only when it is measured: opened at run time, so that building needs
//! none of them, and a machine without one hears which package brings it.

use std::error::Error as _;

use libloading::Library;

use crate::job::Failure;

/// A name under which a library is looked for, and the one that was found under it.
pub(super) struct LoadedLibrary {
    pub library: Library,
    pub name: String,
}

/// Opens the first of these that is there; `hint` says what to do where none is.
#[allow(unsafe_code)]
pub(super) fn open_first(names: &[&str], hint: &str) -> Result<LoadedLibrary, Failure> {
    let mut last = String::new();
    for name in names {
        // SAFETY: loading runs the library's own initialisers; these are installed system libraries, or what the user named.
        match unsafe { Library::new(*name) } {
            Ok(library) => return Ok(LoadedLibrary { library, name: (*name).into() }),
            Err(error) => last = cause(&error),
        }
    }
    let tried = match names {
        [name] => format!("{name} cannot be loaded"),
        names => format!("none of {} can be loaded", names.join(", ")),
    };
    Err(Failure::Unavailable(format!("{tried}: {last}; hint: {hint}")))
}

/// What the loader said, which is the error's source; the error itself says only that it failed.
pub(super) fn cause(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_unavailable_with_the_hint() {
        let failure = open_first(&["libnowhere.so.9", "/nowhere.so"], "install libnowhere9").err().unwrap();
        let Failure::Unavailable(why) = failure else { panic!("{failure}") };
        assert!(why.contains("libnowhere.so.9, /nowhere.so") && why.ends_with("hint: install libnowhere9"), "{why}");
    }

    #[test]
    fn the_first_that_is_there_is_taken() {
        assert_eq!(open_first(&["libnowhere.so.9", "libc.so.6"], "").unwrap().name, "libc.so.6");
    }
}
