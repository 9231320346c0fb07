//! Programs of every kind, unmodified, with a part of the DRAM that they need: their output is the same as with all of it.
//!
//! `NEARFAR_SOAK=60 cargo test -p nearfar --test expand -- stress` gives each stressor so many seconds (`make soak`).

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::{Place, installed, text};

/// What `--summary` wrote.
fn told(path: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("it is written")).expect("JSON")
}

/// The same bytes with a quarter of the memory as with all of it.
#[test]
fn programs_lose_nothing() {
    let Some(place) = Place::new("programs_lose_nothing") else { return };
    let lines = place.0.path().join("lines");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&lines).expect("a file"));
    let mut state = 1_u64;
    for _ in 0..600_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        writeln!(file, "{state:020} {:x}", state.rotate_left(17)).expect("the disk has room");
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
            println!("skipped: programs_lose_nothing: {} is not installed", program[0]);
            continue;
        }
        let plain = Command::new(program[0]).args(&program[1..]).output().expect("it is installed");
        for engine in ["steered", "plain"] {
            let summary = place.0.path().join("summary.json");
            // No power of two: no share of it is whole pages by itself.
            let flags = ["--dram", "25001KiB", "--engine", engine, "--summary", summary.to_str().expect("plain text")];
            let expanded = place.run(&flags, program);
            if engine == "plain" && text(&expanded.stderr).contains("the Linux kernel killed") {
                println!(
                    "skipped: programs_lose_nothing: {}: the kernel's own swap ended it, which it may",
                    program[0]
                );
                continue;
            }
            assert!(expanded.status.success(), "{program:?}: {}", text(&expanded.stderr));
            assert_eq!(expanded.stdout, plain.stdout, "{program:?} with engine {engine}");
            let summary = told(&summary);
            assert_eq!(summary["engine"], engine);
            if engine == "steered" {
                assert_eq!(summary["pilot"]["advice_rejected"], 0, "{program:?}: {summary}");
            }
            // The others may be over before anything has reached the disk.
            if ["python3", "sqlite3"].contains(&program[0]) {
                assert!(summary["far_written_bytes"].as_u64() > Some(1 << 20), "{program:?} went far: {summary}");
            }
        }
    }
    assert_eq!(place.left(), "");
}

/// Fills 48 MiB in two threads by a rule, twice, and prints a sum over its pages in another order.
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

/// The same size by a collected language: what is thrown away is collected while the rest is far.
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

/// How a program is made of its source: its file's name, the source, the compiler with its words.
type Recipe<'a> = (&'a str, &'a str, &'a [&'a str]);

/// Makes a program in a folder; says why it cannot.
fn make(folder: &Path, (name, source, compiler): Recipe) -> Result<(), String> {
    if !installed(compiler[0]) {
        return Err(format!("{} is not installed", compiler[0]));
    }
    std::fs::write(folder.join(name), source).expect("the disk has room");
    let mut command = Command::new(compiler[0]);
    command
        .args(&compiler[1..])
        .arg(name)
        .current_dir(folder)
        .env("GOCACHE", folder.join("go"))
        .env("GOFLAGS", "-mod=mod");
    let made = command.output().expect("it is installed");
    if made.status.success() { Ok(()) } else { Err(text(&made.stderr)) }
}

/// Whoever allocates, maps or collects it, however the program was linked.
#[test]
fn programs_of_every_kind_find_what_they_wrote() {
    const TEST: &str = "programs_of_every_kind_find_what_they_wrote";
    let Some(place) = Place::new(TEST) else { return };
    let folder = place.0.path();
    let at = |name: &str| folder.join(name).display().to_string();
    let run_java = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", &at("."), "Kept"].map(String::from).to_vec();
    let kinds: [(Recipe, &str, Vec<String>); 4] = [
        (("dynamic.c", C, &["gcc", "-O1", "-pthread", "-o", "dynamic"]), "24MiB", vec![at("dynamic")]),
        (("static.c", C, &["gcc", "-O1", "-pthread", "-static", "-o", "static"]), "24MiB", vec![at("static")]),
        (("kept.go", GO, &["go", "build", "-o", "kept"]), "24MiB", vec![at("kept")]),
        (("Kept.java", JAVA, &["javac"]), "48MiB", run_java),
    ];
    for (recipe, dram, program) in kinds {
        if let Err(why) = make(folder, recipe) {
            println!("skipped: {TEST}: {}: {why}", recipe.0);
            continue;
        }
        let program: Vec<&str> = program.iter().map(String::as_str).collect();
        let plain = Command::new(program[0]).args(&program[1..]).output().expect("it was made");
        assert!(plain.status.success() && plain.stdout.len() == 17, "{}: {}", recipe.0, text(&plain.stderr));
        let summary = at("summary.json");
        let expanded = place.run(&["--dram", dram, "--summary", &summary], &program);
        assert!(expanded.status.success(), "{}: {}", recipe.0, text(&expanded.stderr));
        assert_eq!(text(&expanded.stdout), text(&plain.stdout), "{}", recipe.0);
        let summary = told(Path::new(&summary));
        assert!(summary["far_written_bytes"].as_u64() > Some(1 << 20), "{} went far: {summary}", recipe.0);
    }
    assert_eq!(place.left(), "");
}

/// A compiler: many small pieces of memory, never given back, and several processes.
#[test]
fn a_compiler_writes_the_same() {
    let Some(place) = Place::new("a_compiler_writes_the_same") else { return };
    if !installed("gcc") {
        return println!("skipped: a_compiler_writes_the_same: gcc is not installed");
    }
    let path = place.0.path().join("many.c");
    let one = |at: u32| {
        format!(
            "int f{at}(int *a, int n) {{ int s = {at}; for (int i = 0; i < n; i++) s += a[i] * {at} ^ s >> 3; return s; }}\n"
        )
    };
    std::fs::write(&path, (0..3000).map(one).collect::<String>()).expect("the disk has room");
    let program = ["gcc", "-O1", "-S", "-o", "-", path.to_str().expect("plain text")];
    let plain = Command::new("gcc").args(&program[1..]).output().expect("it is installed");
    let expanded = place.run(&["--dram", "24MiB"], &program);
    assert!(expanded.status.success(), "{}", text(&expanded.stderr));
    assert!(!plain.stdout.is_empty() && expanded.stdout == plain.stdout);
    assert_eq!(place.left(), "");
}

/// stress-ng verifies what it finds in memory that it maps, remaps, grows, forks and unmaps.
#[test]
fn stress_finds_its_memory_unharmed() {
    let Some(place) = Place::new("stress_finds_its_memory_unharmed") else { return };
    if !installed("stress-ng") {
        return println!("skipped: stress_finds_its_memory_unharmed: stress-ng is not installed");
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
        let output = place.run(&["--dram", "48MiB"], &program);
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{stressor:?}: {said}");
        assert!(!said.contains("fail:"), "{stressor:?}: {said}");
    }
    assert_eq!(place.left(), "");
}
