//! Privileges: writers cannot change rows, readers cannot add any, and the documentation's grants suffice for each.

use model::analysis::live::LiveEnd;
use model::hint::Hinted;
use store::{Store, StoreError};

use model::values::record::EndReason;

use super::server::{self, DATABASE, Server};
use super::{content, file, table};
use crate::fixtures;

const MANUAL: &str = include_str!("../../../../../docs/guides/shared-store.md");

/// The SQL that the documentation asks the administrator to run.
fn grants() -> &'static str {
    let block = MANUAL.split_once("```sql\n").and_then(|(_, rest)| rest.split_once("```"));
    block.expect("the page has a block of SQL").0
}

fn start(test: &str) -> Option<Server> {
    let server = server::start(test)?;
    drop(Store::open(&server.url()).unwrap());
    server.sql(DATABASE, grants());
    for role in ["writer", "reader"] {
        let sql = format!("CREATE ROLE {role} LOGIN PASSWORD 'its-own' IN ROLE nearfar_{role}");
        server.sql(DATABASE, &sql);
    }
    server.sql(DATABASE, "CREATE ROLE stranger LOGIN PASSWORD 'its-own'");
    Some(server)
}

#[test]
fn writer_role_can_add_but_not_change_rows() {
    let Some(server) = start("a writer's rights on a server") else { return };
    let directory = tempfile::tempdir().unwrap();
    let run = fixtures::run("aa", 1);
    let path = file(directory.path(), "one.db", &[(&run, 20)], 5);
    let url = server.url_of("writer", "its-own", DATABASE);
    let mut writer = Store::open(&url).unwrap();
    for trials_added in [20, 0] {
        assert_eq!(writer.merge(&path).unwrap().trials_added, trials_added);
    }
    let own = fixtures::run("bb", 2);
    writer.begin_run(&own).unwrap();
    writer.add_trial(&own.id, &fixtures::trial(&own, 0, 3)).unwrap();
    writer.end_run(&own.id, EndReason::Budget).unwrap();
    assert!(writer.add_table(&table(0.1)).unwrap());
    crate::live::fill(&mut writer, &crate::live::record(7), 0..3);
    writer.end_live(&crate::live::record(7).id, &LiveEnd { at_s: 6.3, reason: None }).unwrap();
    let before = content(&writer);

    for sql in [
        "UPDATE nearfar.trial SET verdict = 'valid'",
        "UPDATE nearfar.sample SET value = 0",
        "UPDATE nearfar.run SET seed = '1'",
        "UPDATE nearfar.run SET ended = NULL",
        "UPDATE nearfar.run SET ended = 'precise' WHERE id = 'bb'",
        "UPDATE nearfar.imported SET content = ''",
        "UPDATE nearfar.live_period SET rate = 0",
        "UPDATE nearfar.live_end SET reason = ''",
        "UPDATE nearfar.version SET number = 1",
        "DELETE FROM nearfar.sample",
        "DELETE FROM nearfar.run",
        "TRUNCATE nearfar.sample",
        "DROP TABLE nearfar.sample",
        "ALTER TABLE nearfar.run DISABLE TRIGGER ALL",
        "DROP TRIGGER keep_ending ON nearfar.run",
        "CREATE TABLE nearfar.mine (x int)",
    ] {
        let output = server.try_sql("writer", "its-own", DATABASE, sql);
        let message = server::text(&output);
        let is_refused = ["permission denied", "must be owner", "has ended"].iter().any(|word| message.contains(word));
        assert!(!output.status.success() && is_refused, "{sql}: {message}");
    }
    let error = writer.end_run(&own.id, EndReason::Precise).unwrap_err();
    assert!(error.text_with_hint().contains("run bb has ended (budget)\nhint: docs/guides/shared-store.md"), "{error}");
    assert_eq!(content(&writer), before);
}

#[test]
fn reader_role_can_read_but_not_add_rows() {
    let Some(server) = start("a reader's rights on a server") else { return };
    let directory = tempfile::tempdir().unwrap();
    let run = fixtures::run("aa", 1);
    let path = file(directory.path(), "one.db", &[(&run, 20)], 5);
    Store::open(&server.url()).unwrap().merge(&path).unwrap();
    let other = file(directory.path(), "other.db", &[(&fixtures::run("bb", 2), 3)], 5);

    let url = server.url_of("reader", "its-own", DATABASE);
    let expected = content(&Store::open_existing(&path).unwrap());
    for store in [Store::open(&url), Store::open_existing(&url), Store::open_to_read(&url)] {
        let mut store = store.unwrap();
        assert_eq!(content(&store), expected);
        let refused = [
            store.merge(&other).map(|_| ()),
            store.begin_run(&fixtures::run("cc", 3)),
            store.add_trial(&run.id, &fixtures::trial(&run, 20, 5)),
            store.end_run(&run.id, EndReason::Budget),
            store.add_table(&table(0.1)).map(|_| ()),
        ];
        for error in refused.map(Result::unwrap_err) {
            assert!(matches!(error, StoreError::NotPermitted { .. }), "{error:?}");
            let message = error.text_with_hint();
            assert!(
                message.contains("permission denied for table")
                    && message.contains("\nhint: docs/guides/shared-store.md"),
                "{message}"
            );
        }
        assert_eq!(content(&store), expected);
    }
    let output = server.try_sql("reader", "its-own", DATABASE, "INSERT INTO nearfar.imported VALUES (9, 'x', '{}')");
    assert!(server::text(&output).contains("permission denied"), "{output:?}");
}

#[test]
fn missing_privileges_are_reported() {
    let Some(server) = start("a stranger on a server") else { return };
    let check = |error: StoreError, expected: &str| assert!(error.text_with_hint().contains(expected), "{error}");
    let unprivileged = server.url_of("stranger", "its-own", DATABASE);
    let error = Store::open_existing(&unprivileged).unwrap_err();
    assert!(matches!(error, StoreError::NotPermitted { .. }), "{error:?}");
    check(error, "permission denied for schema nearfar\nhint: docs/guides/shared-store.md lists");

    // The stranger may not create tables in an empty database either, and a writer may not migrate older results.
    server.create("empty");
    let empty = server.url_of("stranger", "its-own", "empty");
    check(
        Store::open(&empty).unwrap_err(),
        "and this user may not create it: permission denied for database empty\nhint: a user with",
    );
    check(Store::open_existing(&empty).unwrap_err(), "results store postgres://stranger@localhost");
    // A schema created for the user suffices.
    server.sql("empty", "CREATE SCHEMA nearfar AUTHORIZATION stranger");
    assert_eq!(Store::open(&empty).unwrap().runs().unwrap(), []);

    server.sql(DATABASE, "DROP TABLE nearfar.saved_placement; UPDATE nearfar.version SET number = 1");
    let writer = server.url_of("writer", "its-own", DATABASE);
    let error = Store::open(&writer).unwrap_err();
    assert!(matches!(error, StoreError::Older { found: 1, .. }), "{error:?}");
    check(error, "\nhint: 'nearfar show --runs', run by the user who created the tables");
}
