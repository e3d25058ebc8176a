-- Jobs and documents of Haulier. People may read all of it, best through the view haulier.job; to change it is the program's part.
-- Statements name the schema haulier, in whose place the one that was asked for is put.

-- A lane is where jobs wait; the other tables name it by its number.
CREATE TABLE haulier.lanes (
	id     int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant text COLLATE "C" NOT NULL,
	queue  text COLLATE "C" NOT NULL,
	type   text COLLATE "C" NOT NULL,
	kind   text COLLATE "C" NOT NULL,
	UNIQUE (tenant, queue, type, kind)
);

-- What was asked for: written once.
CREATE TABLE haulier.jobs (
	id         uuid PRIMARY KEY,
	lane       int NOT NULL,
	created_at timestamptz,
	spec       bytea NOT NULL
);

-- How a job stands: written anew at each change. An index is only over columns that stay as they are while a job stays at its
-- place, so that a change which does not move it touches no index.
CREATE TABLE haulier.status (
	id         uuid PRIMARY KEY,
	rev        bigint NOT NULL,
	lane       int NOT NULL,
	rank       smallint NOT NULL,  -- the priority, negated: what comes first is the lowest
	state      smallint NOT NULL,  -- 1 blocked … 9 collapsed; the view names them
	spot       smallint NOT NULL,  -- the index: the state, but 4 for claimed and running
	at         timestamptz,        -- pending: since; scheduled: until; ended: when it may be removed
	session    uuid,               -- of claimed and running jobs
	server     int NOT NULL,       -- who wrote this; 0: a program in a transaction of its own
	attempt    int NOT NULL,
	worker     text,
	reason     text,
	updated_at timestamptz,
	status     bytea NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX waiting ON haulier.status (id) WHERE spot = 1;
CREATE INDEX timers ON haulier.status (at, id) WHERE spot = 2;
CREATE INDEX ready ON haulier.status (lane, rank, at, id) WHERE spot = 3;
CREATE INDEX owned ON haulier.status (session, id) WHERE spot = 4;
CREATE INDEX done ON haulier.status (spot, lane, at, id) WHERE spot >= 6;
CREATE INDEX purge ON haulier.status (at, id) WHERE spot >= 6;

-- How many jobs there are: the sum over the slots. Writers of different slots do not wait for each other.
CREATE TABLE haulier.counts (
	state smallint NOT NULL,
	lane  int NOT NULL,
	rank  smallint NOT NULL,
	slot  smallint NOT NULL,
	n     bigint NOT NULL,
	PRIMARY KEY (state, lane, rank, slot)
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE haulier.docs (
	kind  text COLLATE "C" NOT NULL,
	key   text COLLATE "C" NOT NULL,
	rev   bigint NOT NULL,
	value bytea NOT NULL,
	PRIMARY KEY (kind, key)
);

-- When each session expires, by this server's clock. There is a row for each session's document.
CREATE TABLE haulier.leases (
	session    uuid PRIMARY KEY,
	expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE INDEX leases_end ON haulier.leases (expires_at, session);

-- What changed, a row a transaction, for the other servers to read; kept for some minutes.
CREATE TABLE haulier.changes (
	xid    xid8 NOT NULL DEFAULT pg_current_xact_id(),
	seq    bigint GENERATED ALWAYS AS IDENTITY,
	server int NOT NULL,
	serial bigint NOT NULL, -- the server's own number of the transaction
	at     timestamptz NOT NULL DEFAULT clock_timestamp(),
	body   bytea NOT NULL,
	PRIMARY KEY (xid, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);

-- Each program that opens the store takes a number.
CREATE SEQUENCE haulier.servers AS int CYCLE;

-- A crash of PostgreSQL empties what is not logged, and only that: no row says that unsynced commits may be gone.
CREATE UNLOGGED TABLE haulier.crash (
	found_at timestamptz NOT NULL -- when a server saw that there had been one; -infinity: there was none
);

CREATE VIEW haulier.job AS
SELECT s.id, l.tenant, l.queue, l.type, l.kind, -s.rank AS priority,
	(ARRAY['blocked', 'scheduled', 'pending', 'claimed', 'running', 'succeeded', 'failed', 'cancelled', 'collapsed'])[s.state] AS state,
	s.attempt, s.worker, s.reason, j.created_at, s.updated_at,
	CASE WHEN s.spot IN (2, 3) THEN s.at END AS run_at,
	CASE WHEN s.spot >= 6 THEN s.at END AS purge_at,
	s.session, s.rev
FROM haulier.status s JOIN haulier.jobs j USING (id) JOIN haulier.lanes l ON l.id = s.lane;

INSERT INTO haulier.crash VALUES ('-infinity');
