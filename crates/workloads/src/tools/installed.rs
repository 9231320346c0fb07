//! Checks whether an external program is installed, and names its Debian package if not. Must not start a program.

use machine::child::find_program;

use crate::job::Failure;

/// Checks that a program is installed. The error names the affected measurement and the package.
pub(crate) fn require(program: &str, package: &str) -> Result<(), Failure> {
    find_program(program).map(drop).map_err(|_| {
        Failure::Unavailable(format!("program {program} is not installed; hint: apt-get install {package}"))
    })
}

/// Returns the reason why a program that is not installed cannot be measured.
pub(crate) fn missing(program: &str, package: &str) -> Option<String> {
    require(program, package).err().map(|failure| failure.reason().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_reported_with_its_package() {
        assert_eq!(require("sh", "dash"), Ok(()));
        let failure = require("no-such-program", "such-a-package").unwrap_err();
        assert!(matches!(&failure, Failure::Unavailable(why)
            if why.contains("no-such-program") && why.contains("hint: apt-get install such-a-package")));
    }
}
