//! A measured map as JSON: the run that measured it, then the fields of `model::placements::measured_map`, whose names
//! never change.

use model::placements::measured_map::MeasuredMap;
use model::values::record::RunRecord;
use serde_json::Value;

use crate::json::{about, stamped, value};

/// `{"run":{…},"core_to_core":[…],"memory":[…],"sizes":[…],"steps":[…],"missing":[…]}`.
pub fn json(record: &RunRecord, map: &MeasuredMap) -> Value {
    let mut json = value(map);
    json["run"] = about(record);
    stamped(json, record)
}
