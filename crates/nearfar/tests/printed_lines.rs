//! The printed command lines in the programs that they are for: each program gets the arguments and the binding that
//! were measured. A program that is missing here is skipped with the reason.

#[path = "../../model/tests/nasty/mod.rs"]
mod nasty;
mod own_systemd;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Sender, channel};

use machine::topology::TopologySource;
use model::placements::placement::{CommandLines, KernelFeatures, lines, parse};
use model::values::shell::quote_argv;

/// Lists in one line, for programs that take more than a few milliseconds to start.
const BATCH: usize = 50;
/// The argument after each list.
const END: &str = "\u{1}";
const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/topologies/models/xeon-e5-2640-x2.xml");
const FEATURES: KernelFeatures = KernelFeatures { weighted_interleave: false, far: false };
/// Prints each argument, followed by NUL.
const PRINT: [&str; 3] = ["/usr/bin/env", "printf", "%s\\0"];

/// Returns the lines of a placement for a command, on a machine with two memory nodes.
fn printed(placement: &str, argv: &[String]) -> CommandLines {
    let machine = machine::topology::read(&TopologySource::XmlFile(MODEL.into())).expect("the model exists");
    let placement = parse(&machine, placement, None, FEATURES).expect("a valid placement");
    lines(&placement, &machine, &quote_argv(argv))
}

/// Returns the command that prints the words of all lists.
fn command_of(lists: &[Vec<String>]) -> Vec<String> {
    let words = lists.iter().flat_map(|words| words.iter().map(String::as_str).chain([END]));
    PRINT.into_iter().chain(words).map(String::from).collect()
}

/// Whether a program can run here; `probe` are arguments with which it succeeds.
fn is_usable(test: &str, program: &str, probe: &[&str]) -> bool {
    let reason = match Command::new(program).args(probe).stdin(Stdio::null()).output() {
        Err(error) => error.to_string(),
        Ok(Output { status, .. }) if status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().lines().next().unwrap_or("it failed").into(),
    };
    println!("skipped: {test}: {program}: {reason}");
    false
}

fn in_shell(script: &Path) -> Output {
    Command::new("sh").arg(script).stdin(Stdio::null()).output().expect("sh starts")
}

/// Runs the printed lines of all lists with `run` and compares the arguments that the program got.
fn check(batch: usize, line: impl Fn(&[String]) -> String, run: impl Fn(&Path) -> Output) {
    let lists = nasty::lists();
    let lines: Vec<String> = lists.chunks(batch).map(|lists| line(&command_of(lists))).collect();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let script = dir.path().join("lines.sh");
    std::fs::write(&script, lines.join("\n")).expect("the directory is writable");
    let output = run(&script);
    let text = String::from_utf8(output.stdout).expect("the words are UTF-8");
    let end = format!("{END}\0");
    let got: Vec<Vec<&str>> = text.split_terminator(&end).map(|list| list.split_terminator('\0').collect()).collect();
    assert_eq!(got.len(), lists.len(), "{}", String::from_utf8_lossy(&output.stderr));
    for (words, got) in lists.iter().zip(got) {
        assert_eq!(got, *words);
    }
}

#[test]
fn taskset_line_runs_the_original_arguments() {
    if is_usable("taskset", "taskset", &["-c", "0", "true"]) {
        check(1, |argv| printed("-C 0", argv).taskset.expect("CPUs can be expressed"), in_shell);
    }
}

#[test]
fn numactl_line_runs_the_original_arguments() {
    if is_usable("numactl", "numactl", &["-C", "0", "true"]) {
        check(1, |argv| printed("-C 0", argv).numactl.expect("it can express everything"), in_shell);
    }
}

#[test]
fn hwloc_bind_line_runs_the_original_arguments() {
    if is_usable("hwloc-bind", "hwloc-bind", &["--physical", "--cpubind", "pu:0", "--", "true"]) {
        check(BATCH, |argv| printed("-C 0", argv).hwloc_bind.expect("CPUs can be expressed"), in_shell);
    }
}

#[test]
fn openmp_line_runs_the_original_arguments() {
    check(1, |argv| printed("-C 0", argv).openmp.expect("CPUs can be expressed"), in_shell);
}

#[test]
fn go_and_java_lines_run_the_original_arguments() {
    check(1, |argv| printed("-C 0", argv).go.expect("CPUs can be expressed"), in_shell);
    check(1, |argv| printed("-C 0", argv).java.expect("CPUs can be expressed"), in_shell);
    let java = |placement: &str| printed(placement, &["java".into()]).java;
    assert_eq!(java("-C 0-1").as_deref(), Some("JAVA_TOOL_OPTIONS='-XX:ActiveProcessorCount=2' taskset -c 0-1 java"));
    assert!(java("-C 0,6 -l").is_some_and(|line| line.contains("=2 -XX:+UseNUMA' numactl -C 0,6 -l java")));
    assert!(java("-C 0,6 -i 0-1").is_some_and(|line| !line.contains("UseNUMA")));
    assert_eq!(printed("kernel", &["java".into()]).java, None);
}

#[test]
fn ranks_of_open_mpi_run_on_the_cores_of_the_placement() {
    const NAME: &str = "ranks_of_open_mpi_run_on_the_cores_of_the_placement";
    let slots = |placement: &str| printed(placement, &["app".into()]).open_mpi;
    let expected = "# nearfar.rankfile\nrank 0=localhost slot=0:1\nrank 1=localhost slot=1:0\n# command\n\
                    numactl -i 0-1 mpirun -n 2 --rankfile nearfar.rankfile app\n\
                    # without a file, Open MPI 5\n\
                    numactl -i 0-1 mpirun -n 2 --map-by pe-list=1,6:ordered app\n\
                    # Open MPI 4\n\
                    numactl -i 0-1 mpirun -n 2 --cpu-list 1,6 --bind-to cpu-list:ordered app";
    assert_eq!(slots("-C 1,6 -i 0-1").as_deref(), Some(expected));
    assert_eq!(slots("-C 0,12"), None, "two threads of one core");
    let machine = machine::topology::read(&TopologySource::Live).expect("this machine can be read");
    let placement = parse(&machine, "compact", None, FEATURES).expect("every machine has it");
    let show = "echo $OMPI_COMM_WORLD_RANK $(grep Cpus_allowed_list /proc/self/status)";
    let Some(text) = lines(&placement, &machine, &quote_argv(&["sh", "-c", show])).open_mpi else {
        return println!("skipped: {NAME}: this machine reports no packages or cores");
    };
    if !is_usable(NAME, "mpirun", &["--version"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (rankfile, command) = text.split_once("\n# command\n").expect("both parts");
    let (with_file, lists) = command.split_once("\n# without a file, Open MPI 5\n").expect("compact ascends");
    let (_, with_list) = lists.split_once("\n# Open MPI 4\n").expect("both versions");
    std::fs::write(dir.path().join("nearfar.rankfile"), rankfile).expect("the directory is writable");
    let allow = [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];
    let run = |command: &str| {
        let run = Command::new("sh").args(["-c", command]).envs(allow).current_dir(&dir).output().expect("sh starts");
        let mut seen: Vec<String> = String::from_utf8_lossy(&run.stdout).lines().map(String::from).collect();
        seen.sort_unstable();
        (seen, String::from_utf8_lossy(&run.stderr).into_owned())
    };
    let cores = machine.cores();
    let core_of = |cpu| cores.iter().find(|core| core.contains(cpu)).expect("every CPU has a core");
    let mut ranks: Vec<String> = placement
        .bindings
        .iter()
        .enumerate()
        .map(|(rank, cpu)| format!("{rank} Cpus_allowed_list: {}", core_of(*cpu)))
        .collect();
    ranks.sort_unstable();
    let (seen, stderr) = run(with_file);
    assert_eq!(seen, ranks, "{stderr}");
    let version = Command::new("mpirun").arg("--version").output().expect("it is usable");
    if String::from_utf8_lossy(&version.stdout).contains("(Open MPI) 4.") {
        let (seen, stderr) = run(with_list);
        assert_eq!(seen, ranks, "{stderr}");
    }
}

/// With the service manager of this machine, or with one that the test starts.
#[test]
fn systemd_run_line_runs_the_original_arguments() {
    let line = |argv: &[String]| printed("-C 0", argv).systemd_run.expect("CPUs can be expressed");
    let probe = Command::new("systemd-run").args(["--pipe", "--wait", "true"]).stdin(Stdio::null()).output();
    if probe.is_ok_and(|output| output.status.success()) {
        return check(BATCH, line, in_shell);
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    if let Err(reason) = own_systemd::run(&dir.path().join("none")) {
        return println!("skipped: systemd_run_line_runs_the_original_arguments: {reason}");
    }
    let of_user = |argv: &[String]| line(argv).replacen("systemd-run ", "systemd-run --user ", 1);
    check(BATCH, of_user, |script| own_systemd::run(script).expect("it ran before"));
}

#[test]
fn systemd_accepts_the_properties() {
    if !is_usable("systemd-analyze", "systemd-analyze", &["--version"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let verify = |name: &str, properties: &str| {
        let file = dir.path().join(name);
        std::fs::write(&file, format!("{properties}\nExecStart=/bin/true\n")).expect("the directory is writable");
        let output = Command::new("systemd-analyze").arg("verify").arg(&file).output().expect("it starts");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(verify("broken.service", "[Service]\nCPUAffinity=0-x").contains("Failed to parse CPU affinity"));
    for placement in ["-C 0", "-C 0-1 -m 0", "-C 1 -l", "-C 0 -i 0-1", "-C 0 -p 1"] {
        let properties = printed(placement, &["true".into()]).systemd.expect("it can be expressed");
        let complaints = verify("placed.service", &properties);
        assert!(!complaints.contains("placed.service"), "{properties}: {complaints}");
    }
}

/// The real client of Docker sends the command to a daemon, which this test is.
#[test]
fn docker_line_sends_the_original_arguments() {
    if !is_usable("docker", "docker", &["--version"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let socket = dir.path().join("docker.sock");
    let daemon = UnixListener::bind(&socket).expect("the directory is writable");
    let (sender, bodies) = channel();
    // It ends with the test.
    std::thread::spawn(move || {
        for stream in daemon.incoming().map_while(Result::ok) {
            let sender = sender.clone();
            std::thread::spawn(move || serve(stream, &sender));
        }
    });
    for lists in nasty::lists().chunks(BATCH) {
        let line = printed("-C 0 -m 0", &command_of(lists)).docker.expect("it can be expressed");
        // The user replaces IMAGE.
        let line = line.replacen("IMAGE", "image", 1);
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).env("DOCKER_HOST", format!("unix://{}", socket.display())).env("HOME", dir.path());
        let client = shell.output().expect("sh starts");
        let body = bodies.try_recv().unwrap_or_else(|_| panic!("{line}: {}", String::from_utf8_lossy(&client.stderr)));
        let request: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(request["Image"], "image");
        assert_eq!(request["HostConfig"]["CpusetCpus"], "0");
        assert_eq!(request["Cmd"], serde_json::json!(command_of(lists)));
    }
}

/// Answers requests until the client closes the connection. Sends the bodies of those that create a container, and
/// refuses them.
fn serve(mut stream: UnixStream, sender: &Sender<Vec<u8>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    loop {
        let (mut first, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if first.is_empty() {
                first.clone_from(&line);
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("the whole body");
        let is_create = first.contains("/containers/create");
        let (status, text) = if is_create { ("400 Bad Request", "{\"message\":\"no\"}") } else { ("200 OK", "OK") };
        let head = "Api-Version: 1.41\r\nContent-Type: application/json";
        let reply = format!("HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\n\r\n", text.len());
        let text = if first.starts_with("HEAD") { "" } else { text };
        if is_create {
            // Before the client ends.
            sender.send(body).expect("the test waits for it");
        }
        // The client may be gone.
        let _ = stream.write_all(format!("{reply}{text}").as_bytes());
    }
}

/// Parses the elements with the XML parser of Python.
#[test]
fn libvirt_elements_pin_the_cpus() {
    const READ: &str = "import sys, xml.etree.ElementTree as e\nd = e.fromstring(sys.stdin.read())\n\
        print(d.find('vcpu').text, [(p.get('vcpu'), p.get('cpuset')) for p in d.iter('vcpupin')], \
        [m.attrib for m in d.iter('memory')])";
    if !is_usable("libvirt", "python3", &["-c", "import xml.etree.ElementTree"]) {
        return;
    }
    let cases = [
        ("-C 0-1", "2 [('0', '0'), ('1', '1')] []"),
        ("-C 1 -m 1", "1 [('0', '1')] [{'mode': 'strict', 'nodeset': '1'}]"),
        ("-C 0 -i 0-1", "1 [('0', '0')] [{'mode': 'interleave', 'nodeset': '0-1'}]"),
    ];
    for (placement, expected) in cases {
        let elements = printed(placement, &["true".into()]).libvirt.expect("it can be expressed");
        let mut python = Command::new("python3");
        python.args(["-c", READ]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut python = python.spawn().expect("it starts");
        let mut stdin = python.stdin.take().expect("piped");
        stdin.write_all(format!("<domain>{elements}</domain>").as_bytes()).expect("it reads");
        drop(stdin);
        let output = python.wait_with_output().expect("it ends");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{elements}");
    }
}

/// Validates domains with libvirt's own schema.
#[test]
fn libvirt_elements_match_the_schema() {
    if !is_usable("libvirt_elements_match_the_schema", "virt-xml-validate", &["--help"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let is_valid = |elements: &str| {
        let file = dir.path().join("domain.xml");
        let system = "<name>a</name><memory>1048576</memory><os><type>hvm</type></os>";
        std::fs::write(&file, format!("<domain type='kvm'>{system}{elements}</domain>")).expect("writable");
        let mut validate = Command::new("virt-xml-validate");
        let output = validate.arg(&file).arg("domain").output().expect("it starts");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert!(!is_valid("<vcpu placement='static'>1</vcpu><cputune><vcpupin vcpu='0' cpuset='x'/></cputune>").0);
    for placement in ["-C 0", "-C 0-1,4", "-C 1 -m 1", "-C 0 -i 0-1", "-C 0 -p 1", "compact+loose"] {
        let elements = printed(placement, &["true".into()]).libvirt.expect("it can be expressed");
        let (is_valid, complaint) = is_valid(&elements);
        assert!(is_valid, "{elements}: {complaint}");
    }
}

/// Parses the configuration with the YAML parser of Python.
#[test]
fn kubernetes_configuration_is_yaml() {
    const READ: &str = "import sys, yaml, json; print(json.dumps(yaml.safe_load(sys.stdin), sort_keys=True))";
    if !is_usable("kubernetes", "python3", &["-c", "import yaml"]) {
        return;
    }
    let text = printed("-C 0-1", &["true".into()]).kubernetes.expect("it can be expressed");
    let mut python = Command::new("python3");
    python.args(["-c", READ]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().expect("it starts");
    let mut stdin = python.stdin.take().expect("piped");
    stdin.write_all(text.as_bytes()).expect("it reads");
    drop(stdin);
    let output = python.wait_with_output().expect("it ends");
    let read: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(read["cpuManagerPolicy"], "static");
    assert_eq!(read["resources"]["requests"]["cpu"], "2", "a text, as Kubernetes requires for whole CPUs");
}
