-- What PostgreSQL lacks of what the tables and queries of a results file take for granted. search_path is nearfar.

CREATE TABLE version (
    number BIGINT NOT NULL      -- of the schema; one row
);
INSERT INTO version VALUES (0);

-- The two functions of SQLite's that our queries use, for paths of one name: '$.cells'.
CREATE FUNCTION json_array_length(document TEXT, path TEXT) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT json_array_length(document::json -> substr(path, 3))::bigint $$;
CREATE FUNCTION json_each(document TEXT, path TEXT) RETURNS TABLE (value JSON) LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT json_array_elements(document::json -> substr(path, 3)) $$;
