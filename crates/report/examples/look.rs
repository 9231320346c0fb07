//! temporary
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let t: model::topology::Topology = serde_json::from_str(&std::fs::read_to_string(&a[2]).unwrap()).unwrap();
    let look = report::Look { width: a.get(3).map_or(80, |w| w.parse().unwrap()), ascii: a.len() > 4, colour: false };
    match a[1].as_str() {
        "text" => print!("{}", report::map::text(&t, None, &look)),
        "numactl" => print!("{}", report::map::numactl(&t, None)),
        "svg" => print!("{}", report::map::svg(&t, None)),
        _ => println!("{}", report::map::json(&t, None)),
    }
}
