//! Names of fields and variants that are keys in stored files: results files, plans, captures, the undo journal and JSON
//! output. A rename in Rust that fails here needs `serde(rename)`.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

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
        model::plan::Plan,
        model::plan::Cell,
        model::plan::Skipped,
        model::plan::Repeat,
        model::size::SizePlan,
        model::place::RacePlan,
        model::place::Step,
        model::racing::Rules,
        model::racing::Lap,
        model::racing::State,
        model::racing::Standing,
        model::racing::Effect,
        model::racing::Word,
        model::racing::Planned,
        model::racing::Confirmed,
        model::racing::Verdict,
        model::candidates::Stages,
        model::candidates::MemoryChoice,
        model::placement::Placement,
        model::placement::MemoryPolicy,
        model::placement::Route,
        model::placement::DramBudget,
        model::workload::WorkloadSpec,
        model::workload::ParameterSpec,
        model::workload::ParameterKind,
        model::workload::MetricSpec,
        model::workload::Better,
        model::workload::Reduce,
    ];
    insta::assert_snapshot!("stored-names-plan", plan);
    let trial = list![
        model::trial::Trial,
        model::trial::Role,
        model::trial::Outcome,
        model::trial::Sample,
        model::trial::Status,
        model::trial::Verdict,
        model::trial::Grade,
        model::trial::Evidence,
        model::trial::ThreadSeat,
        model::trial::BudgetKept,
        model::trial::FarMemory,
        model::trial::DeviceInterrupt,
        model::trial::CpuTime,
        model::record::TrialRecord,
        model::record::RunRecord,
        model::record::Ending,
        model::record::SavedPlacement,
        model::record::ImportedTable,
        model::record::ImportedRow,
    ];
    insta::assert_snapshot!("stored-names-trial", trial);
    let machine = list![
        model::capture::Capture,
        model::settings::Fact,
        model::settings::FactValue,
        model::topology::Topology,
        model::topology::Object,
        model::topology::ObjectKind,
        model::topology::Cache,
        model::topology::MemoryNode,
        model::topology::Distances,
        model::topology::MemoryAttribute,
        model::topology::CpuKind,
        model::topology::Counts,
        model::topology::Device,
        model::topology::DeviceKind,
        model::topology::Interrupt,
        model::topology::Movability,
        model::undo::Change,
        model::undo::Target,
    ];
    insta::assert_snapshot!("stored-names-machine", machine);
}
