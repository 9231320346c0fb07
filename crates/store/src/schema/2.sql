-- Version 2: placements that users keep under names, to apply them later. Keeping another under the same name replaces it.
-- A trial's role may also be confirm: the pairs that confirm the winner of a race.

CREATE TABLE saved_placement (
    name    TEXT PRIMARY KEY,
    content TEXT NOT NULL       -- JSON: run, placement, machine, topology, settings
) STRICT, WITHOUT ROWID;
