//! Parses the output of `openssl speed` of OpenSSL 1.1 and 3: bytes per second of each cipher or digest and block size,
//! and operations per second of public-key algorithms. Lines of stderr and the cipher lines of `-mr` are accepted. The
//! report does not contain the CPUs, nor whether times are CPU time (default) or wall time (`-elapsed`).

use super::{ImportedReport, ReportError, number_with, numbered, row, single};
use crate::values::record::ImportedRow;
use crate::values::workload::Better;

const UNITS: &str = "The 'numbers' are in 1000s of bytes per second processed.";
/// Beginnings of lines without results, which are ignored.
const IGNORED: [&str; 9] = [
    "Doing ",
    "Forked child ",
    "built on:",
    "options:",
    "compiler:",
    UNITS,
    "You have chosen to measure",
    "+DT:",
    "+R:",
];
const HINT: &str = "keep only the output of openssl speed (stdout, or stdout and stderr)";

pub fn detect(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(UNITS) || line.starts_with("CPUINFO: OPENSSL_") || line.starts_with("+H:"))
        || text.lines().any(|line| line.starts_with("version: 3."))
        || text.starts_with("OpenSSL ") && text.contains("built on:")
}

pub fn read(text: &str) -> Result<ImportedReport, ReportError> {
    let mut reader = Reader::default();
    for (number, line) in numbered(text) {
        if !line.trim().is_empty() {
            reader.line(number, line)?;
        }
    }
    if !reader.machine_readable && reader.facts.is_empty() {
        return Err(ReportError::whole("the line with the version of OpenSSL is missing").hint(HINT));
    }
    Ok(single(reader.rows, reader.facts))
}

#[derive(Default)]
struct Reader {
    facts: Vec<(String, String)>,
    rows: Vec<ImportedRow>,
    /// Block sizes of the columns, in bytes.
    sizes: Vec<String>,
    /// Operations of the public-key columns, from their header: `sign` and `verify`, or only `op`.
    operations: Vec<String>,
    machine_readable: bool,
}

impl Reader {
    fn line(&mut self, at: usize, line: &str) -> Result<(), ReportError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(version) = version(line) {
            return self.version(at, version);
        }
        if let Some(found) = line.strip_prefix("CPUINFO: ") {
            self.facts.push(("OpenSSL's view of the cpu".into(), found.trim().into()));
        } else if let Some(child_line) = line.strip_prefix("Got: ") {
            // With -multi, the lines of each child are repeated; then the sums follow without a header.
            if let Some(sizes) = child_line.strip_prefix("+H:") {
                self.sizes = sizes.split(" from ").next().unwrap_or_default().split(':').map(Into::into).collect();
            }
        } else if IGNORED.iter().any(|prefix| line.starts_with(prefix)) {
        } else if words[0] == "type" {
            self.sizes = sizes(&words[1..]).ok_or_else(|| unknown(at, line))?;
        } else if let Some(sizes) = line.strip_prefix("+H:") {
            self.machine_readable = true;
            self.sizes = sizes.split(':').map(Into::into).collect();
        } else if line.starts_with("+F") {
            self.machine_line(at, line)?;
        } else if let Some(operations) = operations(&words) {
            self.operations = operations;
        } else if words.last().is_some_and(|word| word.ends_with('k')) {
            self.throughputs(at, line, &words)?;
        } else if self.operations.is_empty() {
            return Err(unknown(at, line));
        } else {
            self.rates(at, line, &words)?;
        }
        Ok(())
    }

    fn version(&mut self, at: usize, version: &str) -> Result<(), ReportError> {
        if self.facts.iter().any(|(key, _)| key == "OpenSSL") {
            return Err(ReportError::at(at, "a second report begins here").hint("import one report per file"));
        }
        if !version.starts_with("1.1.") && !version.starts_with("3.") {
            let what = format!("unsupported version {version}; supported are OpenSSL 1.1 and 3");
            return Err(ReportError::at(at, what));
        }
        self.facts.push(("OpenSSL".into(), version.into()));
        Ok(())
    }

    /// `aes-128-cbc    1280011.00k  1493761.85k`
    fn throughputs(&mut self, at: usize, line: &str, words: &[&str]) -> Result<(), ReportError> {
        let first = words.iter().rposition(|word| throughput(word).is_none()).map_or(0, |last| last + 1);
        let figures: Vec<f64> = words[first..].iter().filter_map(|word| throughput(word)).collect();
        self.add_throughputs(at, line, &words[..first].join(" "), &figures)
    }

    /// `+F:25:AES-128-CBC:1312658933.33:1527462795.06`, in bytes per second.
    fn machine_line(&mut self, at: usize, line: &str) -> Result<(), ReportError> {
        let fields: Vec<&str> = line.split(':').collect();
        let ["+F", _, name, figures @ ..] = fields.as_slice() else {
            let what = format!("unsupported line of -mr: '{}'", line.trim());
            return Err(ReportError::at(at, what).hint("for public-key algorithms, run openssl speed without -mr"));
        };
        let figures: Option<Vec<f64>> = figures.iter().map(|figure| Some(number_with(figure, 2)? / 1000.0)).collect();
        self.add_throughputs(at, line, name, &figures.ok_or_else(|| unknown(at, line))?)
    }

    fn add_throughputs(&mut self, at: usize, line: &str, name: &str, figures: &[f64]) -> Result<(), ReportError> {
        if self.sizes.is_empty() {
            return Err(ReportError::at(at, "the line with the block sizes is missing before this line").hint(HINT));
        }
        if name.is_empty() || figures.len() != self.sizes.len() {
            return Err(unknown(at, line));
        }
        // With -evp, version 3 prints AES-128-CBC and version 1.1 aes-128-cbc.
        let name = name.to_lowercase();
        for (size, figure) in self.sizes.iter().zip(figures) {
            let test = format!("{name} {size} bytes");
            self.rows.push(row(&test, "throughput", "kB/s", Better::Higher, *figure));
        }
        Ok(())
    }

    /// `rsa 2048 bits 0.000212s 0.000013s   4711.8  79528.8`
    fn rates(&mut self, at: usize, line: &str, words: &[&str]) -> Result<(), ReportError> {
        let operations = self.operations.len();
        let front = words.len().checked_sub(2 * operations).filter(|front| *front > 0);
        let front = front.ok_or_else(|| unknown(at, line))?;
        let times = &words[front..front + operations];
        let rates: Option<Vec<f64>> = words[front + operations..].iter().map(|word| number_with(word, 1)).collect();
        let rates = rates.filter(|_| times.iter().all(|time| is_time(time))).ok_or_else(|| unknown(at, line))?;
        let name = format!("{}{}", name_prefix(&self.operations), words[..front].join(" "));
        for (operation, rate) in self.operations.iter().zip(rates) {
            let test = if operation == "op" { name.clone() } else { format!("{name} {operation}") };
            self.rows.push(row(&test, "rate", "op/s", Better::Higher, rate));
        }
        Ok(())
    }
}

fn unknown(at: usize, line: &str) -> ReportError {
    let line: String = line.trim().chars().take(60).collect();
    ReportError::at(at, format!("'{line}' is not a line of openssl speed, or is truncated")).hint(HINT)
}

/// `version: 3.0.22`, or `OpenSSL 1.1.1w  11 Sep 2023`.
fn version(line: &str) -> Option<&str> {
    let version = line.strip_prefix("version: ").or_else(|| line.strip_prefix("OpenSSL "))?;
    version.split_whitespace().next()
}

/// `16 bytes     64 bytes`
fn sizes(words: &[&str]) -> Option<Vec<String>> {
    let pairs = words.chunks(2).map(|pair| match pair {
        [size, "bytes"] if size.parse::<u64>().is_ok() => Some((*size).into()),
        _ => None,
    });
    pairs.collect::<Option<Vec<String>>>().filter(|sizes| !sizes.is_empty())
}

/// `sign    verify    sign/s verify/s`: columns of times, then columns of rates. The name of a rate may be abbreviated
/// (`encrypt`, `encr./s`) or a plural (`keygen`, `keygens/s`). Returns the full singular names.
fn operations(words: &[&str]) -> Option<Vec<String>> {
    if !words.len().is_multiple_of(2) {
        return None;
    }
    let (times, rates) = words.split_at(words.len() / 2);
    let plain = |(time, rate): (&&str, &&str)| {
        let rate = rate.strip_suffix("/s")?;
        match rate.strip_suffix('.') {
            Some(short) => time.starts_with(short).then(|| (*time).to_string()),
            None if time.starts_with(rate) => Some(rate.to_string()),
            None => rate.starts_with(time).then(|| (*time).to_string()),
        }
    };
    times.iter().zip(rates).map(plain).collect()
}

/// Distinguishes key encapsulation from signatures: version 3.5 prints the same algorithm name for both.
fn name_prefix(operations: &[String]) -> &'static str {
    let has = |name: &str| operations.iter().any(|operation| operation == name);
    match () {
        () if has("encaps") => "kem ",
        () if has("keygen") => "signature ",
        () => "",
    }
}

fn throughput(word: &str) -> Option<f64> {
    number_with(word.strip_suffix('k')?, 2)
}

fn is_time(word: &str) -> bool {
    word.strip_suffix('s').and_then(super::number).is_some()
}
