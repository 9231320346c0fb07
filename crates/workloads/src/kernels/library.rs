//! Opens external shared libraries at run time, so that building needs none of them. On a machine without a library,
//! the error names the package that provides it.

use std::error::Error as _;
use std::path::Path;

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

/// The dynamic linker's list of installed libraries: names and paths, each ended by a zero byte.
const LINKER_CACHE: &str = "/etc/ld.so.cache";

/// Returns why none of these libraries can be loaded; `None` if one is installed.
pub(super) fn missing(names: &[&str], hint: &str) -> Option<String> {
    let cache = std::fs::read(LINKER_CACHE).unwrap_or_default();
    // A library starts threads when it is loaded, so a planning process loads only one that the linker does not list.
    if names.iter().any(|name| is_installed(name, &cache)) {
        return None;
    }
    open_first(names, hint).err().map(|failure| failure.reason().to_string())
}

fn is_installed(name: &str, cache: &[u8]) -> bool {
    if name.contains('/') {
        return Path::new(name).exists();
    }
    cache.split(|byte| *byte == 0).any(|entry| entry == name.as_bytes())
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
    fn missing_library_has_a_reason_and_installed_ones_have_none() {
        let reason = missing(&["libnowhere.so.9"], "install libnowhere9").unwrap();
        assert!(reason.contains("cannot load libnowhere.so.9") && reason.ends_with("libnowhere9"), "{reason}");
        assert_eq!(missing(&["libnowhere.so.9", "libc.so.6"], ""), None);
        let cache = b"glibc-ld.so.cache1.1\0\x07\0libopenblas.so.0\0/usr/lib/libopenblas.so.0\0";
        assert!(is_installed("libopenblas.so.0", cache) && !is_installed("libblas.so.3", cache));
        assert!(is_installed("/proc/self/exe", b"") && !is_installed("/nowhere/libblas.so", cache));
    }

    #[test]
    fn first_library_that_loads_is_used() {
        assert_eq!(open_first(&["libnowhere.so.9", "libc.so.6"], "").unwrap().name, "libc.so.6");
    }
}
