-- What the jobs of a lane ask of a worker: arch=arm64,gpu=true; empty for most.
ALTER TABLE haulier.lanes ADD COLUMN runs_on text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE haulier.lanes ADD UNIQUE (tenant, queue, type, kind, runs_on);
ALTER TABLE haulier.lanes DROP CONSTRAINT lanes_tenant_queue_type_kind_key;

CREATE OR REPLACE VIEW haulier.job AS
SELECT s.id, l.tenant, l.queue, l.type, l.kind, -s.rank AS priority,
	(ARRAY['blocked', 'scheduled', 'pending', 'claimed', 'running', 'succeeded', 'failed', 'cancelled', 'collapsed'])[s.state] AS state,
	s.attempt, s.worker, s.reason, j.created_at, s.updated_at,
	CASE WHEN s.spot IN (2, 3) THEN s.at END AS run_at,
	CASE WHEN s.spot >= 6 THEN s.at END AS purge_at,
	s.session, s.rev, l.runs_on
FROM haulier.status s JOIN haulier.jobs j USING (id) JOIN haulier.lanes l ON l.id = s.lane;
