//! Recognises the cgroups of systemd units and of containers by their names.

/// Returns whether a cgroup directory is that of a systemd unit; without a type, the unit is a service.
pub fn is_unit(directory: &str, unit: &str) -> bool {
    let has_type = unit.rsplit_once('.').is_some_and(|(_, kind)| ["service", "scope", "slice"].contains(&kind));
    directory == unit || (!has_type && directory.strip_suffix(".service") == Some(unit))
}

/// Returns whether a cgroup directory is that of a Kubernetes pod: `pod<UID>`, or a slice of systemd in which the hyphens of
/// the UID are underscores.
pub fn is_pod(directory: &str, uid: &str) -> bool {
    let name = directory.strip_suffix(".slice").unwrap_or(directory);
    let found = name.rsplit_once("pod").map_or("", |(_, uid)| uid);
    !uid.is_empty() && found.replace('_', "-") == uid.replace('_', "-")
}

/// ID of a container, or its first digits; for LXC and systemd-nspawn, its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerId(String);

/// Docker prints 12 digits; 4 are the shortest that people type.
const DIGITS_MIN: usize = 4;
/// Length of a full ID of Docker, Podman, containerd and CRI-O.
const DIGITS_MAX: usize = 64;
/// Beginnings of directory names before an ID, for the runtimes that use systemd.
const RUNTIMES: [&str; 5] = ["docker-", "libpod-", "cri-containerd-", "crio-", "containerd-"];
/// Beginnings of directory names before a name.
const NAMED: [&str; 3] = ["lxc.payload.", "machine-", "systemd-nspawn@"];

impl ContainerId {
    /// Parses an ID; Kubernetes writes `containerd://` before it.
    ///
    /// # Errors
    /// If it can be neither an ID nor a name of a container.
    pub fn parse(text: &str) -> Result<Self, String> {
        let id = text.rsplit_once("://").map_or(text, |(_, id)| id);
        if id.is_empty() || id.contains('/') {
            return Err(format!("'{text}' is not the ID of a container"));
        }
        Ok(Self(id.into()))
    }

    /// Returns whether a cgroup directory is that of the container.
    pub fn is_of(&self, directory: &str) -> bool {
        let name = directory.strip_suffix(".scope").or(directory.strip_suffix(".service")).unwrap_or(directory);
        let id = RUNTIMES.iter().find_map(|runtime| name.strip_prefix(runtime)).unwrap_or(name);
        let is_id = |text: &str| text.len() == DIGITS_MAX && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_id(id) && self.0.len() >= DIGITS_MIN && id.starts_with(&self.0) {
            return true;
        }
        NAMED.iter().any(|before| name.strip_prefix(before) == Some(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_without_a_type_is_a_service() {
        assert!(is_unit("redis.service", "redis") && is_unit("redis.service", "redis.service"));
        assert!(is_unit("user.slice", "user.slice") && is_unit("php8.3-fpm.service", "php8.3-fpm"));
        for (directory, unit) in
            [("redis.service", "red"), ("redis.slice", "redis"), ("redis.scope", "redis.service"), ("a.service", "")]
        {
            assert!(!is_unit(directory, unit), "{directory} {unit}");
        }
    }

    #[test]
    fn pods_of_both_drivers_are_recognised() {
        let uid = "8a1c3f52-7b0e-4a55-9d7e-0f3c5d1b2a90";
        for directory in [
            "pod8a1c3f52-7b0e-4a55-9d7e-0f3c5d1b2a90",
            "kubepods-besteffort-pod8a1c3f52_7b0e_4a55_9d7e_0f3c5d1b2a90.slice",
            "kubepods-pod8a1c3f52_7b0e_4a55_9d7e_0f3c5d1b2a90.slice",
        ] {
            assert!(is_pod(directory, uid), "{directory}");
            assert!(!is_pod(directory, &uid[..8]) && !is_pod(directory, ""), "{directory}");
        }
        assert!(!is_pod("redis.service", uid) && !is_pod("redis.service", ""));
    }

    #[test]
    fn containers_of_all_runtimes_are_recognised() {
        let full = "0123456789abcdef".repeat(4);
        let docker = ContainerId::parse("0123456789ab").unwrap();
        for directory in [full.clone(), format!("docker-{full}.scope"), format!("cri-containerd-{full}.scope")] {
            assert!(docker.is_of(&directory), "{directory}");
            assert!(ContainerId::parse(&format!("containerd://{full}")).unwrap().is_of(&directory));
            assert!(!ContainerId::parse("123456789abc").unwrap().is_of(&directory), "not its beginning");
            assert!(!ContainerId::parse("012").unwrap().is_of(&directory), "too short");
        }
        let named = ContainerId::parse("web").unwrap();
        assert!(named.is_of("lxc.payload.web") && named.is_of("machine-web.scope"));
        assert!(!named.is_of("web") && !named.is_of("lxc.monitor.web") && !named.is_of("machine-web2.scope"));
        for invalid in ["", "a/b", "docker://"] {
            assert!(ContainerId::parse(invalid).is_err(), "{invalid}");
        }
    }
}
