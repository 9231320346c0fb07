//! Saved placements.

use model::hint::Hinted;
use model::values::placement::Placement;
use model::values::record::SavedPlacement;
use store::Store;

use crate::fixtures::run;

#[test]
fn saved_placement_is_replaced_by_one_of_the_same_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let mut store = Store::open(&path).unwrap();
    let text = store.saved_placement("web").unwrap_err().to_string();
    assert!(text.starts_with("no saved placement 'web'"), "{text}");

    let record = run("r", 1);
    let saved = |name: &str, threads| SavedPlacement::new(name, &record, &Placement::kernel(threads));
    for one in [saved("web", 2), saved("db", 3), saved("web", 4)] {
        store.save_placement(&one).unwrap();
    }
    drop(store);
    let store = Store::open_existing(&path).unwrap();
    assert_eq!(store.saved_placement("web").unwrap(), saved("web", 4));
    assert_eq!(store.saved_placement("db").unwrap(), saved("db", 3));
    let error = store.saved_placement("wob").unwrap_err();
    assert!(error.text_with_hint().contains("available: db, web"), "{error}");
    assert!(saved("web", 2).changes(&record.machine).is_empty());
}
