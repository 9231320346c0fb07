//! Generates a small C program with a configurable number of files, identical on every machine, for machines without
//! kernel sources. It is NOT a kernel, and its results are not comparable with those of one: all files are similar,
//! there are no large headers, and there is little to link.
//!
//! Each file has functions with loops, branches and tables that the compiler must analyse. The program prints a number
//! that is also computed here, so an incomplete build is detected.

use std::fmt::Write as _;
use std::path::Path;

use crate::job::Failure;
use crate::random::Random;
use crate::scratch::io_failure;

const FUNCTIONS: usize = 12;
const TABLE: usize = 32;
const ROUNDS: u64 = 5;

const MAKEFILE: &str = "\
# Made by nearfar. Not a kernel. SOURCE is this folder; objects are made in the folder where make runs.
VPATH = $(SOURCE)
CFLAGS = -O2 -Wall
OBJECTS = $(sort $(patsubst $(SOURCE)/%.c,%.o,$(wildcard $(SOURCE)/*.c)))
program: $(OBJECTS)
\t$(CC) -o $@ $(OBJECTS)
%.o: %.c small.h
\t$(CC) $(CFLAGS) -I$(SOURCE) -c -o $@ $<
";

/// Constants of one function.
struct Function {
    factor: u64,
    addend: u64,
    shift: u32,
    branches: [u64; 4],
    table: [u64; TABLE],
}

impl Function {
    fn of(random: &mut Random) -> Self {
        Self {
            factor: random.next() | 1,
            addend: random.next(),
            shift: 7 + random.below(40) as u32,
            branches: std::array::from_fn(|_| random.next()),
            table: std::array::from_fn(|_| random.next()),
        }
    }

    /// Computes the value of the C function below.
    fn value(&self, mut x: u64) -> u64 {
        for round in 0..ROUNDS {
            x = x.wrapping_mul(self.factor).wrapping_add(self.addend);
            x ^= x >> self.shift;
            x = match x & 3 {
                0 => x.wrapping_add(self.branches[0]),
                1 => x ^ self.branches[1],
                2 => x.wrapping_sub(self.branches[2]),
                _ => x.wrapping_mul(self.branches[3] | 1),
            };
            x = self.table.iter().zip(0..).fold(x, |x, (entry, place)| {
                if (x >> place) & 1 == 1 { x.wrapping_add(entry ^ round) } else { x ^ (entry >> 3) }
            });
        }
        x
    }

    fn write(&self, name: &str, text: &mut String) -> std::fmt::Result {
        let [a, b, c, d] = self.branches;
        writeln!(text, "static const word {name}_table[{TABLE}] = {{")?;
        self.table.iter().try_for_each(|entry| writeln!(text, "    {entry:#018x}ull,"))?;
        writeln!(text, "}};\nstatic word {name}(word x)\n{{\n    for (word round = 0; round < {ROUNDS}; round++) {{")?;
        writeln!(text, "        x = x * {}ull + {}ull;\n        x ^= x >> {};", self.factor, self.addend, self.shift)?;
        writeln!(
            text,
            "        switch (x & 3) {{\n        case 0: x += {a}ull; break;\n        case 1: x ^= {b}ull; break;"
        )?;
        writeln!(text, "        case 2: x -= {c}ull; break;\n        default: x *= {}ull; break;\n        }}", d | 1)?;
        writeln!(text, "        for (int place = 0; place < {TABLE}; place++) {{")?;
        writeln!(text, "            if ((x >> place) & 1)\n                x += {name}_table[place] ^ round;")?;
        writeln!(text, "            else\n                x ^= {name}_table[place] >> 3;\n        }}\n    }}")?;
        writeln!(text, "    return x;\n}}")
    }
}

/// Writes the program's main file and the given number of other files. Returns the expected output.
pub(super) fn write(folder: &Path, files: usize) -> Result<u64, Failure> {
    let mut header = String::from("typedef unsigned long long word;\n");
    let mut main = String::from("#include <stdio.h>\n#include \"small.h\"\nint main(void)\n{\n    word x = 1;\n");
    let mut value = 1;
    for file in 0..files {
        let mut random = Random::of_thread(0x5EED, file);
        let mut text = String::from("#include \"small.h\"\n");
        let mut all = format!("word file_{file}(word x)\n{{\n");
        for number in 0..FUNCTIONS {
            let function = Function::of(&mut random);
            let name = format!("function_{number}");
            function.write(&name, &mut text).expect("a text takes all");
            let _infallible = writeln!(all, "    x = {name}(x);");
            value = function.value(value);
        }
        text += &all;
        text += "    return x;\n}\n";
        let _infallible = writeln!(header, "word file_{file}(word x);");
        let _infallible = writeln!(main, "    x = file_{file}(x);");
        put(folder, &format!("file_{file}.c"), &text)?;
    }
    main += "    printf(\"%llu\\n\", x);\n    return 0;\n}\n";
    for (name, text) in [("main.c", main.as_str()), ("small.h", &header), ("Makefile", MAKEFILE)] {
        put(folder, name, text)?;
    }
    Ok(value)
}

fn put(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|error| io_failure("write", &path, &error))
}
