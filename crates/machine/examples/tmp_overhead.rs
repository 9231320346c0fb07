use machine::child::{self, Launch, Migrations};
use model::{id_set::CpuSet, placement::MemoryPolicy, units::{Bytes, Nanos}};
use std::sync::atomic::AtomicBool;
use std::time::Instant;
fn med(mut v: Vec<f64>) -> (f64, f64, f64) { v.sort_by(|a,b| a.total_cmp(b)); (v[v.len()/10], v[v.len()/2], v[v.len()*9/10]) }
fn main() {
    child::remember_original_mask();
    let argv: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    let n: usize = argv[0].to_str().unwrap().parse().unwrap();
    let argv = argv[1..].to_vec();
    let mut plain = vec![]; 
    let mut all: Vec<Vec<f64>> = vec![vec![];8];
    for _ in 0..n {
        let t = Instant::now();
        let mut c = std::process::Command::new(&argv[0]); c.args(&argv[1..]).stdin(std::process::Stdio::null());
        c.output().unwrap();
        plain.push(t.elapsed().as_secs_f64()*1e3);
        for (k, (cpus, mem)) in [("", MemoryPolicy::Kernel), ("1", MemoryPolicy::Kernel), ("1", MemoryPolicy::Bind("0".parse::<u32>().map(|n| [model::id_set::NodeId(n)].into_iter().collect()).unwrap())), ("0-1", MemoryPolicy::Kernel)].into_iter().enumerate() {
            let l = Launch { argv: argv.clone(), environment: vec![], directory: None, stdin: vec![], cpus: CpuSet::parse_list(cpus).unwrap(), memory: mem, time_limit: Nanos(60_000_000_000), output_max: Bytes(1<<20), migrations: Migrations::Sampled };
            let t = Instant::now();
            let f = child::run(&l, &AtomicBool::new(false)).unwrap();
            all[k*2].push(t.elapsed().as_secs_f64()*1e3);
            all[k*2+1].push(f.evidence.wall.seconds()*1e3);
            if n <= 3 { println!("{f:#?}"); }
        }
    }
    println!("plain Command::output p10/p50/p90 ms {:?}", med(plain));
    for (k, name) in ["unbound", "seat 1", "seat 1 bind 0", "seats 0-1"].iter().enumerate() {
        println!("{name}: run {:?}  wall {:?}", med(all[2*k].clone()), med(all[2*k+1].clone()));
    }
}
