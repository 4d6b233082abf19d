-- Version 3: copies of volumes.

-- Volumes whose copy was finished, by name. Written before anything can use one: without it, a volume that is there and
-- was never handed over is known to be torn.
CREATE TABLE copied (
    volume TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
