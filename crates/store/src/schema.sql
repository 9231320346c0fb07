-- The results file, version 1. Append-only: nothing here is changed after it was written, but a run's ending.
-- JSON columns hold values of the crate `model` as they are serialised there.

-- A machine and its settings, once for all runs in the same state.
CREATE TABLE machine (
    id TEXT PRIMARY KEY,            -- hash of the capture
    fingerprint TEXT NOT NULL,      -- of the settings that make a machine state
    capture TEXT NOT NULL           -- JSON
);

CREATE TABLE run (
    position INTEGER PRIMARY KEY,   -- order of beginning in this file
    id TEXT NOT NULL UNIQUE,
    experiment TEXT NOT NULL,
    plan_key TEXT NOT NULL,
    plan TEXT NOT NULL,             -- JSON
    seed TEXT NOT NULL,             -- 64 bits without a sign, which SQLite's integers have
    machine TEXT NOT NULL REFERENCES machine (id),
    host TEXT,
    simulated TEXT,                 -- CAPTURE:SEED, or null for a real machine
    started_unix_ms INTEGER NOT NULL,
    ended TEXT,                     -- why it ended; null while it has not
    program TEXT NOT NULL
);

CREATE TABLE trial (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    run TEXT NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL,
    cell INTEGER NOT NULL,
    role TEXT NOT NULL,             -- warmup or measured
    block INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    verdict TEXT NOT NULL,          -- valid, suspect or invalid
    reasons TEXT NOT NULL,          -- JSON list
    status TEXT NOT NULL,           -- JSON
    evidence TEXT NOT NULL,         -- JSON
    started_unix_ms INTEGER NOT NULL,
    took_ns INTEGER NOT NULL,
    UNIQUE (run, position)
);

-- Raw numbers, in the order in which they were taken.
CREATE TABLE sample (
    trial INTEGER NOT NULL REFERENCES trial (key),
    position INTEGER NOT NULL,
    series TEXT NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (trial, position)
) WITHOUT ROWID;

-- Imported tables of published figures.
CREATE TABLE imported_table (
    position INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    content TEXT NOT NULL           -- JSON
);
