//! Whether another program is there, and which Debian package has it where it is not. Starts nothing.

use machine::child::find_program;

use crate::job::Failure;

/// That this program can be found; else what cannot be measured without it, and the package that has it.
pub(crate) fn require(program: &str, package: &str) -> Result<(), Failure> {
    find_program(program).map_err(|_| {
        Failure::Unavailable(format!("there is no program {program} here; hint: apt-get install {package}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        assert_eq!(require("sh", "dash"), Ok(()));
        let failure = require("no-such-program", "such-a-package").unwrap_err();
        assert!(matches!(&failure, Failure::Unavailable(why)
            if why.contains("no-such-program") && why.contains("hint: apt-get install such-a-package")));
    }
}
