//! Names of fields and variants that are keys in stored files: results files, plans, captures, the undo journal and
//! JSON output. A rename in Rust that fails here needs `serde(rename)`.

use std::fmt;

use model::analysis::doctor::{Diagnosis, Problem, ProblemGroup};
use model::analysis::size::{SizeAnswer, SizePoint, SizeTier, TierAnswer};
use model::stats::racing::{self, BlockResult, RankClaim};
use model::stats::statistics::Interval;
use model::values::compressibility::{CompressedShare, KindShare};
use model::values::id_set::{NodeId, NodeSet};
use model::values::placement::{FilePolicy, MemoryPolicy};
use model::values::plan::MemoryChoice;
use model::values::settings::{Fact, FactValue};
use model::values::trial::{Evidence, TrialStatus};
use model::values::undo::{RestoreStatus, Restored, SettingChange, SettingTarget, TunedSetting};
use model::values::units::{Bytes, Nanos};
use model::values::workload::ParameterKind;
use serde::Serialize;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde_json::json;

/// The names that a type reads; `-` if it reads none.
#[derive(Debug)]
struct Names(String);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Names {}

impl de::Error for Names {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self("-".into())
    }
}

/// A deserializer that fails with the names that a type requests.
struct NameLister;

impl<'de> Deserializer<'de> for NameLister {
    type Error = Names;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Names> {
        Err(Names("-".into()))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Names> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Names> {
        Err(Names(fields.join(" ")))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Names> {
        Err(Names(variants.join(" | ")))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

fn names<'de, T: Deserialize<'de>>() -> String {
    T::deserialize(NameLister).err().map_or_else(String::new, |names| names.0)
}

/// The lists include `alias` names.
#[test]
fn stored_names_are_unchanged() {
    macro_rules! list {
        ($($type:ty),* $(,)?) => {
            [$(names::<$type>()),*].join("\n")
        };
    }
    let plan = list![
        model::values::plan::Plan,
        model::values::plan::Cell,
        model::values::plan::SkippedCell,
        model::values::plan::StoppingRule,
        model::values::plan::SizePlan,
        model::values::compressibility::Compressibility,
        model::values::compressibility::CompressedShare,
        model::values::plan::GatePlan,
        model::values::plan::RacePlan,
        model::values::plan::ReductionStep,
        model::values::plan::RaceRules,
        model::stats::racing::BlockResult,
        model::stats::racing::State,
        model::stats::racing::RankedCandidate,
        model::stats::racing::Effect,
        model::stats::racing::RankClaim,
        model::stats::racing::ConfirmPlan,
        model::stats::racing::Confirmation,
        model::stats::racing::ConfirmResult,
        model::values::plan::Stages,
        model::values::plan::MemoryChoice,
        model::values::placement::Placement,
        model::values::placement::FilePolicy,
        model::values::placement::MemoryPolicy,
        model::values::placement::Route,
        model::values::placement::DramBudget,
        model::values::workload::WorkloadSpec,
        model::values::workload::ParameterSpec,
        model::values::workload::ParameterKind,
        model::values::workload::MetricSpec,
        model::values::workload::Better,
        model::values::workload::Reduce,
    ];
    insta::assert_snapshot!("stored-names-plan", plan);
    let trial = list![
        model::values::trial::Trial,
        model::values::trial::Role,
        model::values::trial::TrialOutcome,
        model::values::trial::Sample,
        model::values::trial::TrialStatus,
        model::values::trial::Verdict,
        model::values::trial::Grade,
        model::values::trial::Evidence,
        model::values::trial::FilePages,
        model::values::trial::FileKind,
        model::values::trial::PageCacheStart,
        model::values::trial::TextCopy,
        model::values::trial::ThreadBinding,
        model::values::trial::DramBudgetUse,
        model::values::trial::FarMemory,
        model::values::trial::DeviceInterrupt,
        model::values::trial::CpuTime,
        model::values::record::TrialRecord,
        model::values::record::RunRecord,
        model::values::record::EndReason,
        model::values::record::SavedPlacement,
        model::values::record::ImportedTable,
        model::values::record::ImportedRow,
    ];
    insta::assert_snapshot!("stored-names-trial", trial);
    let machine = list![
        model::values::capture::Capture,
        model::values::settings::Fact,
        model::values::settings::FactValue,
        model::values::topology::Topology,
        model::values::topology::Object,
        model::values::topology::ObjectKind,
        model::values::topology::Cache,
        model::values::topology::MemoryNode,
        model::values::topology::Distances,
        model::values::topology::MemoryAttribute,
        model::values::topology::CpuKind,
        model::values::topology::Counts,
        model::values::topology::Device,
        model::values::topology::DeviceKind,
        model::values::topology::Interrupt,
        model::values::topology::Movability,
        model::values::undo::SettingChange,
        model::values::undo::SettingTarget,
    ];
    insta::assert_snapshot!("stored-names-machine", machine);
}

/// Names that the lists above do not show: the fields of variants, tagged enums and flattened structs.
#[test]
fn stored_enums_and_flattened_structs_are_unchanged() {
    fn check<T: Serialize + for<'de> Deserialize<'de> + PartialEq + fmt::Debug>(value: &T, text: &str) {
        assert_eq!(serde_json::to_string(value).unwrap(), text);
        assert_eq!(&serde_json::from_str::<T>(text).unwrap(), value);
    }
    let nodes = || NodeSet::from_iter([NodeId(0), NodeId(2)]);
    check(&MemoryPolicy::Kernel, r#"{"policy":"kernel"}"#);
    check(&MemoryPolicy::Local, r#"{"policy":"local"}"#);
    check(&MemoryPolicy::Bind(nodes()), r#"{"policy":"bind","nodes":"0,2"}"#);
    check(&MemoryPolicy::Interleave(nodes()), r#"{"policy":"interleave","nodes":"0,2"}"#);
    check(&MemoryPolicy::WeightedInterleave(nodes()), r#"{"policy":"weighted-interleave","nodes":"0,2"}"#);
    check(&MemoryPolicy::Preferred(NodeId(1)), r#"{"policy":"preferred","nodes":1}"#);
    check(&MemoryPolicy::Far, r#"{"policy":"far"}"#);
    check(&FilePolicy::Local, r#"{"policy":"local"}"#);
    check(&FilePolicy::Interleave(nodes()), r#"{"policy":"interleave","nodes":"0,2"}"#);
    check(&FilePolicy::Node(NodeId(1)), r#"{"policy":"node","nodes":1}"#);
    check(&FilePolicy::Cold, r#"{"policy":"cold"}"#);
    check(&MemoryChoice::Other(3), r#"{"other":3}"#);
    check(&TrialStatus::Completed, r#"{"status":"completed"}"#);
    check(&TrialStatus::Failed("f".into()), r#"{"status":"failed","why":"f"}"#);
    check(&TrialStatus::TimedOut("t".into()), r#"{"status":"timed-out","why":"t"}"#);
    check(&TrialStatus::Unavailable("u".into()), r#"{"status":"unavailable","why":"u"}"#);
    check(&ParameterKind::Integer { min: 1, max: 2 }, r#"{"integer":{"min":1,"max":2}}"#);
    let share = CompressedShare {
        bytes: Bytes(1),
        pages: 2,
        percent: 3.0,
        ci_low: 4.0,
        ci_high: 5.0,
        zero_percent: 6.0,
        incompressible_percent: 7.0,
    };
    check(
        &KindShare { kind: "heap".into(), share },
        r#"{"kind":"heap","bytes":1,"pages":2,"percent":3.0,"ci_low":4.0,"ci_high":5.0,"zero_percent":6.0,"incompressible_percent":7.0}"#,
    );
    check(&ParameterKind::Size { min: Bytes(1), max: Bytes(2) }, r#"{"size":{"min":1,"max":2}}"#);
    check(&ParameterKind::Time { min: Nanos(1), max: Nanos(2) }, r#"{"time":{"min":1,"max":2}}"#);
    check(&ParameterKind::Choice(vec!["a".into()]), r#"{"choice":["a"]}"#);
    check(&BlockResult::Value(1.5), r#"{"value":1.5}"#);
    check(&BlockResult::TooSlow { at_least: 2.5 }, r#"{"too-slow":{"at_least":2.5}}"#);
    let by = Interval { low: 1.0, high: 2.0 };
    check(&RankClaim::Worse { by }, r#"{"worse":{"by":{"low":1.0,"high":2.0}}}"#);
    check(&RankClaim::NotSeenToDiffer { at_most: None }, r#"{"not-seen-to-differ":{"at_most":null}}"#);
    check(&RankClaim::TooSlow { times: Some(3.0) }, r#"{"too-slow":{"times":3.0}}"#);
    check(&racing::ConfirmResult::NoDifferenceSeen { wide: true }, r#"{"no-difference-seen":{"wide":true}}"#);
    let fact = |value| Fact { key: "k".into(), value };
    check(&fact(FactValue::Known("v".into())), r#"{"key":"k","value":"v"}"#);
    check(&fact(FactValue::Unavailable("w".into())), r#"{"key":"k","unavailable":"w"}"#);
}

/// One line of the undo journal for each kind of setting, and the JSON of `nearfar restore`.
#[test]
fn undo_journal_lines_are_unchanged() {
    let change = |target| SettingChange {
        setting: "smt".into(),
        target,
        old: "on".into(),
        new: "off".into(),
        also: vec!["forceoff".into()],
        boot: Some("b".into()),
    };
    let targets = [
        (SettingTarget::File("sys/f".into()), r#""file":"sys/f""#),
        (SettingTarget::Process { pid: 1, started: 2 }, r#""process":{"pid":1,"started":2}"#),
        (SettingTarget::Banned { pid: 1, started: 2 }, r#""banned":{"pid":1,"started":2}"#),
        (
            SettingTarget::Swap { device: "/dev/loop0".into(), backing: "f".into() },
            r#""swap":{"device":"/dev/loop0","backing":"f"}"#,
        ),
        (SettingTarget::Zram { name: "zram1".into(), bytes: Bytes(4096) }, r#""zram":{"name":"zram1","bytes":4096}"#),
        (SettingTarget::Group("g".into()), r#""group":"g""#),
        (
            SettingTarget::Controller { group: "g".into(), name: "memory".into() },
            r#""controller":{"group":"g","name":"memory"}"#,
        ),
    ];
    let rest = r#""old":"on","new":"off","also":["forceoff"],"boot":"b""#;
    for (target, text) in targets {
        let text = format!(r#"{{"setting":"smt",{text},{rest}}}"#);
        assert_eq!(serde_json::to_string(&change(target.clone())).unwrap(), text);
        assert_eq!(serde_json::from_str::<SettingChange>(&text).unwrap(), change(target));
    }
    let failed = RestoreStatus::Failed { why: "w".into(), not_permitted: true };
    let outcomes = [
        (RestoreStatus::Restored, r#""outcome":"put-back""#),
        (RestoreStatus::Planned, r#""outcome":"planned""#),
        (RestoreStatus::AlreadyRestored, r#""outcome":"was-back""#),
        (RestoreStatus::Restarted, r#""outcome":"restarted""#),
        (RestoreStatus::Ended, r#""outcome":"ended""#),
        (RestoreStatus::StillNeeded, r#""outcome":"still-needed""#),
        (RestoreStatus::ChangedByOther { present: "p".into() }, r#""outcome":"left-foreign","present":"p""#),
        (failed, r#""outcome":"failed","why":"w","not_permitted":true"#),
    ];
    for (outcome, text) in outcomes {
        let restored = Restored { change: change(SettingTarget::File("sys/f".into())), outcome };
        let text = format!(r#"{{"setting":"smt","file":"sys/f",{rest},{text}}}"#);
        assert_eq!(serde_json::to_string(&restored).unwrap(), text);
    }
    let settings: Vec<&str> = TunedSetting::ALL.iter().map(|setting| setting.name()).collect();
    assert_eq!(settings, ["irqbalance", "smt", "governor", "turbo", "thp", "numa-balancing", "aslr", "c-states"]);
}

/// JSON that is printed and never read back.
#[test]
fn printed_names_are_unchanged() {
    let problem = |group| Problem { key: "load", group, found: "f".into(), effect: "e", fix: "x", command: Some("c") };
    let groups = [ProblemGroup::Disturbs, ProblemGroup::CannotMeasure, ProblemGroup::ExpandRequirement];
    let diagnosis = Diagnosis { problems: groups.map(problem).into(), ok: vec!["thp"] };
    let problem =
        |group| json!({"key": "load", "group": group, "found": "f", "effect": "e", "fix": "x", "command": "c"});
    let problems = ["spoils", "cannot-measure", "expand-lacks"].map(problem);
    assert_eq!(serde_json::to_value(&diagnosis).unwrap(), json!({"problems": problems, "ok": ["thp"]}));
    let tier = SizeTier { steered: true, compressed: false };
    let point = SizePoint {
        dram: Bytes(1),
        tier,
        slower_percent: 2.0,
        ci_low: None,
        ci_high: Some(3.0),
        compressed_dram: None,
        cpu_percent: Some(4.0),
    };
    let answer = TierAnswer { tier, enough: Some(Bytes(6)), unresolved: true, compressed_dram: None };
    let size = SizeAnswer {
        program: "p".into(),
        metric: "m".into(),
        need: Bytes(4),
        within_percent: 5.0,
        compressibility: None,
        points: vec![point],
        tiers: vec![answer],
        enough: Some(Bytes(6)),
        enough_plain: None,
        saves: Some(Bytes(7)),
    };
    let point = json!({"dram": 1, "steered": true, "compressed": false, "slower_percent": 2.0, "ci_low": null, "ci_high": 3.0, "compressed_dram": null, "cpu_percent": 4.0});
    let tier = json!({"steered": true, "compressed": false, "enough": 6, "unresolved": true, "compressed_dram": null});
    let expected = json!({"program": "p", "metric": "m", "need": 4, "within_percent": 5.0, "compressibility": null, "points": [point], "tiers": [tier], "enough": 6, "enough_plain": null, "saves": 7});
    assert_eq!(serde_json::to_value(&size).unwrap(), expected);
}

/// Evidence as version 0.1 stored it.
#[test]
fn evidence_with_old_names_is_read() {
    let old = r#"{"looks":7,"thread_seats":[{"asked":3,"mask":"3","before":3,"after":3}],
        "budget":{"dram":1,"read":2,"written":3,"killed":0,"fetched":4,"pilot_cpu":5}}"#;
    let evidence: Evidence = serde_json::from_str(old).unwrap();
    let text = serde_json::to_string(&evidence).unwrap();
    for part in [
        r#""polls":7"#,
        r#""thread_bindings":[{"requested":3,"mask":"3","before":3,"after":3}]"#,
        r#""budget":{"dram":1,"read":2,"written":3,"killed":0,"prefetched":4,"controller_cpu":5}"#,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(serde_json::from_str::<Evidence>(&text).unwrap(), evidence);
}
