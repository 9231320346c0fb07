-- Version 1 of Nearfar's results file. Nothing is ever changed here but run.ended; nothing is deleted.
-- JSON columns have the field names of the program's own JSON output. Whole numbers beyond SQLite's (the largest
-- limits of time) are stored as their two's complement; seeds are text for the same reason.

CREATE TABLE machine (
    number      INTEGER PRIMARY KEY,
    hash        TEXT NOT NULL UNIQUE,   -- of the capture: the same machine in the same state is stored once
    fingerprint TEXT NOT NULL,          -- of its lasting settings
    capture     TEXT NOT NULL           -- JSON: topology and settings, as in a capture file
) STRICT;

CREATE TABLE run (
    number          INTEGER PRIMARY KEY,    -- the order in which runs were begun here or imported
    id              TEXT NOT NULL UNIQUE,
    machine         INTEGER NOT NULL REFERENCES machine,
    experiment      TEXT NOT NULL,
    plan_key        TEXT NOT NULL,          -- equal keys ask the same question
    plan            TEXT NOT NULL,          -- JSON: cells, workloads with their metrics, stopping rule
    seed            TEXT NOT NULL,
    host            TEXT,
    simulated       TEXT,                   -- CAPTURE:SEED of a simulated machine
    started_unix_ms INTEGER NOT NULL,
    ended           TEXT,                   -- why it ended; NULL while it has not
    program         TEXT NOT NULL           -- the version that ran it
) STRICT;

CREATE TABLE cell (
    number     INTEGER PRIMARY KEY,
    hash       TEXT NOT NULL UNIQUE,    -- of the other three
    workload   TEXT NOT NULL,
    parameters TEXT NOT NULL,           -- JSON: value by name
    placement  TEXT NOT NULL            -- JSON: name, reason, threads, seats, memory
) STRICT;

CREATE TABLE trial (
    number          INTEGER PRIMARY KEY,
    run             INTEGER NOT NULL REFERENCES run,
    position        INTEGER NOT NULL,   -- in the run's order, from 0
    id              TEXT NOT NULL,
    cell            INTEGER NOT NULL REFERENCES cell,
    plan_cell       INTEGER NOT NULL,   -- the cell's index in the run's plan
    role            TEXT NOT NULL,      -- warmup or measured
    block           INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    seed            TEXT NOT NULL,
    time_limit_ns   INTEGER NOT NULL,
    started_unix_ms INTEGER NOT NULL,
    took_ns         INTEGER NOT NULL,
    status          TEXT NOT NULL,      -- completed, failed, timed-out or unavailable
    why             TEXT,               -- of a status other than completed
    verdict         TEXT NOT NULL,      -- valid, suspect or invalid
    reasons         TEXT NOT NULL,      -- JSON: list of sentences
    evidence        TEXT NOT NULL,      -- JSON: what was observed
    UNIQUE (run, position),
    UNIQUE (run, id)
) STRICT;

CREATE TABLE sample (
    trial   INTEGER NOT NULL REFERENCES trial,
    ordinal INTEGER NOT NULL,           -- in the order in which they were taken, from 0
    series  TEXT NOT NULL,
    value   REAL NOT NULL,
    PRIMARY KEY (trial, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE imported (
    number  INTEGER PRIMARY KEY,
    name    TEXT NOT NULL UNIQUE,
    content TEXT NOT NULL               -- JSON: columns, rows
) STRICT;

-- For people: one row per sample with what it belongs to.
CREATE VIEW sample_long AS
SELECT run.id AS run, run.experiment, run.simulated, trial.id AS trial, trial.position, trial.role, trial.block,
       trial.attempt, cell.workload, cell.parameters, cell.placement ->> 'name' AS placement,
       cell.placement ->> 'threads' AS threads, trial.verdict, sample.series, sample.ordinal, sample.value
FROM sample JOIN trial ON trial.number = sample.trial
            JOIN run ON run.number = trial.run
            JOIN cell ON cell.number = trial.cell;

-- For people: one row per run and recorded fact of its machine.
CREATE VIEW fact AS
SELECT run.id AS run, entry.value ->> 'key' AS key, entry.value ->> 'value' AS value,
       entry.value ->> 'unavailable' AS unavailable
FROM run JOIN machine ON machine.number = run.machine, json_each(machine.capture, '$.settings') AS entry;
