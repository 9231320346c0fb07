-- Version 4: experiments on running services. Rows are only added: one of live_end when an experiment ends.

CREATE TABLE live (
    number          INTEGER PRIMARY KEY,    -- the order in which experiments were begun here or imported
    id              TEXT NOT NULL UNIQUE,
    machine         INTEGER NOT NULL REFERENCES machine,
    request         TEXT NOT NULL,          -- JSON: service, metric, guards, placements, budget and seed, as asked for
    setup           TEXT NOT NULL,          -- JSON: process, unit of the metric, CPUs of the placements
    started_unix_ms INTEGER NOT NULL,
    program         TEXT NOT NULL,          -- the version that began it
    checksum        INTEGER NOT NULL
) STRICT;

CREATE TABLE live_period (
    live     INTEGER NOT NULL REFERENCES live,
    position INTEGER NOT NULL,      -- from 0
    block    INTEGER NOT NULL,
    phase    TEXT NOT NULL,         -- wash-out, race or confirm
    arm      INTEGER NOT NULL,      -- index of its placement in setup; 0 is the one that was found
    at_s     REAL NOT NULL,         -- since the begin of the experiment
    length_s REAL NOT NULL,
    rate     REAL,                  -- value of the metric; NULL if the period does not count
    unproven TEXT,                  -- why it does not count
    evidence TEXT NOT NULL,         -- JSON: what was observed
    checksum INTEGER NOT NULL,
    PRIMARY KEY (live, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE live_end (
    live     INTEGER PRIMARY KEY REFERENCES live,
    at_s     REAL NOT NULL,
    reason   TEXT,                  -- what ended it; NULL if it ended as planned
    checksum INTEGER NOT NULL
) STRICT;
