-- A row is its JSON, `body`; other columns repeat what rows are found by.
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE operator (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    body TEXT NOT NULL
) STRICT;

CREATE TABLE totals (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    body TEXT NOT NULL
) STRICT;

CREATE TABLE polls (
    scope TEXT PRIMARY KEY,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE hold (
    agent TEXT PRIMARY KEY,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE claim (
    scope TEXT NOT NULL,
    issue TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (scope, issue)
) STRICT;

-- Times are milliseconds since 1970. A number beyond the signed ones is stored as a negative one.
CREATE TABLE run (
    boot INTEGER NOT NULL,
    number INTEGER NOT NULL,
    scope TEXT NOT NULL,
    issue TEXT NOT NULL,
    began INTEGER NOT NULL,
    ended INTEGER,
    body TEXT NOT NULL,
    PRIMARY KEY (boot, number)
) STRICT;

CREATE INDEX run_issue ON run (issue, began);
CREATE INDEX run_began ON run (began);
CREATE INDEX run_open ON run (boot, number) WHERE ended IS NULL;

INSERT INTO meta (key, value) VALUES ('syncs', 0);
