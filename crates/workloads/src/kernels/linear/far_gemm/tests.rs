//! Tests products of many shapes against the checks, the checks against planted errors, and invalid parameters.

use super::super::element::dot;
use super::super::random::Elements;
use super::check::{Vectors, add, check_element, zeros};
use super::pack::{PanelLayout, make};
use super::*;
use crate::kernels::{can_query_pages, check_smoke, job_for_tests};

fn job(threads: usize, pairs: &[(&str, &str)]) -> TrialContext {
    let mut job = TrialContext { threads, ..job_for_tests("far-gemm") };
    for (name, text) in pairs {
        set(&mut job, name, text);
    }
    job
}

/// Sets one parameter.
fn set(job: &mut TrialContext, name: &str, text: &str) {
    let value = describe().parameter(name).unwrap().kind.read(text, None).unwrap();
    job.parameters.0.insert(name.into(), value);
}

/// Runs a trial. Returns `None` and prints the reason if this machine does not support it.
fn run_or_skip(job: &TrialContext) -> Option<KernelOutput> {
    match run(job) {
        Ok(run_or_skip) => Some(run_or_skip),
        Err(Failure::Unavailable(reason)) => {
            println!("skipped: far-gemm: {reason}");
            None
        }
        Err(failure) => panic!("{:?} {} threads: {failure}", job.parameters, job.threads),
    }
}

#[test]
fn products_of_all_shapes_are_correct() {
    for (threads, n, precision, budget, depth) in [
        (1, "300", "fp64", "768KiB", "96"),
        (2, "300", "fp32", "512KiB", "96"),
        (3, "257", "fp64", "512KiB", "50"),
        (4, "640", "fp32", "3MiB", "640"),
        (2, "500", "fp64", "64MiB", "768"),
        (1, "1", "fp64", "64KiB", "768"),
        (7, "65", "fp32", "512KiB", "7"),
    ] {
        let job = job(threads, &[("n", n), ("precision", precision), ("budget", budget), ("depth", depth)]);
        let Some(run_or_skip) = run_or_skip(&job) else { return };
        check_smoke("far-gemm", &run_or_skip);
        assert_eq!(run_or_skip.pages.values().sum::<u64>() > 0, can_query_pages());
    }
}

#[test]
fn transferred_bytes_match_the_tiling() {
    let job = job(2, &[("n", "300"), ("budget", "768KiB"), ("depth", "96")]);
    let shape = tiling(&job.parameters, 2).unwrap();
    assert!(shape.tiles() > 1 && shape.panels() > 1, "{shape:?}");
    let Some(run_or_skip) = run_or_skip(&job) else { return };
    let sample = |series: &str| run_or_skip.samples.iter().find(|sample| sample.series == series).unwrap().value * 1e6;
    let products = shape.tiles().pow(2) * shape.panels();
    let read = (products * (shape.a_bytes() + shape.b_bytes())) as f64;
    let panels = shape.tiles() * shape.panels() * (shape.a_bytes() + shape.b_bytes());
    assert!((sample("read") - read).abs() < 1.0, "{} {read}", sample("read"));
    // C is written once, and nothing else is written.
    let written = (shape.far_bytes() - panels) as f64;
    assert!((sample("written") - written).abs() < 1.0, "{} {written}", sample("written"));
}

#[test]
fn invalid_parameters_and_missing_space_return_errors() {
    let parameters = job(1, &[("n", "5000"), ("budget", "1MiB"), ("depth", "768")]).parameters;
    let reason = check(&parameters).unwrap_err();
    assert!(reason.contains("needs 1.4MiB") && reason.contains("hint: "), "{reason}");

    let cases = [
        (job(1, &[("n", "3000000"), ("budget", "512MiB")]), "n = 3000000: "),
        (job(1, &[("directory", "/nowhere")]), "cannot open directory /nowhere: No such file"),
        (job(1, &[("n", "2000"), ("budget", "1TiB"), ("directory", "/nowhere")]), "/nowhere"),
    ];
    for (job, expected) in cases {
        match run(&job).unwrap_err() {
            Failure::Unavailable(reason) if reason.contains("libopenblas0-pthread") => {
                return println!("skipped: {reason}");
            }
            Failure::Unavailable(reason) => assert!(reason.contains(expected) && reason.contains("hint: "), "{reason}"),
            failure => panic!("{failure}"),
        }
    }
    if let Err(Failure::Unavailable(reason)) = run(&job(1, &[("directory", "/dev/shm")])) {
        let known = ["is in memory (tmpfs)", "No such file", "io_uring"];
        assert!(known.iter().any(|words| reason.contains(words)), "{reason}");
    }
}

#[test]
fn wrong_element_in_the_file_returns_an_error() {
    let n = 100;
    let (a, b) = (Elements::new(5, 'a'), Elements::new(5, 'b'));
    let exact = |row: usize, column: usize| dot((0..n).map(|inner| (a.at(row, inner), b.at(inner, column)))).0;
    for (row, column) in [(0, 0), (3, 99), (99, 0), (50, 50)] {
        let right = exact(row, column);
        assert_eq!(check_element::<f64>(n, 5, row, column, right), Ok(()));
        for wrong in [right + 1e-11, 0.0, -right, f64::NAN] {
            assert!(check_element::<f64>(n, 5, row, column, wrong).is_err(), "{row} {column} {wrong}");
        }
    }
    // Freivalds: all of C, then one element that is wrong by more than rounding.
    let sums = Sums::new(n, 5);
    let times = |matrix: &dyn Fn(usize, usize) -> f64, vectors: &Vectors| -> Vectors {
        std::array::from_fn(|index| {
            (0..n).map(|row| (0..n).map(|column| matrix(row, column) * vectors[index][column]).sum()).collect()
        })
    };
    let br = times(&|row, column| b.at(row, column), &sums.r);
    add(&sums.abr, &times(&|row, column| a.at(row, column), &br));
    add(&sums.cr, &times(&exact, &sums.r));
    assert_eq!(compare::<f64>(&sums, n), Ok(()));
    for (row, off) in [(0, 1e-12), (99, 1.0), (7, f64::NAN)] {
        let before = sums.cr.lock().unwrap()[2][row];
        sums.cr.lock().unwrap()[2][row] += off;
        assert!(compare::<f64>(&sums, n).is_err(), "{row} {off}");
        sums.cr.lock().unwrap()[2][row] = before;
    }
}

#[test]
fn generated_panels_form_the_matrix_for_any_tiling() {
    let n = 50;
    let elements = Elements::new(3, 'b');
    let place = PanelLayout { rows: 10..30, columns: 40..50, stride: 24 };
    let vectors: Vectors = std::array::from_fn(|index| vec![1.0 + index as f64; n]);
    let made = |cuts: &[usize]| {
        let (mut values, mut sums) = (vec![9.0_f64; 24 * 12], zeros(n));
        for ends in cuts.windows(2) {
            make(&mut values[ends[0]..ends[1]], ends[0], &place, elements, &vectors, &mut sums);
        }
        (values, sums)
    };
    let (values, sums) = made(&[0, 24 * 12]);
    for (index, value) in values.iter().enumerate() {
        let (row, column) = (index % 24, index / 24);
        let expected = if row < 20 && column < 10 { elements.at(10 + row, 40 + column) } else { 0.0 };
        assert_eq!(value.to_bits(), expected.to_bits(), "{row} {column}");
    }
    let (again, parts) = made(&[0, 7, 24, 100, 24 * 12]);
    assert_eq!(again, values);
    let near = sums.iter().flatten().zip(parts.iter().flatten()).all(|(one, other)| (one - other).abs() < 1e-12);
    assert!(near && sums[1][10].abs() > 0.0 && sums[0][9].abs() < 1e-300);
}
