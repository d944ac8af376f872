-- A file as schema version 1 has it, written by `sqlite3 FILE .dump` and two lines for its head.
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES('boot',7);
INSERT INTO meta VALUES('min_reader',1);
INSERT INTO meta VALUES('program','symphony 0.1.0');
INSERT INTO meta VALUES('syncs',0);
CREATE TABLE operator (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    body TEXT NOT NULL
) STRICT;
INSERT INTO operator VALUES(1,'{"paused":true}');
CREATE TABLE totals (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    body TEXT NOT NULL
) STRICT;
INSERT INTO totals VALUES(1,'{"tokens":{"input":120000,"cached_input":90000,"output":4000,"reasoning_output":1500,"total":124000},"cost":250000,"runtime":{"secs":150,"nanos":7},"started":2,"done":0,"succeeded":0,"out_of_turns":0,"failed":0,"cancelled":0,"input_required":1}');
CREATE TABLE polls (
    scope TEXT PRIMARY KEY,
    body TEXT NOT NULL
) STRICT;
INSERT INTO polls VALUES('linear:team','{"scope":"linear:team","last_runs":{"candidates":1790000160000,"refresh":1790000150000,"custom:report":1790000000000},"spent":{"day":20717,"requests":{"candidates":40,"tool":3}}}');
CREATE TABLE hold (
    agent TEXT PRIMARY KEY,
    body TEXT NOT NULL
) STRICT;
INSERT INTO hold VALUES('codex','{"agent":"codex","due":{"at":1790003600000,"span_ms":3600000},"failure":{"kind":{"agent":"usage_limit"},"message":"usage limit reached\ntry again at 9 🦀","retry_after":{"secs":3600,"nanos":5}}}');
CREATE TABLE claim (
    scope TEXT NOT NULL,
    issue TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (scope, issue)
) STRICT;
INSERT INTO claim VALUES('linear:team','id-1','{"scope":"linear:team","issue":{"id":"id-1","identifier":"MT-1","title":"Mend the gate","state":"In Progress","state_kind":"started","priority":2,"created_at":1790000000000,"updated_at":1790000100000,"dispatchable":false,"kept_back_by":"assigned to ada","labels":["bug","wood"],"blocked_by":[{"id":"id-0","identifier":"MT-0","state":"Done","state_kind":"completed"},{}],"description":null,"branch_name":"ada/mt-1","url":"https://example.com/MT-1","assignee_id":"user-1","native_ref":{"nothing":null,"number":0.1,"team":"T1"}},"key":"MT-1","host":"local","stage":"blocked","attempt":3,"failure":{"kind":{"agent":"usage_limit"},"message":"usage limit reached\ntry again at 9 🦀","retry_after":{"secs":3600,"nanos":5}},"unchanged_ends":1,"interruptions":2,"due":{"at":1790000200000,"span_ms":10000},"thread":"thread-1","agent":"codex","unanswered":true,"asked":{"client_id":"7.1/2","number":2},"counted":{"thread-1":{"tokens":{"input":120000,"cached_input":90000,"output":4000,"reasoning_output":1500,"total":124000},"cost":250000}},"question":{"id":"q-1","kind":"choice","items":[{"id":"colour","text":"Which colour?","options":[{"label":"red","description":"as the door"},{"label":"green","description":null}],"accepts_other":true,"is_secret":false}]},"since":1790000150000,"seen":true}');
INSERT INTO claim VALUES('linear:team','id-2','{"scope":"linear:team","issue":{"id":"id-2","identifier":"MT-2","title":"Paint it","state":"Todo","state_kind":null,"priority":null,"created_at":null,"updated_at":null,"dispatchable":true,"labels":[],"blocked_by":[],"description":null,"branch_name":null,"url":null,"assignee_id":null,"native_ref":null},"key":"MT-2","host":"local","stage":"waiting","unchanged_ends":0,"interruptions":0,"unanswered":false,"seen":false}');
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
INSERT INTO run VALUES(7,2,'linear:team','id-2',1790000100000,NULL,'{"run":{"boot":7,"number":2},"scope":"linear:team","issue":"id-2","identifier":"MT-2","title":"","agent":"","host":"local","began":1790000100000,"turns":0,"tokens":{"input":0,"cached_input":0,"output":0,"reasoning_output":0,"total":0}}');
INSERT INTO run VALUES(7,1,'linear:team','id-1',1790000000000,1790000150000,'{"run":{"boot":7,"number":1},"scope":"linear:team","issue":"id-1","identifier":"MT-1","title":"Mend the gate","state":"In Progress","attempt":3,"agent":"codex","host":"local","began":1790000000000,"ended":1790000150000,"outcome":"input_required","failure":{"kind":{"agent":"usage_limit"},"message":"usage limit reached\ntry again at 9 🦀","retry_after":{"secs":3600,"nanos":5}},"turns":2,"model":"gpt-5","effort":"high","thread":"thread-1","tokens":{"input":120000,"cached_input":90000,"output":4000,"reasoning_output":1500,"total":124000},"cost":250000}');
CREATE INDEX run_issue ON run (issue, began);
CREATE INDEX run_began ON run (began);
CREATE INDEX run_open ON run (boot, number) WHERE ended IS NULL;
COMMIT;
PRAGMA application_id = 1400466800;
PRAGMA user_version = 1;
