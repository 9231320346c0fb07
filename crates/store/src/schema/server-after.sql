-- A run ends once. Who stores runs must be allowed to write run.ended, and with this can change nothing that is known.

CREATE FUNCTION keep_ending() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE insufficient_privilege USING MESSAGE = format('run %s has ended (%s)', OLD.id, OLD.ended); END $$;
CREATE TRIGGER keep_ending BEFORE UPDATE OF ended ON run FOR EACH ROW
    WHEN (OLD.ended IS NOT NULL AND OLD.ended IS DISTINCT FROM NEW.ended) EXECUTE FUNCTION keep_ending();
