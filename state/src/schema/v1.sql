-- Version 1. A shipped migration is never edited: what changes comes as the next one.
--
-- Row ids only grow (AUTOINCREMENT), so ordering by id is ordering by time, and
-- an id that was let go never means something else. Times are nanoseconds since
-- the epoch. A column of type ANY holds a path: text, or bytes that are not UTF-8.

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE workspace (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    identity TEXT NOT NULL UNIQUE,
    created INTEGER NOT NULL
) STRICT;

CREATE TABLE environment (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace INTEGER NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    created INTEGER NOT NULL,
    UNIQUE (workspace, name)
) STRICT;

CREATE TABLE revision (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    environment INTEGER NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    number INTEGER NOT NULL CHECK (number >= 1),
    digest TEXT NOT NULL CHECK (length(digest) = 64),
    content TEXT NOT NULL,
    message TEXT,
    created INTEGER NOT NULL,
    UNIQUE (environment, number),
    UNIQUE (environment, digest)
) STRICT;

CREATE TABLE sighting (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    revision INTEGER NOT NULL REFERENCES revision (id) ON DELETE CASCADE,
    branch TEXT,
    commit_id TEXT,
    dirty INTEGER,
    folder ANY NOT NULL,
    seen INTEGER NOT NULL
) STRICT;
CREATE INDEX sighting_of ON sighting (revision);

CREATE TABLE pin (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    revision INTEGER NOT NULL REFERENCES revision (id) ON DELETE CASCADE,
    service TEXT NOT NULL,
    image TEXT NOT NULL,
    image_id TEXT NOT NULL,
    UNIQUE (revision, service)
) STRICT;

CREATE TABLE instance (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL UNIQUE CHECK (length(uid) = 16),
    environment INTEGER NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    revision INTEGER,
    checkout ANY,
    desired TEXT NOT NULL CHECK (desired IN ('running', 'stopped')),
    daemon TEXT,
    owner TEXT,
    generation INTEGER NOT NULL CHECK (generation >= 1),
    pinned INTEGER NOT NULL,
    -- One more of a folder, beside the folder's own instance.
    additional INTEGER NOT NULL DEFAULT 0,
    revived INTEGER NOT NULL,
    sources TEXT NOT NULL,
    -- The last record of the removed instance whose data it took over.
    inherited TEXT,
    created INTEGER NOT NULL,
    UNIQUE (environment, name),
    FOREIGN KEY (environment, revision) REFERENCES revision (environment, number)
) STRICT;

-- What stays of an instance that was removed without its data.
CREATE TABLE tombstone (
    environment INTEGER NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    uid TEXT NOT NULL,
    generation INTEGER NOT NULL,
    -- What was last handed to Docker, so that the data is known again.
    record TEXT,
    removed INTEGER NOT NULL,
    PRIMARY KEY (environment, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE variable (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace INTEGER REFERENCES workspace (id) ON DELETE CASCADE,
    environment INTEGER REFERENCES environment (id) ON DELETE CASCADE,
    revision INTEGER REFERENCES revision (id) ON DELETE CASCADE,
    instance INTEGER REFERENCES instance (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('literal', 'secret')),
    value TEXT NOT NULL,
    CHECK ((workspace IS NOT NULL) + (environment IS NOT NULL) + (revision IS NOT NULL) + (instance IS NOT NULL) = 1)
) STRICT;
CREATE UNIQUE INDEX variable_of_workspace ON variable (workspace, key) WHERE workspace IS NOT NULL;
CREATE UNIQUE INDEX variable_of_environment ON variable (environment, key) WHERE environment IS NOT NULL;
CREATE UNIQUE INDEX variable_of_revision ON variable (revision, key) WHERE revision IS NOT NULL;
CREATE UNIQUE INDEX variable_of_instance ON variable (instance, key) WHERE instance IS NOT NULL;

CREATE TABLE lease (
    slot INTEGER PRIMARY KEY CHECK (slot BETWEEN 0 AND 126),
    instance INTEGER NOT NULL UNIQUE REFERENCES instance (id) ON DELETE CASCADE,
    subnet TEXT NOT NULL,
    leased INTEGER NOT NULL
) STRICT;

CREATE TABLE quarantine (
    port INTEGER PRIMARY KEY CHECK (port BETWEEN 1 AND 65535),
    until INTEGER NOT NULL
) STRICT;

-- Handed out once and kept for as long as the environment exists.
CREATE TABLE offset_of (
    environment INTEGER NOT NULL REFERENCES environment (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number BETWEEN 0 AND 65535),
    PRIMARY KEY (environment, kind, key),
    UNIQUE (environment, kind, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE applied (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    instance INTEGER NOT NULL REFERENCES instance (id) ON DELETE CASCADE,
    digest TEXT NOT NULL,
    revision INTEGER NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('ok', 'failed', 'refused')),
    detail TEXT NOT NULL,
    record TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
CREATE INDEX applied_of ON applied (instance, id);

CREATE TABLE transition (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    instance INTEGER NOT NULL REFERENCES instance (id) ON DELETE CASCADE,
    verb TEXT NOT NULL,
    cause TEXT NOT NULL,
    outcome TEXT NOT NULL,
    detail TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
CREATE INDEX transition_of ON transition (instance, id);

CREATE TABLE intent (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    instance INTEGER NOT NULL REFERENCES instance (id) ON DELETE CASCADE,
    verb TEXT NOT NULL,
    detail TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
CREATE INDEX intent_of ON intent (instance);

CREATE TABLE ready (
    container TEXT PRIMARY KEY,
    started TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A cache: any row may go at any time.
CREATE TABLE memo (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Immutability. Rows of a revision go only with their environment: by the time
-- a cascade reaches them their parent is gone. `INSERT OR REPLACE` deletes the
-- row it meets without asking delete triggers, and on a parent it cascades; so
-- every insert that meets a row is refused, and so is an update that would.

CREATE TRIGGER workspace_not_replaced BEFORE INSERT ON workspace
WHEN EXISTS (SELECT 1 FROM workspace WHERE id = NEW.id OR name = NEW.name OR identity = NEW.identity)
BEGIN SELECT RAISE(ABORT, 'a workspace is never replaced'); END;

CREATE TRIGGER workspace_not_moved BEFORE UPDATE ON workspace
WHEN NEW.id <> OLD.id OR EXISTS (
    SELECT 1 FROM workspace WHERE id <> OLD.id AND (name = NEW.name OR identity = NEW.identity))
BEGIN SELECT RAISE(ABORT, 'a workspace is never replaced'); END;

CREATE TRIGGER environment_not_replaced BEFORE INSERT ON environment
WHEN EXISTS (SELECT 1 FROM environment WHERE id = NEW.id OR (workspace = NEW.workspace AND name = NEW.name))
BEGIN SELECT RAISE(ABORT, 'an environment is never replaced'); END;

CREATE TRIGGER environment_not_moved BEFORE UPDATE ON environment
WHEN NEW.id <> OLD.id OR NEW.workspace <> OLD.workspace OR EXISTS (
    SELECT 1 FROM environment WHERE id <> OLD.id AND workspace = NEW.workspace AND name = NEW.name)
BEGIN SELECT RAISE(ABORT, 'an environment is never replaced'); END;

CREATE TRIGGER revision_not_replaced BEFORE INSERT ON revision
WHEN EXISTS (
    SELECT 1 FROM revision
    WHERE id = NEW.id OR (environment = NEW.environment AND (number = NEW.number OR digest = NEW.digest)))
BEGIN SELECT RAISE(ABORT, 'revisions are immutable'); END;
CREATE TRIGGER revision_not_updated BEFORE UPDATE ON revision
BEGIN SELECT RAISE(ABORT, 'revisions are immutable'); END;
CREATE TRIGGER revision_not_deleted BEFORE DELETE ON revision
WHEN EXISTS (SELECT 1 FROM environment WHERE id = OLD.environment)
BEGIN SELECT RAISE(ABORT, 'revisions are immutable'); END;

CREATE TRIGGER sighting_not_replaced BEFORE INSERT ON sighting
WHEN EXISTS (SELECT 1 FROM sighting WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'sightings are immutable'); END;
CREATE TRIGGER sighting_not_updated BEFORE UPDATE ON sighting
BEGIN SELECT RAISE(ABORT, 'sightings are immutable'); END;
CREATE TRIGGER sighting_not_deleted BEFORE DELETE ON sighting
WHEN EXISTS (SELECT 1 FROM revision WHERE id = OLD.revision)
BEGIN SELECT RAISE(ABORT, 'sightings are immutable'); END;

CREATE TRIGGER pin_not_replaced BEFORE INSERT ON pin
WHEN EXISTS (SELECT 1 FROM pin WHERE id = NEW.id OR (revision = NEW.revision AND service = NEW.service))
BEGIN SELECT RAISE(ABORT, 'pins are immutable'); END;
CREATE TRIGGER pin_not_updated BEFORE UPDATE ON pin
BEGIN SELECT RAISE(ABORT, 'pins are immutable'); END;
CREATE TRIGGER pin_not_deleted BEFORE DELETE ON pin
WHEN EXISTS (SELECT 1 FROM revision WHERE id = OLD.revision)
BEGIN SELECT RAISE(ABORT, 'pins are immutable'); END;
