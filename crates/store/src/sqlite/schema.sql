-- A run as lists show it. Numbers are never used again: one that `gc` freed still names its grave.
CREATE TABLE runs (
    no            INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant        TEXT    NOT NULL,
    run           TEXT    NOT NULL,
    status        TEXT    NOT NULL CHECK (status IN ('running', 'completed', 'failed', 'cancelled')),
    title         TEXT    NOT NULL,
    definition    TEXT    NOT NULL,
    model         TEXT    NOT NULL,
    dir           TEXT    NOT NULL,
    session_id    TEXT,
    created_at_ms INTEGER NOT NULL,
    ended_at_ms   INTEGER,
    UNIQUE (tenant, run)
) STRICT;

-- What changes with every commit, apart from the wide rows: where the journal ends and who may go on.
CREATE TABLE heads (
    run_no         INTEGER PRIMARY KEY REFERENCES runs (no),
    tenant         TEXT    NOT NULL,
    seq            INTEGER NOT NULL CHECK (seq >= 0),
    hash           BLOB    NOT NULL CHECK (length(hash) = 32),
    posts          INTEGER NOT NULL,
    epoch          INTEGER NOT NULL CHECK (epoch >= 1),
    owner          TEXT,
    owner_pid      INTEGER,
    boot           TEXT,
    lease_until_ms INTEGER NOT NULL
) STRICT;

-- The journal. The id is the run's number times 2^40 plus the event's: a run's events lie together and in order,
-- and a gap shows, without a second tree.
CREATE TABLE events (
    id      INTEGER PRIMARY KEY,
    tenant  TEXT    NOT NULL,
    agent   TEXT    NOT NULL,
    kind    TEXT    NOT NULL,
    at_ms   INTEGER NOT NULL,
    version INTEGER NOT NULL,
    payload TEXT    NOT NULL,
    hash    BLOB    NOT NULL CHECK (length(hash) = 32)
) STRICT;

-- Runs that gc may remove or has removed, with the head that an exported copy can be compared with.
CREATE TABLE removed_runs (
    run_no        INTEGER PRIMARY KEY,
    tenant        TEXT    NOT NULL,
    run           TEXT    NOT NULL,
    head_seq      INTEGER NOT NULL,
    head_hash     BLOB    NOT NULL,
    removed_at_ms INTEGER NOT NULL
) STRICT;

CREATE TRIGGER events_never_change BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;

CREATE TRIGGER events_never_go BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM removed_runs WHERE run_no = OLD.id >> 40)
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;

-- What never changes about an agent; wide, written once. The id is the run's number times 2^40 plus the agent's
-- place in the order of creation.
CREATE TABLE agent_terms (
    id                INTEGER PRIMARY KEY,
    tenant            TEXT    NOT NULL,
    parent            TEXT,
    parent_message_id TEXT,
    depth             INTEGER NOT NULL CHECK (depth >= 0),
    definition        TEXT    NOT NULL,
    contract_json     TEXT    NOT NULL,
    permissions_json  TEXT    NOT NULL,
    created_at_ms     INTEGER NOT NULL
) STRICT;
CREATE INDEX agent_terms_by_parent ON agent_terms (tenant, parent) WHERE parent IS NOT NULL;

-- What changes about an agent; narrow, written with most of its commits.
CREATE TABLE agents (
    run_no             INTEGER NOT NULL REFERENCES runs (no),
    agent              TEXT    NOT NULL,
    tenant             TEXT    NOT NULL,
    terms              INTEGER NOT NULL,
    state              TEXT    NOT NULL
        CHECK (state IN ('created', 'running', 'waiting_for_merge', 'completed', 'failed', 'closed')),
    final_status       TEXT CHECK (final_status IN ('completed', 'failed')),
    close_reason       TEXT,
    result             TEXT,
    error              TEXT,
    usage_json         TEXT    NOT NULL,
    subtree_usage_json TEXT    NOT NULL,
    completed_at_ms    INTEGER,
    PRIMARY KEY (run_no, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX agents_by_state ON agents (tenant, state);

CREATE VIEW sub_agents AS
SELECT a.agent                                            AS id,
       t.parent                                           AS parent_id,
       t.parent_message_id                                AS parent_message_id,
       t.definition                                       AS definition,
       a.state                                            AS state,
       json_extract(t.contract_json, '$.step.description') AS prompt,
       a.result                                           AS result,
       a.error                                            AS error,
       t.permissions_json                                 AS effective_permissions_json,
       t.contract_json                                    AS context_json,
       t.created_at_ms                                    AS created_at,
       a.completed_at_ms                                  AS completed_at
FROM agents AS a
JOIN agent_terms AS t ON t.id = a.terms
WHERE t.depth >= 1;

-- Long texts by content. Those too long for the database have no content here: it is in a file.
CREATE TABLE blobs (
    id      INTEGER PRIMARY KEY,
    tenant  TEXT    NOT NULL,
    hash    BLOB    NOT NULL CHECK (length(hash) = 32),
    bytes   INTEGER NOT NULL,
    content BLOB,
    UNIQUE (tenant, hash)
) STRICT;

-- Commands that wait for the owner of a run.
CREATE TABLE mailbox (
    run_no  INTEGER NOT NULL REFERENCES runs (no),
    id      INTEGER NOT NULL,
    tenant  TEXT    NOT NULL,
    command TEXT    NOT NULL,
    PRIMARY KEY (run_no, id)
) STRICT, WITHOUT ROWID;
