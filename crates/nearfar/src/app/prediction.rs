//! The prediction of the best placement on another machine from a stored search.

use model::analysis::place::PlacePrediction;
use model::placements::candidates::SearchSpace;
use model::values::record::RunRecord;

use crate::app::catalogue::{MapRequest, PlacementCatalogue};
use crate::app::results_file::ResultsFile;
use crate::app::target_machine::read_topology;
use crate::error::{CliError, CliStatus};

pub struct PredictionRequest {
    /// File or synthetic string of the other machine.
    pub from: String,
    /// The stored search whose trials show how the program behaves.
    pub like: String,
    pub space: SearchSpace,
    pub map: MapRequest,
    pub results: ResultsFile,
}

/// Returns the prediction and the run that it follows from.
pub fn predict(request: &PredictionRequest) -> Result<(RunRecord, PlacePrediction), CliError> {
    let reported = read_topology(Some(&request.from))?;
    let store = request.results.open_existing()?;
    let record = store.run(&request.like).map_err(|error| CliError::store(&error, CliStatus::Usage))?;
    let trials = store.trials(&record.id).map_err(CliError::failure)?;
    let PlacementCatalogue { topology, classes, .. } = PlacementCatalogue::new(&reported, None, &request.map)?;
    let space = SearchSpace { measured: classes, ..request.space.clone() };
    let predicted = PlacePrediction::new(&record, &trials, &topology, &space).map_err(CliError::usage)?;
    Ok((record, predicted))
}
