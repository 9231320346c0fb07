//! Counters of the work of a running service. Must not depend on experiments.

use std::process::{Command, Stdio};

use machine::tcp_requests::TcpRequests;
use regex::Regex;

use crate::error::CliError;

/// A counter that grows with the work of a service.
pub enum LiveMeter {
    /// Requests on the connections to a port.
    Tcp(TcpRequests),
    /// The first group of a regular expression in the output of a command.
    Command { argv: Vec<String>, pattern: Regex },
}

/// A number, if no regular expression is given.
const ANY_NUMBER: &str = r"([0-9]+(?:\.[0-9]+)?)";

impl LiveMeter {
    /// Opens a counter: `tcp:PORT` or `command:CMD#REGEX`.
    ///
    /// # Errors
    /// If the text names none, or if it cannot be read.
    pub fn open(text: &str) -> Result<Self, CliError> {
        let unknown = || {
            CliError::usage(format!("--metric '{text}': unknown counter"))
                .hint("use tcp:PORT, or 'command:CMD#REGEX' such as 'command:redis-cli info stats#total_commands_processed:([0-9]+)'")
        };
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        match kind {
            "tcp" => Self::tcp(text, rest),
            "command" => Self::command(text, rest),
            _ => Err(unknown()),
        }
    }

    fn tcp(text: &str, port: &str) -> Result<Self, CliError> {
        let port: u16 =
            port.parse().map_err(|_| CliError::usage(format!("--metric '{text}': {port} is not a port number")))?;
        TcpRequests::open(port).map(Self::Tcp).map_err(|error| {
            CliError::usage(format!("--metric '{text}': {error}")).hint("list the ports of services with ss -tlnp")
        })
    }

    fn command(text: &str, rest: &str) -> Result<Self, CliError> {
        let (command, pattern) = rest.split_once('#').unwrap_or((rest, ANY_NUMBER));
        let argv = shlex::split(command).filter(|words| !words.is_empty());
        let argv = argv.ok_or_else(|| {
            CliError::usage(format!("--metric '{text}': the command is empty or has an unclosed quote"))
        })?;
        let pattern = Regex::new(pattern).map_err(|error| CliError::usage(format!("--metric '{text}': {error}")))?;
        if pattern.captures_len() < 2 {
            return Err(CliError::usage(format!("--metric '{text}': the regular expression has no group"))
                .hint("put the number in parentheses"));
        }
        let mut meter = Self::Command { argv, pattern };
        meter.read().map_err(|error| CliError::usage(format!("--metric '{text}': {error}")))?;
        Ok(meter)
    }

    /// Returns the total.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn read(&mut self) -> Result<f64, String> {
        match self {
            Self::Tcp(requests) => requests.read().map(|total| total as f64).map_err(|error| error.to_string()),
            Self::Command { argv, pattern } => {
                let output = Command::new(&argv[0]).args(&argv[1..]).stdin(Stdio::null()).output();
                let output = output.map_err(|error| format!("{}: {error}", argv[0]))?;
                if !output.status.success() {
                    return Err(format!("{}: {}", argv[0], String::from_utf8_lossy(&output.stderr).trim()));
                }
                let text = String::from_utf8_lossy(&output.stdout);
                let number = pattern.captures(&text).and_then(|groups| groups.get(1)?.as_str().parse::<f64>().ok());
                number.ok_or_else(|| format!("the output of {} has no number that matches {pattern}", argv[0]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_counters_are_read() {
        let mut meter = LiveMeter::open("command:echo ops:17 errors:3#errors:([0-9]+)").expect("it is valid");
        assert_eq!(meter.read(), Ok(3.0));
        let mut meter = LiveMeter::open("command:echo ops 17").expect("it is valid");
        assert_eq!(meter.read(), Ok(17.0));
    }

    #[test]
    fn invalid_counters_are_refused() {
        let refused = |text: &str| LiveMeter::open(text).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused("requests").contains("unknown counter"));
        assert!(refused("tpc:80").contains("unknown counter"));
        assert!(refused("tcp:http").contains("http is not a port number"));
        // No service can listen there.
        assert!(refused("tcp:0").contains("no service listens"));
        assert!(refused("command:").contains("the command is empty"));
        assert!(refused("command:echo 1#[0-9]+").contains("no group"));
        assert!(refused("command:echo x").contains("has no number"));
        assert!(refused("command:false").contains("false"));
        assert!(refused("command:/does/not/exist").contains("/does/not/exist"));
    }
}
