-- Runs that have not ended: those that a process can claim are found without reading the many that have.
CREATE INDEX open_runs ON runs (tenant, no) WHERE ended_at_ms IS NULL;

-- The numbers of the events that describe what an agent waits for. Rows of runs that have not ended were written without
-- them, so their readers must read the journal until the row is written again.
ALTER TABLE agents ADD COLUMN events_in_force TEXT;
UPDATE agents SET events_in_force = 'unknown'
WHERE state <> 'closed' AND run_no IN (SELECT no FROM runs WHERE ended_at_ms IS NULL);
