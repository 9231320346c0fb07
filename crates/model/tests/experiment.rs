//! Parses experiment files: plans on captured machines, and errors with position and valid choices.

mod machines;

use model::hint::Hinted;
use std::fmt::Write;

use machines::model;
use model::analysis::finding::summarise;
use model::experiments::experiment::{Experiment, PlanError, PlanOptions, SingleWorkload, parse};
use model::placements::placement::KernelFeatures;
use model::values::plan::Plan;
use model::values::record::TrialRecord;
use model::values::trial::{Evidence, Grade, Role, Sample, TrialOutcome, Verdict};
use model::values::units::{Bytes, Nanos};
use model::values::workload::{
    Better, MetricSpec, ParameterKind, ParameterSpec, Parameters, Reduce, Value, WorkloadSpec,
};
use proptest::prelude::*;

const RYZEN: &str = "ryzen5-2600";
const XEON: &str = "xeon-e5-2640-x2";
const RK3399: &str = "rk3399";

fn parameter(name: &str, kind: ParameterKind, default: Option<&str>, smoke: Option<&str>) -> ParameterSpec {
    let about = format!("what {name} is");
    ParameterSpec { name: name.into(), about, kind, default: default.map(Into::into), smoke: smoke.map(Into::into) }
}

fn workload(name: &str, threads_exactly: Option<usize>, parameters: Vec<ParameterSpec>) -> WorkloadSpec {
    WorkloadSpec {
        name: name.into(),
        summary: format!("how fast {name} is"),
        about: String::new(),
        parameters,
        metrics: Vec::new(),
        threads_exactly,
        trial_time_guess: Nanos(1_000_000_000),
    }
}

fn specs() -> Vec<WorkloadSpec> {
    let size = ParameterKind::Size { min: Bytes(1024), max: Bytes(1 << 40) };
    let time = ParameterKind::Time { min: Nanos(1_000_000), max: Nanos(60_000_000_000) };
    let choice = ParameterKind::Choice(vec!["copy".into(), "triad".into()]);
    vec![
        workload(
            "stream",
            None,
            vec![
                parameter("size", size, Some("4xllc"), Some("1MiB")),
                parameter("kernel", choice, Some("triad"), None),
                parameter("non-temporal", ParameterKind::Switch, Some("false"), None),
            ],
        ),
        workload("pingpong", Some(2), vec![parameter("time", time, Some("1s"), Some("10ms"))]),
        workload(
            "queens",
            None,
            vec![parameter("n", ParameterKind::Integer { min: 1, max: 20 }, Some("12"), Some("6"))],
        ),
        workload("command", None, vec![parameter("argv", ParameterKind::Text, None, Some("[\"true\"]"))]),
        workload("nothing", None, Vec::new()),
    ]
}

const HEAD: &str = "name = \"e\"\nquestion = \"q\"\n";

fn read(text: &str) -> Experiment {
    parse(text, "e.toml", &specs()).unwrap_or_else(|error| panic!("{error}"))
}

fn options(smoke: bool) -> PlanOptions<'static> {
    PlanOptions { smoke, kernel: KernelFeatures { weighted_interleave: true, far: true }, devices: &[], missing: None }
}

/// Text after the two lines of the head, and beginning of the error after the file name.
const WRONG: &[(&str, &str)] = &[
    ("", "1:1: the experiment has no [[workload]]\nhint: add [[workload]] with name = one of stream, pingpong"),
    ("[[workload]]\n", "3:1: [[workload]] has no name\nhint: add name = one of stream"),
    ("[[workload]]\nname = \"strem\"", "4:8: unknown workload 'strem'\nhint: the workloads are stream, "),
    ("[[workload]]\nname = 5", "4:8: name = 5: expected a text in quotes, not a whole number"),
    (
        "[workload]\nname = \"stream\"",
        "3:1: workload = [workload]: expected one or more tables, each headed [[workload]]",
    ),
    ("[[workload]]\nname = \"stream\"\nthread = [1]", "5:1: [[workload]] has no key 'thread'\nhint: the keys are "),
    (
        "[[workload]]\nname = \"stream\"\nmain = \"rate\"",
        "5:8: workload stream has no metric 'rate'\nhint: the metrics are ",
    ),
    ("[[workload]]\nname = \"stream\"\nmean = \"no\"", "5:8: mean = \"no\": expected true or false, not a text"),
    (
        "[[workload]]\nname = \"stream\"\n[[efficiency]]\ncells = { test = \"strem\" }\nreference = {}",
        "6:18: no [[workload]] has the test 'strem'\nhint: they are stream",
    ),
    (
        "[[workload]]\nname = \"stream\"\n[[efficiency]]\ncells = { sise = 1 }\nreference = {}",
        "6:11: no workload has a parameter 'sise'\nhint: the keys are size, ",
    ),
    (
        "[[workload]]\nname = \"stream\"\n[[efficiency]]\ncells = { size = \"next smaller\" }\nreference = {}",
        "6:11: 'next smaller' is only a value of the reference",
    ),
    (
        "[[workload]]\nname = \"stream\"\n[[efficiency]]\ncells = { test = \"stream\" }",
        "5:1: [[efficiency]] has no reference\nhint: reference = { test = ",
    ),
    ("colour = 1", "3:1: an experiment has no key 'colour'\nhint: the keys are "),
    ("[repeat]\nmim = 3", "4:1: [repeat] has no key 'mim'\nhint: the keys are "),
    ("[repeat]\nmin = \"3\"", "4:7: min = \"3\": expected a whole number from 1 to 100000, without quotes"),
    ("[repeat]\nmin = 0", "4:7: min = 0: expected a whole number from 1 to 100000, without quotes"),
    ("[repeat]\nmin = -1", "4:7: min = -1: expected a whole number from 1 to 100000, without quotes"),
    ("[repeat]\nmin = 9\nmax = 3", "4:7: min = 9 is greater than max = 3"),
    ("[repeat]\nprecision = 0.02", "4:13: precision = 0.02: expected a text in quotes, not a number"),
    (
        "[repeat]\nprecision = \"2\"",
        "4:13: precision: '2' is not a percentage between 0% and 100%\nhint: use the form \"2%\"",
    ),
    (
        "[repeat]\nprecision = \"0%\"",
        "4:13: precision: '0%' is not a percentage between 0% and 100%\nhint: use the form \"2%\"",
    ),
    ("[repeat]\nbudget = \"2MiB\"", "4:10: budget: '2MiB' is not a duration; use the form 5s, 250ms or 10m"),
    ("[repeat]\nbudget = 120", "4:10: budget = 120: expected a text in quotes, not a whole number"),
    ("[repeat]\ntime_limit = \"0s\"", "4:14: time_limit: the duration must be greater than zero"),
    ("repeat = 3", "3:10: repeat = 3: expected a table: [repeat]"),
    (
        "[[workload]]\nname = \"stream\"\nset = { sise = 3 }",
        "5:9: workload stream has no parameter 'sise'\nhint: the parameters are size, ",
    ),
    (
        "[[workload]]\nname = \"nothing\"\nset = { x = 3 }",
        "5:9: workload nothing has no parameter 'x'\nhint: this workload has no parameters",
    ),
    (
        "[[workload]]\nname = \"stream\"\nset = { size = \"5s\" }",
        "5:16: parameter size of workload stream: '5s' is not a size; use the form 64KiB, 1GiB or 4096",
    ),
    (
        "[[workload]]\nname = \"stream\"\nset = { size = [\"1MiB\", \"1B\"] }",
        "5:25: parameter size of workload stream: 1B is out of range 1KiB to 1TiB",
    ),
    (
        "[[workload]]\nname = \"stream\"\nset = { size = \"bigxllc\" }",
        "5:16: parameter size of workload stream: 'bigxllc' is not a multiple of the last-level cache; use the form 4xllc",
    ),
    (
        "[[workload]]\nname = \"stream\"\nset = { kernel = \"scale\" }",
        "5:18: parameter kernel of workload stream: 'scale' is not one of copy, triad",
    ),
    ("[[workload]]\nname = \"stream\"\nset = { size = [] }", "5:16: the list of size is empty"),
    (
        "[[workload]]\nname = \"stream\"\nset = { size = [[1]] }",
        "5:17: size = [1]: expected a text, a number, true or false, not a list",
    ),
    (
        "[[workload]]\nname = \"pingpong\"\nset = { time = \"64KiB\" }",
        "5:16: parameter time of workload pingpong: '64KiB' is not a duration; use the form 5s, 250ms or 10m",
    ),
    (
        "[[workload]]\nname = \"queens\"\nset = { n = 99999999999999999999999 }",
        "5:13: parameter n of workload queens: '99999999999999999999999' is not a whole number from 1 to 20",
    ),
    (
        "[[workload]]\nname = \"command\"",
        "3:1: workload command requires the parameter argv\nhint: add set = { argv = ... }: what argv is",
    ),
    (
        "[[workload]]\nname = \"stream\"\nplacements = [\"kernel\", \"compat\"]",
        "5:25: unknown placement 'compat'; valid names: compact, ",
    ),
    ("[[workload]]\nname = \"stream\"\nplacements = [\"-Q 3\"]", "5:15: '-Q' is not one of numactl's options"),
    ("[[workload]]\nname = \"stream\"\nplacements = []", "5:14: the list of placements is empty"),
    (
        "[[workload]]\nname = \"stream\"\nthreads = [1, \"many\"]",
        "5:15: 'many' is not a thread count\nhint: a number from 1 to 65536, \"all\", \"cores\", \"l3\", \"l3-cpus\", \"node-cores\" or \"devices\"",
    ),
    (
        "[[workload]]\nname = \"stream\"\nthreads = 0",
        "5:11: '0' is not a thread count\nhint: a number from 1 to 65536, \"all\", \"cores\", \"l3\", \"l3-cpus\", \"node-cores\" or \"devices\"",
    ),
    (
        "[[workload]]\nname = \"pingpong\"\nthreads = [2, 4]",
        "5:15: workload pingpong requires exactly 2 threads, not 4",
    ),
    ("[[workload]]\nname = \"stream\"\nlabel = \"\"", "5:9: label is empty"),
    (
        "[[workload]]\nname = \"stream\"\n[[workload]]\nname = \"queens\"\nlabel = \"stream\"",
        "7:9: the label 'stream' is already used for workload stream\nhint: add a different label to this workload",
    ),
    (
        "[compare]\nby = \"hots\"\n[[workload]]\nname = \"stream\"",
        "4:6: cannot compare by 'hots'\nhint: placement, threads, host, kernel, boot, run, set.PARAMETER, or a recorded fact such as kernel.release",
    ),
    (
        "[compare]\nby = \"set.sise\"\n[[workload]]\nname = \"stream\"",
        "4:6: no workload has a parameter 'sise'; the parameters are ",
    ),
    (
        "[compare]\nbaseline = \"kernal\"\n[[workload]]\nname = \"stream\"\nplacements = [\"compact\", \"kernel\"]",
        "4:12: baseline 'kernal' is not a column of a comparison by placement\nhint: the columns are kernel, compact",
    ),
    ("[compare]\nwith = 1\n[[workload]]\nname = \"stream\"", "4:1: [compare] has no key 'with'"),
    ("name = \"again\"", "3:1: not TOML: duplicate key"),
    ("x = \u{e9}", "3:5: not TOML: "),
    ("[[workload]\nname = 1", "3:12: not TOML: "),
];

#[test]
fn experiment_errors_contain_position_and_choices() {
    for (text, expected) in WRONG {
        let error = parse(&format!("{HEAD}{text}"), "e.toml", &specs()).unwrap_err().text_with_hint();
        assert!(error.starts_with(&format!("e.toml:{expected}")), "{text}\n--- got\n{error}\n--- expected\n{expected}");
    }
    let heads = [
        ("", "1:1: an experiment has no name\nhint: add name = \"short-name\""),
        ("name = \"a\"", "1:1: an experiment has no question\nhint: add question = "),
        ("name = \" \"\nquestion = \"\"", "1:8: name is empty\nhint: write name = "),
    ];
    for (text, expected) in heads {
        let error = parse(text, "e.toml", &specs()).unwrap_err().text_with_hint();
        assert!(error.starts_with(&format!("e.toml:{expected}")), "{text}\n{error}");
    }
}

#[test]
fn experiment_columns_are_counted_in_characters() {
    let error = parse("name = \"\u{e9}\u{e9}\u{e9}\"; x", "e.toml", &specs()).unwrap_err();
    assert_eq!((error.line, error.column), (1, 13));
}

#[test]
fn experiment_defaults_fill_missing_keys() {
    let short = read(&format!("{HEAD}[[workload]]\nname = \"stream\"\nplacements = \"compact\"\nthreads = 4"));
    insta::assert_json_snapshot!("short", short);
    // If only `min` is given, `max` keeps its default unless `min` is greater.
    assert_eq!(read(&format!("{HEAD}[repeat]\nmin = 2\n[[workload]]\nname = \"stream\"")).repeat.max, 20);
    assert_eq!(read(&format!("{HEAD}[repeat]\nmin = 50\n[[workload]]\nname = \"stream\"")).repeat.max, 50);
    for by in ["host", "kernel", "boot", "threads", "set.size", "kernel.release"] {
        let text = format!("{HEAD}[compare]\nby = \"{by}\"\nbaseline = \"x\"\n[[workload]]\nname = \"stream\"");
        assert_eq!(read(&text).compare_by, by);
    }
}

#[test]
fn unmeasured_boots_are_listed() {
    let text = format!("boots = [\"numa=fake=4\", \"numa=fake=8 policy=x\"]\n{HEAD}[[workload]]\nname = \"stream\"");
    let experiment = read(&text);
    let (plain, four, eight) = ("quiet", "quiet numa=fake=4", "numa=fake=8 policy=x quiet");
    assert_eq!(experiment.unmeasured_boots(&[]), ["", "numa=fake=4", "numa=fake=8 policy=x"]);
    assert_eq!(experiment.unmeasured_boots(&[plain]), ["numa=fake=4", "numa=fake=8 policy=x"]);
    assert_eq!(
        experiment.unmeasured_boots(&[four, "numa=fake=8"]),
        ["numa=fake=8 policy=x"],
        "a boot with only some of the parameters counts as a plain boot"
    );
    assert_eq!(experiment.unmeasured_boots(&[plain, four, eight]), [""; 0]);
    let none = read(&format!("{HEAD}[[workload]]\nname = \"stream\""));
    assert_eq!(none.unmeasured_boots(&[]), [""; 0]);
}

/// Cells and skipped cells, one per line.
fn listing(plan: &Plan) -> String {
    let mut text = String::new();
    for cell in &plan.cells {
        writeln!(text, "{} | {}", cell.test, cell.key).expect("infallible");
    }
    for skip in &plan.skipped {
        writeln!(text, "- {} @ {}: {}", skip.test, skip.placement, skip.why).expect("infallible");
    }
    writeln!(text, "by {} against {:?}, {:?}", plan.compare_by, plan.baseline, plan.repeat).expect("infallible");
    let names: Vec<&str> = plan.workloads.iter().map(|spec| spec.name.as_str()).collect();
    writeln!(text, "{}: {} [{}]", plan.experiment, plan.question, names.join(", ")).expect("infallible");
    text
}

const STUDY: &str = r#"
name = "study"
question = "Does it matter here?"

[repeat]
warmup = 2
min = 5
max = 30
precision = "1.5%"
budget = "2m"
time_limit = "30s"

[compare]
by = "placement"
baseline = "spread"

[[workload]]
name = "stream"
set = { size = "4xllc", non-temporal = [false, true] }
placements = ["kernel", "compact", "spread", "memory-remote", "-C 0-11"]
threads = [1, "all", "cores", "l3", "l3-cpus"]
label = "triad"

[[workload]]
name = "stream"
set = { size = ["16KiB", "1xllc"] }
placements = ["kernel", "one-core"]
threads = [1]

[[workload]]
name = "pingpong"
placements = ["kernel", "smt-pairs", "cores-across-l3", "big"]
threads = ["all", 2]

[[workload]]
name = "pingpong"
label = "pingpong-natural"
placements = ["compact", "kernel", "compact"]

[[workload]]
name = "queens"
placements = ["cores-one-l3", "smt-one-l3"]
"#;

#[test]
fn experiment_plans_on_machines() {
    let experiment = read(STUDY);
    for (name, text) in [("ryzen", RYZEN), ("xeon", XEON), ("rk3399", RK3399)] {
        for smoke in [false, true] {
            let plan = experiment.plan(&model(text), &specs(), options(smoke)).unwrap();
            insta::assert_snapshot!(format!("plan-{name}{}", if smoke { "-smoke" } else { "" }), listing(&plan));
        }
    }
}

#[test]
fn experiment_baseline_is_converted_to_its_column_name() {
    let plan = |by: &str, baseline: &str| {
        let text = format!(
            "{HEAD}[compare]\nby = \"{by}\"\nbaseline = \"{baseline}\"\n[[workload]]\nname = \"stream\"\nset = {{ size = [\"1xllc\", \"65536\"] }}\nthreads = [1, \"all\"]\nplacements = [\"kernel\", \"big\"]"
        );
        read(&text).plan(&model(RYZEN), &specs(), options(false)).unwrap().baseline
    };
    assert_eq!(plan("threads", "all").as_deref(), Some("12"));
    assert_eq!(plan("threads", "1").as_deref(), Some("1"));
    assert_eq!(plan("set.size", "1xllc").as_deref(), Some("8MiB"));
    assert_eq!(plan("set.size", "65536").as_deref(), Some("64KiB"));
    assert_eq!(plan("host", "my-board").as_deref(), Some("my-board"));
    assert_eq!(plan("placement", "kernel").as_deref(), Some("kernel"));
    assert_eq!(plan("placement", "big"), None, "this machine has no such column");
}

#[test]
fn efficiency_values_are_those_of_the_cells_of_a_machine() {
    let text = format!(
        "{HEAD}[[workload]]\nname = \"stream\"\nlabel = \"s\"\nset = {{ size = [\"1xllc\", \"65536\"] }}\n[[efficiency]]\ncells = {{ test = \"s\", size = [\"1xllc\", \"65536\"] }}\nreference = {{ placement = \"kernel\", size = \"next smaller\" }}"
    );
    let plan = read(&text).plan(&model(RYZEN), &specs(), options(false)).unwrap();
    let [rule] = plan.efficiency.as_slice() else { panic!("{:?}", plan.efficiency) };
    assert_eq!(
        (rule.cells.tests.as_slice(), rule.cells.parameters["size"].join(" ")),
        (&["s".into()][..], "8MiB 64KiB".into())
    );
    assert_eq!((rule.reference.placements.join(" "), rule.next_smaller.as_deref()), ("kernel".into(), Some("size")));
    assert!(rule.reference.parameters.is_empty() && rule.reference.tests.is_empty());
    let before =
        read(&text[..text.find("[[efficiency]]").unwrap()]).plan(&model(RYZEN), &specs(), options(false)).unwrap();
    assert_eq!(plan.key(), before.key(), "an efficiency does not affect the trials, so that a run with it resumes");
}

#[test]
fn main_metric_of_a_workload_is_that_of_its_cells() {
    let metric = |name: &str| MetricSpec {
        name: name.into(),
        unit: "MB/s".into(),
        better: Better::Higher,
        series: name.into(),
        reduce: Reduce::Median,
    };
    let mut specs = specs();
    specs[0].metrics = vec![metric("triad"), metric("add")];
    let text = |main: &str| format!("{HEAD}[[workload]]\nname = \"stream\"\n{main}");
    let plan = |main: &str| {
        let experiment = parse(&text(main), "e.toml", &specs).unwrap();
        experiment.plan(&model(RYZEN), &specs, options(false)).unwrap()
    };
    let (chosen, default) = (plan("main = \"add\""), plan(""));
    let main = |plan: &Plan| plan.main_metric(&plan.cells[0]).unwrap().name.clone();
    assert_eq!((main(&chosen), main(&default)), ("add".into(), "triad".into()));
    assert_eq!(chosen.key(), default.key(), "the same trials");
    let cell = &chosen.cells[0];
    let trial = chosen.trial("r", 1, 0, Role::Measured, 0, 0);
    let samples = [("triad", 1.0), ("add", 2.0)].map(|(series, value)| Sample { series: series.into(), value });
    let outcome = TrialOutcome::new(Ok(samples.to_vec()), Evidence::default());
    let verdict = Verdict { grade: Grade::Valid, reasons: Vec::new() };
    let finding = summarise(&chosen, &[TrialRecord { position: 0, trial, outcome, verdict }]);
    let names: Vec<&str> = finding.cells[0].metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["add", "triad"], "{} is first", cell.main.as_deref().unwrap());
}

#[test]
fn number_of_a_command_is_its_main_metric_under_its_name() {
    let mut specs = specs();
    let metric = |name: &str| MetricSpec {
        name: name.into(),
        unit: String::new(),
        better: Better::Lower,
        series: name.into(),
        reduce: Reduce::Median,
    };
    let command = specs.iter_mut().find(|spec| spec.name == "command").unwrap();
    command.metrics = ["wall", "value", "value-higher"].map(metric).into();
    command.parameters.push(parameter("metric", ParameterKind::Text, Some(""), None));
    let plan = |rest: &str| {
        let text = format!("{HEAD}[[workload]]\nname = \"command\"\n{rest}");
        parse(&text, "e.toml", &specs).unwrap().plan(&model(RYZEN), &specs, options(false)).unwrap()
    };
    let argv = "set = { argv = '[\"./app\"]', metric = '";
    let named = format!("{argv}tps (?<tps>[0-9]+)' }}");
    let main = |rest: &str| {
        let plan = plan(rest);
        plan.main_metric(&plan.cells[0]).unwrap().name.clone()
    };
    assert_eq!(main(&format!("{argv}' }}")), "wall");
    assert_eq!(main(&named), "value");
    assert_eq!(main(&format!("main = \"tps\"\n{named}")), "value");
    assert_eq!(main(&format!("main = \"wall\"\n{named}")), "wall");

    let plan = plan(&named);
    let trial = plan.trial("r", 1, 0, Role::Measured, 0, 0);
    let samples = [("wall", 1.0), ("value", 2.0)].map(|(series, value)| Sample { series: series.into(), value });
    let outcome = TrialOutcome::new(Ok(samples.to_vec()), Evidence::default());
    let verdict = Verdict { grade: Grade::Valid, reasons: Vec::new() };
    let finding = summarise(&plan, &[TrialRecord { position: 0, trial, outcome, verdict }]);
    let names: Vec<&str> = finding.cells[0].metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["tps", "wall"]);
}

#[test]
fn mean_omits_a_workload_without_affecting_its_trials() {
    let plan = |rest: &str| {
        let text = format!("{HEAD}[[workload]]\nname = \"queens\"\n{rest}");
        read(&text).plan(&model(RYZEN), &specs(), options(false)).unwrap()
    };
    let (without, with, default) = (plan("mean = false"), plan("mean = true"), plan(""));
    assert!(without.cells[0].outside_means && !with.cells[0].outside_means);
    assert_eq!((with, without.key()), (default.clone(), default.key()));
}

#[test]
fn experiment_without_a_runnable_cell_returns_the_reasons() {
    let text = format!("{HEAD}[[workload]]\nname = \"queens\"\nplacements = [\"big\", \"-C 77\", \"memory-remote\"]");
    let error = read(&text).plan(&model(RYZEN), &specs(), options(false)).unwrap_err();
    let expected = "this machine can run no cell of e: queens @ big: all cores that this process may use are of one kind; \
                    queens @ -C 77: -C: CPU 77 does not exist; this machine has 0-11; queens @ memory-remote: ";
    assert!(matches!(&error, PlanError::NothingToRun(why) if why.starts_with(expected)), "{error}");
    // Multiples of the cache size require a machine that reports it.
    let text = format!("{HEAD}[[workload]]\nname = \"stream\"");
    let mut cacheless = model(RYZEN);
    cacheless.objects.iter_mut().for_each(|object| object.cache = None);
    let error = read(&text).plan(&cacheless, &specs(), options(false)).unwrap_err();
    assert!(error.to_string().contains("does not report the size of its last-level cache"), "{error}");
    assert!(read(&text).plan(&cacheless, &specs(), options(true)).is_ok(), "the smoke size is absolute");
}

#[test]
fn workload_without_its_program_is_skipped_with_the_reason() {
    let missing = |workload: &str, parameters: &Parameters| {
        let is_it = workload == "queens" && parameters.0.get("n") == Some(&Value::Integer(9));
        is_it.then(|| "program nine is not installed".to_string())
    };
    let text = format!("{HEAD}[[workload]]\nname = \"queens\"\nset = {{ n = [8, 9] }}");
    let plan = |missing| {
        let options = PlanOptions { missing, ..options(false) };
        read(&text).plan(&model(RYZEN), &specs(), options).unwrap()
    };
    let (all, some) = (plan(None), plan(Some(missing)));
    // The names of the other tests do not depend on installed programs.
    assert_eq!(some.cells[..], all.cells[..1]);
    let skipped: Vec<(&str, &str)> = some.skipped.iter().map(|skip| (skip.test.as_str(), skip.why.as_str())).collect();
    assert_eq!(skipped, [("queens n=9", "program nine is not installed")]);
}

#[test]
fn experiment_grids_are_bounded() {
    let many: Vec<String> = (1..=300).map(|number| number.to_string()).collect();
    let text = format!(
        "{HEAD}[[workload]]\nname = \"stream\"\nset = {{ size = [{}] }}\nthreads = [{}]",
        many.iter().map(|number| format!("\"{number}KiB\"")).collect::<Vec<_>>().join(","),
        many.join(",")
    );
    let error = read(&text).plan(&model(RYZEN), &specs(), options(false)).unwrap_err();
    assert_eq!(error, PlanError::Invalid("the lists define 90000 cells; the maximum is 10000".into()));
}

fn single(workload: &str, set: &[(&str, &str)], placements: &[&str], threads: Option<usize>) -> SingleWorkload {
    SingleWorkload {
        workload: workload.into(),
        set: set.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        placements: placements.iter().map(|name| (*name).into()).collect(),
        threads,
        runs: 5,
        warmup: 1,
        time_limit: Nanos(10_000_000_000),
    }
}

#[test]
fn experiment_parameters_can_be_overridden() {
    let text = format!(
        "{HEAD}[[workload]]\nname = \"stream\"\nset = {{ size = \"1GiB\" }}\n[[workload]]\nname = \"queens\"\nset = {{ n = 8 }}"
    );
    let overridden = |pairs: &[(&str, &str)]| {
        let mut experiment = read(&text);
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect();
        experiment.override_parameters(&pairs, &specs()).map(|()| experiment)
    };
    let experiment = overridden(&[("size", "2MiB"), ("kernel", "copy"), ("size", "4MiB")]).unwrap();
    let sets: Vec<_> = experiment.tasks.iter().map(|task| format!("{:?}", task.set)).collect();
    assert_eq!(sets, ["[(\"size\", [\"2MiB\", \"4MiB\"]), (\"kernel\", [\"copy\"])]", "[(\"n\", [\"8\"])]"]);
    let kept = ["size".to_string()].into();
    let plan = experiment.plan_with(&model(RYZEN), &specs(), options(true), &kept).unwrap();
    assert_eq!(plan.cells[0].parameters.integer("size"), 2 << 20, "an explicit value replaces the smoke value");
    for (pair, expected) in [
        (("sise", "1"), "no workload of e has a parameter 'sise'; the parameters are size, "),
        (("size", "much"), "parameter size of workload stream: 'much' is not a size; use the form 64KiB, 1GiB or 4096"),
    ] {
        let error = overridden(&[pair]).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn experiment_single_makes_a_plan() {
    let request = single("stream", &[("size", "1GiB")], &["kernel", "one-core", "big"], Some(1));
    insta::assert_snapshot!("single", listing(&request.plan(&model(RYZEN), &specs(), options(false)).unwrap()));
    let explicit = request.plan(&model(RYZEN), &specs(), options(true)).unwrap();
    assert_eq!(explicit.cells[0].parameters.integer("size"), 1 << 30, "an explicit value replaces the smoke value");
    let default = single("queens", &[], &["kernel"], None).plan(&model(RYZEN), &specs(), options(true)).unwrap();
    assert_eq!(default.cells[0].parameters.integer("n"), 6);
    let twice = single("queens", &[("n", "8"), ("n", "9")], &["kernel"], None);
    let plan = twice.plan(&model(RYZEN), &specs(), options(false)).unwrap();
    assert_eq!(plan.cells.iter().map(|cell| cell.test.as_str()).collect::<Vec<_>>(), ["queens n=8", "queens n=9"]);
    let pair = single("pingpong", &[], &["kernel"], None).plan(&model(RYZEN), &specs(), options(false)).unwrap();
    assert_eq!(pair.cells[0].placement.threads, 2);
}

#[test]
fn experiment_single_returns_errors() {
    let cases = [
        (single("strem", &[], &["kernel"], None), "unknown workload 'strem'; the workloads are stream, "),
        (
            single("stream", &[("sise", "1")], &["kernel"], None),
            "workload stream has no parameter 'sise'; the parameters are size, ",
        ),
        (
            single("stream", &[("size", "5s")], &["kernel"], None),
            "parameter size of workload stream: '5s' is not a size; use the form 64KiB, 1GiB or 4096",
        ),
        (single("command", &[], &["kernel"], None), "workload command requires the parameter argv: what argv is"),
        (single("stream", &[], &["compat"], None), "unknown placement 'compat'"),
        (single("stream", &[], &["-C 99"], None), "-C: CPU 99 does not exist; this machine has 0-11"),
        (single("stream", &[], &["kernel"], Some(0)), "the number of threads must be at least 1"),
        (single("pingpong", &[], &["kernel"], Some(3)), "workload pingpong requires exactly 2 threads, not 3"),
    ];
    for (single, expected) in cases {
        let error = single.plan(&model(RYZEN), &specs(), options(false)).unwrap_err();
        assert!(matches!(&error, PlanError::Invalid(why) if why.starts_with(expected)), "{error}");
    }
    let error = single("stream", &[], &["big"], None).plan(&model(RYZEN), &specs(), options(false)).unwrap_err();
    assert!(matches!(error, PlanError::NothingToRun(_)), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A file with a few changed characters is parsed, or the error has a position inside the file.
    #[test]
    fn experiment_damaged_files_are_parsed_or_rejected(
        at in 0..STUDY.len(), length in 0usize..12, inserted in "[\\[\\]{}=\",.a-z0-9\n-]{0,4}"
    ) {
        let end = (at + length).min(STUDY.len());
        let text = format!("{}{inserted}{}", &STUDY[..at], &STUDY[end..]);
        match parse(&text, "e.toml", &specs()) {
            Ok(experiment) => {
                let _ = experiment.plan(&model(XEON), &specs(), options(false));
            }
            Err(error) => {
                prop_assert!(error.line >= 1 && error.line <= text.matches('\n').count() + 1, "{error}");
                prop_assert!(!error.what.is_empty());
            }
        }
    }

    /// Every cell of the grid is either planned once or skipped with a reason.
    #[test]
    fn experiment_grids_are_complete(
        placements in proptest::sample::subsequence(
            vec!["kernel", "one-core", "compact", "spread", "cores-one-l3", "smt-pairs", "big", "memory-remote", "-C 0-1"], 1..9),
        threads in proptest::sample::subsequence(vec!["1", "2", "3", "\"all\"", "\"cores\"", "\"l3\""], 0..6),
        sizes in proptest::sample::subsequence(vec!["\"16KiB\"", "\"1xllc\"", "\"2GiB\""], 1..4),
        machine in 0usize..3,
    ) {
        let quoted: Vec<String> = placements.iter().map(|name| format!("\"{name}\"")).collect();
        let threads_line = if threads.is_empty() { String::new() } else { format!("threads = [{}]", threads.join(",")) };
        let text = format!(
            "{HEAD}[[workload]]\nname = \"stream\"\nset = {{ size = [{}] }}\nplacements = [{}]\n{threads_line}",
            sizes.join(","), quoted.join(",")
        );
        let topology = model([RYZEN, XEON, RK3399][machine]);
        let Ok(plan) = read(&text).plan(&topology, &specs(), options(false)) else { return Ok(()) };
        let keys: std::collections::BTreeSet<&str> = plan.cells.iter().map(|cell| cell.key.as_str()).collect();
        prop_assert_eq!(keys.len(), plan.cells.len());
        for name in &placements {
            let ran = plan.cells.iter().any(|cell| cell.placement.name == *name);
            let skipped = plan.skipped.iter().any(|skip| skip.placement == *name);
            prop_assert!(ran || skipped, "{name} is missing");
        }
        for (index, one) in plan.cells.iter().enumerate() {
            for other in &plan.cells[index + 1..] {
                let same = one.test == other.test
                    && model::placements::placement::same_place(&topology, &one.placement, &other.placement);
                prop_assert!(!same, "{} and {} are the same cell", one.key, other.key);
            }
        }
    }
}

/// Only workloads with arrays support memory `far`: the memory of a command cannot be placed from outside.
#[test]
fn far_memory_requires_a_workload_with_arrays() {
    let huge_pages = parameter("huge-pages", ParameterKind::Switch, Some("true"), None);
    let specs = [workload("arrays", None, vec![huge_pages]), workload("other", None, Vec::new())];
    let plan = |workload: &str, kernel: KernelFeatures| {
        let single = SingleWorkload {
            workload: workload.into(),
            set: Vec::new(),
            placements: vec!["one-core".into(), "one-core+far".into()],
            threads: Some(1),
            runs: 1,
            warmup: 0,
            time_limit: Nanos(1_000_000_000),
        };
        let plan = single
            .plan(&model(RK3399), &specs, PlanOptions { smoke: false, kernel, devices: &[], missing: None })
            .unwrap();
        let skipped: Vec<String> = plan.skipped.iter().map(|skip| skip.why.clone()).collect();
        (plan.cells.len(), skipped)
    };
    let far = KernelFeatures { far: true, ..KernelFeatures::default() };
    assert_eq!(plan("arrays", far), (2, vec![]));
    let (cells, skipped) = plan("other", far);
    assert!(cells == 1 && skipped[0].contains("other does not support memory 'far'"), "{skipped:?}");
    let (cells, skipped) = plan("arrays", KernelFeatures::default());
    assert!(cells == 1 && skipped[0].contains("no directory on a disk"), "{skipped:?}");
}
