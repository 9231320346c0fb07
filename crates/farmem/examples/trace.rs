//! Prints a trace of `nearfar expand --trace`: `cargo run -p farmem --example trace -- show FILE`. Or shortens it:
//! `... -- thin FROM TO FIRST COUNT [PROCESS]` keeps COUNT faults starting with FIRST, of PROCESS if given, and the
//! polls between them.

use std::collections::BTreeMap;
use std::process::ExitCode;

use farmem::trace::{Decoder, Encoder, Record};

type Error = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["show", from] => show(from),
        ["thin", from, to, first, count] => thin(from, to, first, count, None),
        ["thin", from, to, first, count, process] => thin(from, to, first, count, Some(process)),
        _ => Err("usage: trace show FILE | trace thin FROM TO FIRST COUNT [PROCESS]".into()),
    };
    done.map_or_else(
        |error| {
            eprintln!("trace: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn show(from: &str) -> Result<(), Error> {
    let bytes = std::fs::read(from)?;
    let decoder = Decoder::begin(&bytes)?;
    println!("{:?}", decoder.header);
    let mut faults: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for record in decoder {
        let record = record?;
        if let Record::Fault(fault) = &record {
            let (major, all) = faults.entry(fault.process).or_default();
            (*major, *all) = (*major + u64::from(fault.major), *all + 1);
        }
        println!("{record:x?}");
    }
    for (process, (major, all)) in faults {
        println!("process {process}: {all} faults, {major} of them major");
    }
    Ok(())
}

fn thin(from: &str, to: &str, first: &str, count: &str, process: Option<&str>) -> Result<(), Error> {
    let bytes = std::fs::read(from)?;
    let (first, count): (u64, u64) = (first.parse()?, count.parse()?);
    let process: Option<u32> = process.map(str::parse).transpose()?;
    let decoder = Decoder::begin(&bytes)?;
    let mut kept = Vec::new();
    let mut encoder = Encoder::begin(&decoder.header, &mut kept);
    let (mut at, mut poll) = (0, None);
    for record in decoder {
        match record? {
            Record::Fault(fault) if process.is_none_or(|process| process == fault.process) => {
                if (first..first.saturating_add(count)).contains(&at) {
                    // A poll is kept only if a kept fault follows it.
                    poll.take().into_iter().for_each(|poll| encoder.add(&poll, &mut kept));
                    encoder.add(&Record::Fault(fault), &mut kept);
                }
                at += 1;
            }
            Record::Look { now, headroom } => poll = Some(Record::Look { now, headroom }),
            _ => {}
        }
    }
    std::fs::write(to, &kept)?;
    println!("{at} faults, {} bytes kept", kept.len());
    Ok(())
}
