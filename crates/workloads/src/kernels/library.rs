//! Opens external shared libraries at run time, so that building needs none of them. On a machine without a library,
//! the error names the package that provides it.

use std::error::Error as _;

use libloading::Library;

use crate::job::Failure;

/// An open library and the name under which it was found.
pub(super) struct LoadedLibrary {
    pub library: Library,
    pub name: String,
}

/// Opens the first library of the list that can be loaded. If none can, the error ends with `hint`.
#[allow(unsafe_code)]
pub(super) fn open_first(names: &[&str], hint: &str) -> Result<LoadedLibrary, Failure> {
    let mut last = String::new();
    for name in names {
        // SAFETY: loading runs the initialisers of the library, which is an installed system library or one that the
        // user named.
        match unsafe { Library::new(*name) } {
            Ok(library) => return Ok(LoadedLibrary { library, name: (*name).into() }),
            Err(error) => last = cause(&error),
        }
    }
    let tried = match names {
        [name] => format!("cannot load {name}"),
        names => format!("cannot load any of {}", names.join(", ")),
    };
    Err(Failure::Unavailable(format!("{tried}: {last}; hint: {hint}")))
}

/// Returns the loader's message, which is the source of the error; the error itself only reports the failure.
pub(super) fn cause(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_library_is_unavailable_with_a_hint() {
        let failure = open_first(&["libnowhere.so.9", "/nowhere.so"], "install libnowhere9").err().unwrap();
        let Failure::Unavailable(reason) = failure else { panic!("{failure}") };
        assert!(
            reason.contains("libnowhere.so.9, /nowhere.so") && reason.ends_with("hint: install libnowhere9"),
            "{reason}"
        );
    }

    #[test]
    fn first_library_that_loads_is_used() {
        assert_eq!(open_first(&["libnowhere.so.9", "libc.so.6"], "").unwrap().name, "libc.so.6");
    }
}
