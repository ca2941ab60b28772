-- Functions keep their plans in each session of the server, also behind a pooler. So the statement of a batch is not planned anew.

-- Appends the rows of a batch to a run, if the run is as the batch expects. Returns the run's number, or null.
CREATE FUNCTION baton.append(
    of_run text, of_epoch bigint, expected bigint, new_last bigint, new_link bytea, new_updated bigint, new_status text, releases boolean,
    before bytea, firsts bigint[], lasts bigint[], checksums bigint[], links bytea[], texts text[], of_tasks bigint[], of_places bigint[]
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
BEGIN
    UPDATE baton.runs SET last_seq = new_last, link = new_link, updated = coalesce(new_updated, updated),
        status = coalesce(new_status, status), owner = CASE WHEN releases THEN NULL ELSE owner END
    WHERE id = of_run AND epoch = of_epoch AND last_seq = expected AND link = before RETURNING run INTO number;
    IF number IS NULL THEN
        RETURN NULL;
    END IF;
    IF cardinality(firsts) = 1 THEN
        INSERT INTO baton.entries (run, first, last, checksum, link, entries)
        VALUES (number, firsts[1], lasts[1], checksums[1], links[1], texts[1]);
    ELSE
        INSERT INTO baton.entries (run, first, last, checksum, link, entries)
        SELECT number, g.* FROM unnest(firsts, lasts, checksums, links, texts) AS g;
    END IF;
    IF cardinality(of_tasks) = 1 THEN
        INSERT INTO baton.places (run, task, last) VALUES (number, of_tasks[1], of_places[1]);
    ELSE
        INSERT INTO baton.places (run, task, last) SELECT number, g.* FROM unnest(of_tasks, of_places) AS g;
    END IF;
    RETURN number;
END
$$;
