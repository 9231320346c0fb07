//! Unmodified programs of many kinds with part of the DRAM that they need: their output is the same as with all of it.
//!
//! `NEARFAR_SOAK=60 cargo test -p nearfar --test expand -- stress` runs each stressor for 60 seconds (`make soak`).

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::{Setup, installed, text};

/// Reads the file that `--summary` wrote.
pub fn read_summary(path: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("the summary exists")).expect("JSON")
}

/// The output is the same with a quarter of the memory.
#[test]
fn programs_lose_no_data() {
    let Some(setup) = Setup::new("programs_lose_no_data") else { return };
    let lines = setup.0.path().join("lines");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&lines).expect("a file"));
    let mut state = 1_u64;
    for _ in 0..600_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        writeln!(file, "{state:020} {:x}", state.rotate_left(17)).expect("the disk has space");
    }
    drop(file);
    let lines = lines.to_str().expect("plain text");
    let python = "import hashlib;b=bytearray(96<<20)\nfor i in range(0,len(b),997): b[i]=i*7%256\nprint(hashlib.sha256(b).hexdigest())";
    let sqlite = "PRAGMA temp_store=2; CREATE TABLE t(a,b); WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<400000) INSERT INTO t SELECT x*7919%400009, hex(x*x) FROM c; CREATE INDEX i ON t(b,a); SELECT sum(a), count(*), max(b) FROM t INDEXED BY i WHERE b>'3';";
    let programs: [&[&str]; 5] = [
        &["sort", "-S", "200M", "--parallel=2", lines],
        &["gzip", "-c", "-n", lines],
        &["zstd", "-q", "-c", "-T2", "--long=27", lines],
        &["python3", "-c", python],
        &["sqlite3", ":memory:", sqlite],
    ];
    for program in programs {
        if !installed(program[0]) {
            println!("skipped: programs_lose_no_data: {} is not installed", program[0]);
            continue;
        }
        let plain = Command::new(program[0]).args(&program[1..]).output().expect("the program starts");
        let runs = [("steered", None), ("plain", None)];
        let compressed = ["--compressed", "--compressed=auto"].map(|option| ("steered", Some(option)));
        for (engine, compressed) in runs.into_iter().chain(compressed) {
            let summary = setup.0.path().join("summary.json");
            // Not a power of two, so that fractions of it are not multiples of the page size.
            let flags = ["--dram", "25001KiB", "--engine", engine, "--summary", summary.to_str().expect("plain text")];
            let flags: Vec<&str> = flags.into_iter().chain(compressed).collect();
            let expanded = setup.run(&flags, program);
            if compressed.is_some() && text(&expanded.stderr).contains("cannot be kept compressed") {
                println!("skipped: programs_lose_no_data: {}", text(&expanded.stderr).trim());
                continue;
            }
            if engine == "plain" && text(&expanded.stderr).contains("the Linux kernel killed") {
                println!(
                    "skipped: programs_lose_no_data: {}: the kernel killed the program for lack of memory",
                    program[0]
                );
                continue;
            }
            assert!(expanded.status.success(), "{program:?}: {}", text(&expanded.stderr));
            assert_eq!(expanded.stdout, plain.stdout, "{program:?} with engine {engine}");
            let summary = read_summary(&summary);
            assert_eq!(summary["engine"], engine);
            if engine == "steered" {
                assert_eq!(summary["pilot"]["advice_rejected"], 0, "{program:?}: {summary}");
            }
            // The other programs may end before any page is written to the disk.
            if ["python3", "sqlite3"].contains(&program[0]) {
                assert!(
                    summary["far_written_bytes"].as_u64() > Some(1 << 20),
                    "{program:?} used no far memory: {summary}"
                );
            }
        }
    }
    assert_eq!(setup.remains(), "");
}

/// Fills 48 MiB in two threads, twice, and prints a checksum over the pages in another order.
const C: &str = r#"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
enum { WORDS = 6 << 20, PAGE = 512, PAGES = WORDS / PAGE, STEP = 4099 };
static uint64_t *words;
static void *fill(void *half) {
    uint64_t from = (uint64_t)half * (WORDS / 2), state = from + 1;
    for (int round = 0; round < 2; round++)
        for (uint64_t i = from; i < from + WORDS / 2; i++)
            words[i] = words[i] * 3 + (state = state * 6364136223846793005ULL + 1442695040888963407ULL);
    return NULL;
}
int main(void) {
    pthread_t threads[2];
    words = calloc(WORDS, sizeof *words);
    for (uintptr_t half = 0; half < 2; half++) pthread_create(&threads[half], NULL, fill, (void *)half);
    for (int half = 0; half < 2; half++) pthread_join(threads[half], NULL);
    uint64_t sum = 0;
    for (uint64_t page = 0; page < PAGES; page++)
        for (uint64_t i = 0; i < PAGE; i++) sum = sum * 31 + words[page * STEP % PAGES * PAGE + i];
    printf("%016llx\n", (unsigned long long)sum);
}
"#;

/// The same size with garbage collection, which runs while the live memory is swapped out.
const GO: &str = r#"
package main

import "fmt"

func main() {
	var kept [][]uint64
	state := uint64(1)
	for i := 0; i < 1024; i++ {
		block := make([]uint64, 8192)
		for j := range block {
			state = state*6364136223846793005 + 1442695040888963407
			block[j] = state
		}
		if i%2 == 0 {
			kept = append(kept, block)
		}
	}
	sum := uint64(0)
	for i := range kept {
		for _, word := range kept[len(kept)-1-i] {
			sum = sum*31 + word
		}
	}
	fmt.Printf("%016x\n", sum)
}
"#;

const JAVA: &str = r#"
import java.util.ArrayList;

public class Kept {
    public static void main(String[] words) {
        ArrayList<long[]> kept = new ArrayList<>();
        long state = 1;
        for (int i = 0; i < 1024; i++) {
            long[] block = new long[8192];
            for (int j = 0; j < block.length; j++) block[j] = state = state * 6364136223846793005L + 1442695040888963407L;
            if (i % 2 == 0) kept.add(block);
        }
        long sum = 0;
        for (int i = kept.size() - 1; i >= 0; i--) for (long word : kept.get(i)) sum = sum * 31 + word;
        System.out.printf("%016x%n", sum);
    }
}
"#;

/// File name, source, and the compiler with its arguments.
type Source<'a> = (&'a str, &'a str, &'a [&'a str]);

/// Compiles a program in a directory; the error is the reason if that fails.
fn compile(dir: &Path, (name, source, compiler): Source) -> Result<(), String> {
    if !installed(compiler[0]) {
        return Err(format!("{} is not installed", compiler[0]));
    }
    std::fs::write(dir.join(name), source).expect("the disk has space");
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).arg(name).current_dir(dir).env("GOCACHE", dir.join("go")).env("GOFLAGS", "-mod=mod");
    let output = command.output().expect("the compiler starts");
    if output.status.success() { Ok(()) } else { Err(text(&output.stderr)) }
}

/// Whichever runtime manages the memory, and however the program was linked.
#[test]
fn compiled_and_collected_programs_lose_no_data() {
    const TEST: &str = "compiled_and_collected_programs_lose_no_data";
    let Some(setup) = Setup::new(TEST) else { return };
    let dir = setup.0.path();
    let at = |name: &str| dir.join(name).display().to_string();
    let run_java = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", &at("."), "Kept"].map(String::from).to_vec();
    let kinds: [(Source, &str, Vec<String>); 4] = [
        (("dynamic.c", C, &["gcc", "-O1", "-pthread", "-o", "dynamic"]), "24MiB", vec![at("dynamic")]),
        (("static.c", C, &["gcc", "-O1", "-pthread", "-static", "-o", "static"]), "24MiB", vec![at("static")]),
        (("kept.go", GO, &["go", "build", "-o", "kept"]), "24MiB", vec![at("kept")]),
        (("Kept.java", JAVA, &["javac"]), "48MiB", run_java),
    ];
    for (source, dram, program) in kinds {
        if let Err(reason) = compile(dir, source) {
            println!("skipped: {TEST}: {}: {reason}", source.0);
            continue;
        }
        let program: Vec<&str> = program.iter().map(String::as_str).collect();
        let plain = Command::new(program[0]).args(&program[1..]).output().expect("the program starts");
        assert!(plain.status.success() && plain.stdout.len() == 17, "{}: {}", source.0, text(&plain.stderr));
        let summary = at("summary.json");
        let expanded = setup.run(&["--dram", dram, "--summary", &summary], &program);
        assert!(expanded.status.success(), "{}: {}", source.0, text(&expanded.stderr));
        assert_eq!(text(&expanded.stdout), text(&plain.stdout), "{}", source.0);
        let summary = read_summary(Path::new(&summary));
        assert!(summary["far_written_bytes"].as_u64() > Some(1 << 20), "{} used no far memory: {summary}", source.0);
    }
    assert_eq!(setup.remains(), "");
}

/// A compiler allocates many small blocks, never frees them, and runs several processes.
#[test]
fn compiler_output_is_unchanged() {
    let Some(setup) = Setup::new("compiler_output_is_unchanged") else { return };
    if !installed("gcc") {
        return println!("skipped: compiler_output_is_unchanged: gcc is not installed");
    }
    let path = setup.0.path().join("many.c");
    let one = |at: u32| {
        format!(
            "int f{at}(int *a, int n) {{ int s = {at}; for (int i = 0; i < n; i++) s += a[i] * {at} ^ s >> 3; return s; }}\n"
        )
    };
    std::fs::write(&path, (0..3000).map(one).collect::<String>()).expect("the disk has space");
    let program = ["gcc", "-O1", "-S", "-o", "-", path.to_str().expect("plain text")];
    let plain = Command::new("gcc").args(&program[1..]).output().expect("the program starts");
    let expanded = setup.run(&["--dram", "24MiB"], &program);
    assert!(expanded.status.success(), "{}", text(&expanded.stderr));
    assert!(!plain.stdout.is_empty() && expanded.stdout == plain.stdout);
    assert_eq!(setup.remains(), "");
}

/// stress-ng verifies the memory that it maps, remaps, grows, forks and unmaps.
#[test]
fn stress_ng_verifies_its_memory() {
    let Some(setup) = Setup::new("stress_ng_verifies_its_memory") else { return };
    if !installed("stress-ng") {
        return println!("skipped: stress_ng_verifies_its_memory: stress-ng is not installed");
    }
    let seconds = std::env::var("NEARFAR_SOAK").ok().and_then(|text| text.parse::<u32>().ok()).unwrap_or(2);
    let time = format!("{seconds}s");
    let stressors: [&[&str]; 5] = [
        &["--vm", "2", "--vm-bytes", "96M", "--vm-method", "all"],
        &["--mremap", "1", "--mremap-bytes", "64M"],
        &["--brk", "1"],
        &["--stack", "1", "--stack-fill"],
        &["--fork", "2", "--fork-vm"],
    ];
    for stressor in stressors {
        let program = [&["stress-ng", "--verify", "--oomable", "-t", &time], stressor].concat();
        let output = setup.run(&["--dram", "48MiB"], &program);
        let output_text = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{stressor:?}: {output_text}");
        assert!(!output_text.contains("fail:"), "{stressor:?}: {output_text}");
    }
    assert_eq!(setup.remains(), "");
}
