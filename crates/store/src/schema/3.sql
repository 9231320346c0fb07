-- Version 3: checksums, verified when a row is read. NULL in rows that an earlier version has stored. That of a trial
-- covers its samples and the hash of its cell; that of a run covers its machine but not run.ended.

ALTER TABLE run ADD COLUMN checksum INTEGER;
ALTER TABLE trial ADD COLUMN checksum INTEGER;
ALTER TABLE imported ADD COLUMN checksum INTEGER;
ALTER TABLE saved_placement ADD COLUMN checksum INTEGER;
