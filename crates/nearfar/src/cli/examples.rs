//! Examples of every command, and the pages that its manual page refers to. Help and manual pages print them. Must not
//! depend on the arguments of commands.

/// A command line and its effect.
pub struct Example {
    pub line: &'static str,
    pub effect: &'static str,
}

/// The examples of one command.
pub struct CommandExamples {
    /// Words after `nearfar`; empty for the program.
    pub command: &'static str,
    pub examples: &'static [Example],
    /// Commands of nearfar, and pages of other programs as `lstopo(1)`.
    pub see_also: &'static [&'static str],
}

/// Returns the words of a command, given those words joined by dashes, as in the name of its manual page. Names of commands
/// contain dashes, too.
pub fn words_of_page(joined: &str) -> &str {
    EXAMPLES.iter().map(|entry| entry.command).find(|command| command.replace(' ', "-") == joined).unwrap_or(joined)
}

/// Returns the examples of a command, given its words after `nearfar`.
pub fn examples_of(command: &str) -> Option<&'static CommandExamples> {
    EXAMPLES.iter().find(|entry| entry.command == command)
}

const fn example(line: &'static str, effect: &'static str) -> Example {
    Example { line, effect }
}

const fn entry(
    command: &'static str,
    examples: &'static [Example],
    see_also: &'static [&'static str],
) -> CommandExamples {
    CommandExamples { command, examples, see_also }
}

/// Lines are at most [`LINE_MAX`] characters; a backslash at the end continues them.
const EXAMPLES: &[CommandExamples] = &[
    entry(
        "",
        &[
            example("nearfar doctor", "Report what disturbs measurements on this machine"),
            example("nearfar run quick", "Measure this machine with a built-in experiment"),
            example("nearfar report", "Write the results as report.html"),
            example("nearfar place --budget 1m -- gzip -kc FILE", "Find the best placement of a command"),
        ],
        &["numactl(8)", "taskset(1)", "lstopo(1)"],
    ),
    entry(
        "map",
        &[
            example("nearfar map", "Show the topology and the settings of this machine"),
            example("nearfar map --measure", "Measure latencies and bandwidths; placements then use them"),
            example("nearfar map --run latest --weights --apply", "Weight memory nodes by measured bandwidth"),
            example("nearfar map --run latest --format svg -o map.svg", "Draw the newest measured map"),
        ],
        &["placements", "doctor", "lstopo(1)", "numactl(8)"],
    ),
    entry(
        "placements",
        &[
            example("nearfar placements --threads 2", "List the placements of two threads"),
            example(
                "nearfar placements --placement spread -- ./app input",
                "Print command lines that run ./app under one placement",
            ),
        ],
        &["map", "place", "numactl(8)", "taskset(1)"],
    ),
    entry(
        "list",
        &[
            example("nearfar list workloads", "List all workloads with their parameters"),
            example("nearfar list policies --format json", "List the placement policies as JSON"),
        ],
        &["measure", "run", "placements"],
    ),
    entry(
        "measure",
        &[
            example(
                "nearfar measure stream --placement kernel --placement compact",
                "Measure memory bandwidth under two placements",
            ),
            example("nearfar measure command -r 10 -- gzip -kc FILE", "Measure a command ten times"),
            example(
                "nearfar measure command -- gzip -9kc FILE ::: gzip -1kc FILE",
                "Compare the second command with the first",
            ),
        ],
        &["list", "show", "compare", "gate"],
    ),
    entry(
        "run",
        &[
            example("nearfar run quick", "Run a built-in experiment; rerun the same command to resume it"),
            example("nearfar run quick --dry-run", "Show the plan and the estimated time"),
            example("nearfar run my.toml --quieten all", "Run an experiment file with the quietest settings"),
        ],
        &["list", "show", "compare", "report"],
    ),
    entry(
        "place",
        &[
            example("nearfar place --budget 1m -- gzip -kc FILE", "Search for one minute"),
            example("nearfar place -- zstd -T{threads} -kc FILE", "Also search the number of threads"),
            example("nearfar place --save gzip -- gzip -kc FILE", "Save the winner under a name"),
            example("nearfar place --use gzip -- gzip -kc FILE", "Run a command under the saved winner"),
        ],
        &["placements", "gate", "numactl(8)"],
    ),
    entry(
        "gate",
        &[
            example(
                "nearfar gate --max-slower 3% -- ./old/app input ::: ./new/app input",
                "Fail if the new program is more than 3 % slower",
            ),
            example("nearfar gate --baseline latest -- ./app input", "Compare with a stored run"),
        ],
        &["measure", "compare"],
    ),
    entry(
        "expand",
        &[
            example("nearfar expand --dram 2GiB -- sort -S 8G FILE", "Sort with at most 2 GiB of DRAM"),
            example(
                "nearfar expand --dram 50% --peak 8GiB -- ./app input",
                "Run with half of the memory that the program needs",
            ),
            example(
                "nearfar expand --dram 2GiB --server ./server -- ./load",
                "Limit a server, and run its load without a limit",
            ),
        ],
        &["size", "systemd-run(1)"],
    ),
    entry(
        "size",
        &[
            example("nearfar size --dram 50%,100% -- xz -kc FILE", "Compare two budgets of DRAM with no limit"),
            example("nearfar size --compressed -- xz -kc FILE", "Also measure whether compressed memory needs less"),
            example(
                "nearfar size --server ./server --ready port:7379 -- ./load",
                "Limit the server, and measure the time of its load",
            ),
        ],
        &["expand"],
    ),
    entry(
        "show",
        &[
            example("nearfar show", "Show the results of the latest run"),
            example("nearfar show --runs", "List all runs"),
            example("nearfar show latest --trials", "List the trials of a run with their verdicts"),
        ],
        &["compare", "report", "export"],
    ),
    entry(
        "compare",
        &[
            example("nearfar compare --by placement", "Compare the placements of the latest run"),
            example("nearfar compare --by host", "Compare machines"),
            example("nearfar compare --fail-if 'slower > 3%'", "Exit with status 1 after a regression"),
        ],
        &["show", "gate", "import"],
    ),
    entry(
        "report",
        &[
            example("nearfar report", "Report the latest run of each experiment"),
            example("nearfar report latest -o for-a-colleague.html", "Report one run"),
        ],
        &["serve", "show", "share"],
    ),
    entry(
        "serve",
        &[
            example("nearfar serve", "Serve the pages on this machine"),
            example(
                "ssh -L 6327:localhost:6327 MACHINE nearfar serve",
                "Open the pages of another machine in a browser of this one",
            ),
        ],
        &["report", "ssh(1)"],
    ),
    entry(
        "export",
        &[
            example("nearfar export --format csv -o samples.csv", "Export each sample as a line"),
            example(
                "nearfar export --format openmetrics \\\n  -o /var/lib/prometheus/node-exporter/nearfar.prom",
                "Write metrics for the node exporter of Prometheus",
            ),
            example("nearfar export --format hyperfine -o times.json", "Export for scripts that read hyperfine's JSON"),
            example(
                "nearfar export --format parquet --output-dir results --all",
                "Write a Parquet file for each run, for data frames and SQL",
            ),
            example(
                "AWS_REGION=eu-central-1 nearfar export --format parquet \\\n  --output-dir s3://lab/nearfar",
                "Upload a Parquet file to an object store",
            ),
        ],
        &["import", "share", "compare"],
    ),
    entry(
        "import",
        &[
            example("nearfar import board-b.db", "Add the runs of another results file"),
            example("nearfar import --name times times.json", "Import the JSON of hyperfine as a table"),
        ],
        &["export", "share", "compare"],
    ),
    entry(
        "share",
        &[example(
            "nearfar share latest --host-label 'board, fan on' -o for-the-forum.db",
            "Write a file that the recipient reads with nearfar import",
        )],
        &["import", "report"],
    ),
    entry(
        "graph",
        &[example("nearfar graph build --scale 20 --output g20.graph", "Build a graph with 2^20 vertices")],
        &["bfs", "graph edges", "graph build", "graph info"],
    ),
    entry(
        "graph edges",
        &[
            example("nearfar graph edges --scale 20 --sha256", "Count and hash the edges"),
            example("nearfar graph edges --scale 16 --edges text --output edges.txt", "Write one line per edge"),
        ],
        &["graph build"],
    ),
    entry(
        "graph build",
        &[
            example("nearfar graph build --scale 20 --output g20.graph", "Build in memory"),
            example("nearfar graph build --scale 26 --memory 2GiB --output g26.graph", "Build with at most 2 GiB"),
        ],
        &["graph info", "graph edges", "bfs"],
    ),
    entry(
        "graph info",
        &[
            example("nearfar graph info --scale 26", "Show the memory and disk space that a scale needs"),
            example("nearfar graph info g20.graph", "Verify a graph file and show its contents"),
        ],
        &["graph build"],
    ),
    entry(
        "bfs",
        &[
            example("mpirun -n 4 nearfar bfs --scale 22", "Search with four MPI ranks"),
            example("nearfar bfs --scale 16 --parts 2", "Search with two threads of one process"),
        ],
        &["graph", "mpirun(1)"],
    ),
    entry(
        "fleet",
        &[
            example("nearfar fleet run quick --on ssh:node-1,node-2", "Measure two machines"),
            example("nearfar fleet compare", "Find machines that differ from their class"),
        ],
        &["fleet run", "fleet status", "fleet collect", "fleet compare", "compare"],
    ),
    entry(
        "fleet run",
        &[
            example("nearfar fleet run quick --on ssh:node-1,node-2", "Run an experiment and wait for its end"),
            example(
                "nearfar fleet run my.toml --on 'ssh:node-[01-12]' --detach -- --budget 1h",
                "Start it with options of nearfar run; fleet collect copies the results",
            ),
            example(
                "nearfar fleet run quick --on slurm --nodelist 'node-[01-12]' --time 1:00:00",
                "Run it as one Slurm job per node",
            ),
            example(
                "nearfar fleet run quick --on kubernetes:node-1,node-2 \\\n  \
                 --image registry.example.org/nearfar:0.1 -o job.yaml",
                "Write a manifest for kubectl apply",
            ),
        ],
        &["fleet status", "fleet collect", "fleet compare", "run"],
    ),
    entry(
        "fleet status",
        &[example("nearfar fleet status --on ssh:node-1,node-2", "Show the progress of all jobs")],
        &["fleet run", "fleet collect"],
    ),
    entry(
        "fleet collect",
        &[example("nearfar fleet collect --on ssh:node-1,node-2", "Copy the results of all jobs to this machine")],
        &["fleet run", "fleet compare"],
    ),
    entry(
        "fleet compare",
        &[
            example("nearfar fleet compare", "Compare each machine with those of the same hardware"),
            example("nearfar fleet compare --class cpu.model,rack --workload stream", "Compare within racks"),
            example("nearfar fleet compare --since 7d", "List changes of the last seven days only"),
            example("nearfar fleet compare --format json | jq '.classes[].changes'", "List changes over time"),
        ],
        &["fleet collect", "compare"],
    ),
    entry(
        "where",
        &[
            example("nearfar where --pid 1234", "Show the memory nodes of a process and its descendants"),
            example("nearfar where --file /bin/bash", "Show the cached parts of a file"),
            example("nearfar where -- ./app input", "Run a command and inspect it until it ends"),
        ],
        &["files", "map", "numastat(8)"],
    ),
    entry(
        "live",
        &[example("nearfar live audit --unit redis", "Examine the placement of a unit")],
        &["where", "place"],
    ),
    entry(
        "live audit",
        &[
            example("nearfar live audit --pid 1234", "Examine a process and its descendants for two seconds"),
            example("nearfar live audit --unit redis --duration 30s", "Examine a systemd unit for longer"),
        ],
        &["where", "place", "numastat(8)"],
    ),
    entry(
        "live try",
        &[
            example(
                "nearfar live try --unit redis --metric tcp:6379",
                "Compare NUMA nodes and L3 caches by the requests per second",
            ),
            example(
                "nearfar live try --pid 1234 --metric tcp:80 --placement 0-3 --budget 30m",
                "Compare CPUs 0 to 3 with those found",
            ),
            example(
                "nearfar live try --unit redis --metric tcp:6379 --move-memory --budget 1h",
                "Compare NUMA nodes, each with the memory of the service on it",
            ),
            example(
                "nearfar live try --unit redis --metric tcp:6379 --device eth0",
                "Compare NUMA nodes, each with the interrupts of a network adapter",
            ),
        ],
        &["live audit", "live apply", "place", "restore"],
    ),
    entry(
        "live apply",
        &[
            example("nearfar live apply --unit redis --placement node:1", "Move a unit and its memory to node 1"),
            example("nearfar live apply --pid 1234 --placement 0-3", "Place the threads, and leave the memory"),
            example("nearfar live apply --pid 1234 --placement '-i 0,1'", "Interleave the memory over two nodes"),
            example(
                "nearfar live apply --pid 1234 --placement 0-3+irq:4 --device eth0",
                "Place the threads, and the interrupts of an adapter",
            ),
        ],
        &["live try", "live undo", "live watch"],
    ),
    entry(
        "live undo",
        &[
            example("nearfar live undo --unit redis", "Put a unit back as it was found"),
            example("nearfar live undo --all", "Undo all applied placements"),
        ],
        &["live apply", "live watch", "restore"],
    ),
    entry(
        "live watch",
        &[
            example("nearfar live watch --once", "List applied placements; status 1 if one is lost"),
            example("nearfar live watch --every 10m --format json", "Print a line of JSON every ten minutes"),
            example(
                "nearfar live watch --unit redis --metric tcp:6379 --every 1d",
                "Also measure each day whether the placement still gains anything",
            ),
        ],
        &["live apply", "live undo"],
    ),
    entry(
        "files",
        &[
            example("nearfar files --nodes 0 FILE", "Move the cached pages of a file to memory node 0"),
            example("nearfar files --drop FILE", "Remove a file from the page cache"),
        ],
        &["where", "place", "numactl(8)"],
    ),
    entry(
        "copy-text",
        &[example("numactl -N 1 nearfar copy-text -- ./app", "Run a program on node 1, with its code there, too")],
        &["files", "place", "where"],
    ),
    entry(
        "doctor",
        &[example("nearfar doctor", "Report disturbances and missing requirements, with remedies")],
        &["map", "run", "restore"],
    ),
    entry(
        "restore",
        &[
            example("nearfar restore --dry-run", "Print what would be restored"),
            example("sudo nearfar restore", "Restore settings that need root"),
        ],
        &["doctor", "run"],
    ),
    entry(
        "completions",
        &[example(
            "nearfar completions bash > ~/.local/share/bash-completion/completions/nearfar",
            "Install the completions of bash; new shells load them",
        )],
        &["man"],
    ),
    entry(
        "man",
        &[
            example("nearfar man place | man -l -", "Read the page of a command"),
            example("nearfar man --output-dir ~/.local/share/man/man1", "Install all pages"),
        ],
        &["completions", "man(1)"],
    ),
];

/// Maximum length of a line, so that help does not wrap it in a terminal of 80 columns.
#[cfg(test)]
const LINE_MAX: usize = 78;

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::*;
    use crate::cli::Cli;

    /// The words after `nearfar` of all commands that help shows.
    fn commands(command: &Command, words: &str) -> Vec<String> {
        let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
        let below = visible.flat_map(|below| commands(below, format!("{words} {}", below.get_name()).trim()));
        std::iter::once(words.to_string()).chain(below).collect()
    }

    #[test]
    fn every_command_has_examples() {
        let all = commands(&Cli::command(), "");
        let listed: Vec<&str> = EXAMPLES.iter().map(|entry| entry.command).collect();
        for command in &all {
            assert!(examples_of(command).is_some_and(|entry| !entry.examples.is_empty()), "{command} has no example");
        }
        assert_eq!(listed.len(), all.len(), "commands of {listed:?} that do not exist, or twice");
    }

    #[test]
    fn examples_parse_as_their_command() {
        for entry in EXAMPLES {
            for example in entry.examples {
                let line = example.line;
                let words = words(line);
                let own = format!("nearfar {}", entry.command);
                assert!(words.join(" ").starts_with(own.trim()), "{line} is not an example of {own}");
                if let Err(error) = Cli::from_argv(&words) {
                    panic!("{line}: {error}");
                }
            }
        }
    }

    #[test]
    fn examples_fit_into_a_terminal() {
        for example in EXAMPLES.iter().flat_map(|entry| entry.examples) {
            let longest = example.line.lines().chain([example.effect]).map(str::len).max();
            assert!(longest.is_some_and(|longest| longest <= LINE_MAX), "{}: {}", example.line, example.effect);
        }
    }

    #[test]
    fn pages_of_see_also_exist() {
        for name in EXAMPLES.iter().flat_map(|entry| entry.see_also) {
            assert!(name.ends_with(')') || examples_of(name).is_some(), "{name}");
        }
    }

    /// The words from `nearfar` to the end of its command.
    fn words(line: &str) -> Vec<String> {
        let start = line.find("nearfar ").unwrap_or_else(|| panic!("{line} does not run nearfar"));
        // shlex does not continue lines.
        let words =
            shlex::split(&line[start..].replace("\\\n", "")).unwrap_or_else(|| panic!("{line} has an unclosed quote"));
        words.into_iter().take_while(|word| word != "|" && word != ">").collect()
    }
}
