-- Version 2: what an instance may share, and ports that stand side by side.

-- A person agreed that copies of a workspace share one exact thing, as the files of that digest have it.
CREATE TABLE consent (
    workspace INTEGER NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    item TEXT NOT NULL,
    digest TEXT NOT NULL CHECK (length(digest) = 64),
    given INTEGER NOT NULL,
    PRIMARY KEY (workspace, item, digest)
) STRICT, WITHOUT ROWID;

-- What was chosen on the command line, so that a plain `up` means the same afterwards.
CREATE TABLE choice (
    environment INTEGER NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    kind TEXT NOT NULL CHECK (kind IN ('network', 'volume', 'keep')),
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (environment, kind, name)
) STRICT, WITHOUT ROWID;

-- Host ports that compose files name themselves and an instance publishes beside its leased ones.
CREATE TABLE own_port (
    port INTEGER PRIMARY KEY CHECK (port BETWEEN 1 AND 65535),
    instance INTEGER NOT NULL REFERENCES instance (id) ON DELETE CASCADE
) STRICT;
CREATE INDEX own_port_of ON own_port (instance);

-- How many numbers a key has, from its own on.
ALTER TABLE offset_of ADD COLUMN width INTEGER NOT NULL DEFAULT 1 CHECK (width >= 1);

-- The compose files that were read: SHA-256 by path, as JSON.
ALTER TABLE sighting ADD COLUMN files TEXT;
