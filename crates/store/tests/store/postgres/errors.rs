//! Errors of connections: wrong passwords, missing servers, other versions, untrusted certificates. Each is reported,
//! and none reveals a password.

use model::hint::Hinted;
use std::path::PathBuf;

use store::{Store, StoreError};

use super::server::{self, DATABASE, OWNER, PASSWORD};
use super::{content, fill};
use crate::fixtures;

/// Asserts that opening in each of the three modes fails with the expected error and without revealing a password.
fn check(url: impl Into<PathBuf>, is_expected: fn(&StoreError) -> bool, expected: &str) {
    let url = url.into();
    for opened in [Store::open(&url), Store::open_existing(&url), Store::open_to_read(&url)] {
        let error = opened.unwrap_err();
        let message = error.text_with_hint();
        assert!(is_expected(&error) && message.contains(expected), "{error:?}\n{message}");
        assert!(message.contains("\nhint: "), "{message}");
        for secret in [PASSWORD, "s3cret", "wrong-one"] {
            assert!(!message.contains(secret) && !format!("{error:?}").contains(secret), "{error:?}");
        }
    }
}

#[test]
fn connection_errors_are_distinguished() {
    let Some(server) = server::start("connection errors") else { return };
    let rejected = |error: &StoreError| matches!(error, StoreError::NotLetIn { .. });
    let wrong = server.url_of(OWNER, "wrong-one", DATABASE);
    check(wrong, rejected, "postgres://owner@localhost:");
    check(server.url_of("nobody-here", PASSWORD, DATABASE), rejected, "password authentication failed for user");
    let without = server.url().display().to_string().replace(&format!(":{PASSWORD}"), "");
    // PGPASSWORD may be set in the environment of the tests; it is wrong for this server.
    check(without, rejected, "password");
    let missing = |error: &StoreError| matches!(error, StoreError::NoDatabase { .. });
    check(server.url_of(OWNER, PASSWORD, "other"), missing, "database \"other\" does not exist\nhint: the server's");
    let is_reached = |error: &StoreError| matches!(error, StoreError::Unreachable { .. });
    check(
        "postgres://u:s3cret@127.0.0.1:1/d",
        is_reached,
        "cannot connect to results store postgres://u@127.0.0.1:1/d: Connection refused",
    );
    check(
        "postgres://u:s3cret@nowhere.invalid/d",
        is_reached,
        "cannot connect to results store postgres://u@nowhere.invalid/d: ",
    );
    let is_address = |error: &StoreError| matches!(error, StoreError::BadAddress { .. });
    check("postgres://u:s3cret@h:port/d", is_address, "--store postgres://u@h:port/d: ");
    check("postgres://u:s3cret@h/d?unheard=of", is_address, "unheard");
    check("postgres://u:s3/cret@h/d", is_address, "%2F");
    check(
        "postgresql://u:s3cret@h/d?sslmode=yes",
        is_address,
        "sslmode must be disable, prefer, require or verify-full",
    );
    check("postgres://", is_address, "the address names no server");
}

#[test]
fn other_schema_versions_are_recognised() {
    let Some(server) = server::start("versions on a server") else { return };
    let mut store = Store::open(&server.url()).unwrap();
    fill(&mut store, &fixtures::run("aa", 1), 10, 5);
    let before = content(&store);
    drop(store);

    // Version 1: the tables and columns of later versions are created, and the existing rows are kept.
    server.sql(
        DATABASE,
        "DROP TABLE nearfar.saved_placement, nearfar.live, nearfar.live_period, nearfar.live_end; \
               UPDATE nearfar.version SET number = 1",
    );
    for table in ["run", "trial", "imported"] {
        server.sql(DATABASE, &format!("ALTER TABLE nearfar.{table} DROP COLUMN checksum"));
    }
    let error = Store::open_to_read(&server.url()).unwrap_err();
    assert!(matches!(error, StoreError::Older { found: 1, known: 4, .. }), "{error:?}");
    let store = Store::open_existing(&server.url()).unwrap();
    assert_eq!(content(&store), before);
    assert!(matches!(store.saved_placement("x"), Err(StoreError::NoSuchPlacement { .. })), "its table exists");
    assert_eq!(server.sql(DATABASE, "SELECT number FROM nearfar.version"), "4");
    drop(store);

    server.sql(DATABASE, "UPDATE nearfar.version SET number = 99");
    let is_newer = |error: &StoreError| matches!(error, StoreError::Newer { found: 99, known: 4, .. });
    check(server.url(), is_newer, "was written by a newer nearfar (schema 99, this program knows 4)");
    assert_eq!(server.sql(DATABASE, "SELECT number FROM nearfar.version"), "99", "not modified");
    assert_eq!(server.sql(DATABASE, "SELECT count(*) FROM nearfar.trial"), "10");
}

#[test]
fn sslmode_of_the_address_is_applied() {
    let Some(server) = server::start("encryption to a server") else { return };
    if !server.has_certificates() {
        println!("skipped: encryption to a server: no certificates (Debian's openssl)");
        return;
    }
    drop(Store::open(&server.url()).unwrap());
    // The server accepts this user over TLS only.
    let sql = "CREATE ROLE encrypted LOGIN PASSWORD 's3cret'; GRANT USAGE ON SCHEMA nearfar TO encrypted; \
               GRANT SELECT ON ALL TABLES IN SCHEMA nearfar TO encrypted";
    server.sql(DATABASE, sql);
    let url = |rest: &str| -> PathBuf {
        let url = server.url_of("encrypted", "s3cret", DATABASE);
        format!("{}?{rest}", url.display()).into()
    };
    let authority = server.path("ca.pem").display().to_string();
    for rest in ["", "sslmode=prefer", "sslmode=require", &format!("sslmode=verify-full&sslrootcert={authority}")] {
        assert_eq!(Store::open_existing(&url(rest)).unwrap().runs().unwrap(), [], "{rest}");
    }
    let rejected = |error: &StoreError| matches!(error, StoreError::NotLetIn { .. });
    check(url("sslmode=disable"), rejected, "no encryption");

    // The system does not trust the certificate, and the certificate is not valid for this name.
    let is_tls = |error: &StoreError| matches!(error, StoreError::NoTls { .. } | StoreError::BadAddress { .. });
    check(url("sslmode=verify-full"), is_tls, "");
    let other_name = url(&format!("sslmode=verify-full&sslrootcert={authority}")).display().to_string();
    check(other_name.replace("localhost", "127.0.0.1"), is_tls, "cannot establish TLS with results store postgres://");
    let address = |error: &StoreError| matches!(error, StoreError::BadAddress { .. });
    check(url("sslmode=verify-full&sslrootcert=/nowhere.pem"), address, "sslrootcert /nowhere.pem: ");
    check(url("sslmode=verify-full&sslrootcert=/dev/null"), address, "the file has no certificate");
}
