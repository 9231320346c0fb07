//! Java virtual machines that may crash when they are moved. Must not depend on how they are found.

use std::fmt;

/// Versions of `OpenJDK` in which G1 may crash when a thread changes its NUMA node (JDK-8351500): G1 has known NUMA nodes since
/// 14, and from 22 on the fault has no effect (<https://github.com/openjdk/jdk/pull/23984>). Later updates of 21 are fixed.
const AFFECTED: std::ops::RangeInclusive<u32> = 14..=21;

/// A process that runs a Java virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JavaProcess {
    pub pid: u32,
    /// `17.0.13`; `None` if unknown.
    pub version: Option<String>,
}

impl JavaProcess {
    /// Whether its version, or an unknown one, may crash when a thread changes its NUMA node.
    pub fn may_crash(&self) -> bool {
        self.feature().is_none_or(|feature| AFFECTED.contains(&feature))
    }

    /// Returns the number of the feature release: 17 of 17.0.13, and 8 of `1.8.0_402`.
    fn feature(&self) -> Option<u32> {
        let mut parts = self.version.as_deref()?.split(['.', '+', '-', '_']);
        match parts.next()?.parse().ok()? {
            1 => parts.next()?.parse().ok(),
            feature => Some(feature),
        }
    }
}

/// `process 7 is a Java virtual machine (17.0.13)`.
impl fmt::Display for JavaProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version.as_deref().unwrap_or("unknown version");
        write!(f, "process {} is a Java virtual machine ({version})", self.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affected_and_unknown_versions_may_crash() {
        let cases = [
            (Some("17.0.15"), true),
            (Some("21"), true),
            (Some("21.0.6+7-LTS"), true),
            (Some("14-ea"), true),
            (Some("11.0.2"), false),
            (Some("1.8.0_402"), false),
            (Some("22.0.1"), false),
            (Some("25.0.3"), false),
            (Some("unknown"), true),
            (None, true),
        ];
        for (version, expected) in cases {
            let java = JavaProcess { pid: 7, version: version.map(Into::into) };
            assert_eq!(java.may_crash(), expected, "{java}");
        }
    }
}
