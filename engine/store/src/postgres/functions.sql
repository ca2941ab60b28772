-- Each session of the server keeps the plans of functions, also behind a pooler.

-- Appends batches to their runs, each if its run is as the batch expects. Arrays up to `new_wakes` have an element for each batch. Elements
-- of the other arrays belong to the batch whose number is in the `..._batches` array beside them.
-- Returns the number of the run for each batch, or null for a batch that was not written: its run is not as it expects, or another
-- transaction has locked the run and `waits` is false.
CREATE FUNCTION baton.append(
    waits boolean, ids text[], epochs bigint[], expected bigint[], befores bytea[], new_lasts bigint[], new_links bytea[], new_moments bigint[],
    new_statuses text[], releases boolean[], new_wakes bigint[],
    entry_batches bigint[], firsts bigint[], lasts bigint[], checksums bigint[], links bytea[], texts text[],
    task_batches bigint[], keys bigint[], task_lasts bigint[],
    content_batches bigint[], hashes bytea[], contents bytea[],
    consumed_batches bigint[], numbers bigint[],
    call_batches bigint[], memories text[], agents text[], tools text[], tasks text[], calls text[], moments bigint[], inputs text[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    written bigint[];
    hit bigint; -- the number of the run
BEGIN
    FOR batch IN 1..cardinality(ids) LOOP
        hit := NULL;
        IF NOT waits THEN
            PERFORM 1 FROM baton.runs WHERE id = ids[batch] FOR NO KEY UPDATE SKIP LOCKED;
        END IF;
        IF waits OR FOUND THEN
            UPDATE baton.runs SET last_seq = new_lasts[batch], link = new_links[batch], updated = coalesce(new_moments[batch], updated),
                status = coalesce(new_statuses[batch], status), owner = CASE WHEN releases[batch] THEN NULL ELSE owner END
            WHERE id = ids[batch] AND epoch = epochs[batch] AND last_seq = expected[batch] AND link = befores[batch]
            RETURNING run INTO hit;
        END IF;
        written[batch] := hit;
        CONTINUE WHEN hit IS NULL OR NOT releases[batch];
        IF new_wakes[batch] IS NULL THEN
            DELETE FROM baton.waiting WHERE run = hit;
        ELSE
            INSERT INTO baton.waiting (run, wakes) VALUES (hit, new_wakes[batch])
            ON CONFLICT (run) DO UPDATE SET wakes = excluded.wakes;
        END IF;
    END LOOP;
    IF cardinality(firsts) > 0 THEN
        INSERT INTO baton.entries (run, first, last, checksum, link, entries)
        SELECT written[g.batch], g.first, g.last, g.checksum, g.link, g.entries
        FROM unnest(entry_batches, firsts, lasts, checksums, links, texts) AS g (batch, first, last, checksum, link, entries)
        WHERE written[g.batch] IS NOT NULL;
    END IF;
    IF cardinality(keys) > 0 THEN
        INSERT INTO baton.places (run, task, last)
        SELECT written[g.batch], g.task, g.last FROM unnest(task_batches, keys, task_lasts) AS g (batch, task, last)
        WHERE written[g.batch] IS NOT NULL;
    END IF;
    IF cardinality(hashes) > 0 THEN
        INSERT INTO baton.contents (hash, bytes)
        SELECT g.hash, g.bytes FROM unnest(content_batches, hashes, contents) AS g (batch, hash, bytes)
        WHERE written[g.batch] IS NOT NULL
        ON CONFLICT (hash) DO NOTHING;
    END IF;
    IF cardinality(numbers) > 0 THEN
        DELETE FROM baton.commands USING unnest(consumed_batches, numbers) AS g (batch, number)
        WHERE commands.run = written[g.batch] AND commands.command = g.number;
    END IF;
    IF cardinality(calls) > 0 THEN
        INSERT INTO baton.logged (run, memory, agent, tool, task, call, at, input)
        SELECT ids[g.batch], g.memory, g.agent, g.tool, g.task, g.call, g.at, g.input
        FROM unnest(call_batches, memories, agents, tools, tasks, calls, moments, inputs)
            WITH ORDINALITY AS g (batch, memory, agent, tool, task, call, at, input, place)
        WHERE written[g.batch] IS NOT NULL ORDER BY g.place;
    END IF;
    RETURN written;
END
$$;
