package mbtiles

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"modernc.org/libc"
	"zombiezen.com/go/sqlite"

	"allium/gateway/pack/tile"
	"allium/internal/printable"
	"allium/protocols/status"
)

// conn is one connection to SQLite. One goroutine uses it at a time.
type conn struct {
	archive *Archive
	db      *sqlite.Conn
	file    *file
	auth    *authorizer
	hooks   hooks
	stmts   map[string]*sqlite.Stmt // by query
	remedy  string                  // of the budget of the running query
	steps   int64                   // instructions that the running query may still take
	failed  bool                    // a query failed, so the connection is closed and not given to others
}

// sqliteLimits bounds what a schema and a query may hold.
var sqliteLimits = map[sqlite.Limit]int32{
	sqlite.LimitLength:            maxLength,
	sqlite.LimitSQLLength:         maxSQL,
	sqlite.LimitColumn:            maxColumns,
	sqlite.LimitExprDepth:         maxExprDepth,
	sqlite.LimitCompoundSelect:    maxCompound,
	sqlite.LimitVDBEOp:            maxOps,
	sqlite.LimitFunctionArg:       8,
	sqlite.LimitAttached:          0,
	sqlite.LimitLikePatternLength: 64,
	sqlite.LimitVariableNumber:    8,
	sqlite.LimitTriggerDepth:      1,
	sqlite.LimitWorkerThreads:     0,
}

// settings runs before the schema is read. With temp_store=FILE, a sort or a subquery that does not fit
// the cache wants a temporary file. The file system has none, so the query fails instead of taking
// memory.
var settings = []string{
	"PRAGMA trusted_schema=OFF",
	"PRAGMA cell_size_check=ON",
	"PRAGMA query_only=ON",
	"PRAGMA automatic_index=OFF",
	"PRAGMA temp_store=FILE",
	"PRAGMA mmap_size=0",
	"PRAGMA cache_size=-" + strconv.Itoa(cacheKiB),
}

// dial opens a connection that may read the tables of a, and reads the schema.
func (p *Pool) dial(ctx context.Context, a *Archive) (*conn, error) {
	registered, err := p.start()
	if err != nil {
		return nil, err
	}
	name, f := p.files.add(a.src)
	defer p.files.remove(name)
	opening, cancel := context.WithTimeout(ctx, schemaBudget.time)
	defer cancel()
	f.begin(opening, schemaBudget.bytes) // the hooks are not there yet, and SQLite runs no query
	defer f.end()
	uri := "file:" + name + "?mode=ro&immutable=1&vfs=" + registered.name
	db, err := sqlite.OpenConn(uri, sqlite.OpenReadOnly, sqlite.OpenURI)
	conn := &conn{
		archive: a, db: db, file: f, auth: &authorizer{tables: a.tables}, stmts: map[string]*sqlite.Stmt{},
		remedy: lessText, steps: schemaBudget.steps,
	}
	if err != nil {
		return nil, conn.failure(ctx, "cannot open the pack", err)
	}
	if err := conn.setUp(); err != nil {
		return nil, errors.Join(conn.failure(ctx, "cannot open the pack", err), conn.close())
	}
	return conn, nil
}

// setUp bounds the connection.
func (c *conn) setUp() error {
	for limit, value := range sqliteLimits {
		c.db.Limit(limit, value)
	}
	if err := c.db.SetDefensive(true); err != nil {
		return err
	}
	for _, sql := range settings {
		if err := c.set(sql); err != nil {
			return err
		}
	}
	c.hooks = hooks{authorize: c.auth.authorize, progress: c.look}
	return c.hooks.install(c.db)
}

// set runs a PRAGMA. Package sqlitex panics with a damaged pack.
func (c *conn) set(sql string) error {
	stmt, _, err := c.db.PrepareTransient(sql)
	if err != nil {
		return err
	}
	_, err = stmt.Step()
	return errors.Join(err, stmt.Finalize())
}

// look ends the running query when its time is over, or its instructions.
func (c *conn) look(*libc.TLS, uintptr) int32 {
	if c.steps -= progressOps; c.steps < 0 || c.file.ctx == nil || c.file.ctx.Err() != nil {
		return 1
	}
	return 0
}

// close frees the connection.
func (c *conn) close() error { return c.db.Close() }

// query runs one query within b. It calls row for each row until that returns false or an error. what
// begins the message of a failure.
func (c *conn) query(
	ctx context.Context, b budget, what, sql string, args []int64, row func(*sqlite.Stmt) (bool, error),
) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	running, cancel := context.WithTimeout(ctx, b.time)
	defer cancel()
	c.file.begin(running, b.bytes)
	defer c.file.end()
	c.auth.begin()
	c.remedy, c.steps = b.remedy, b.steps
	stmt, err := c.prepare(sql)
	if err != nil {
		return c.failure(ctx, what, err)
	}
	defer stmt.Reset() //nolint:errcheck // it repeats the error of Step
	for i, arg := range args {
		stmt.BindInt64(i+1, arg)
	}
	for {
		more, err := stmt.Step()
		if err != nil {
			return c.failure(ctx, what, err)
		}
		if !more {
			return nil
		}
		if more, err := row(stmt); err != nil || !more {
			return err
		}
	}
}

// prepare returns the statement of a query. It is compiled once: Prepare of package sqlite clears the
// bindings of a statement that it has, and SQLite compiles one with a join again after that.
func (c *conn) prepare(sql string) (*sqlite.Stmt, error) {
	if stmt := c.stmts[sql]; stmt != nil {
		return stmt, nil
	}
	stmt, err := c.db.Prepare(sql)
	if err == nil {
		c.stmts[sql] = stmt
	}
	return stmt, err
}

// failure returns the error of a query with its outcome. The connection is closed afterwards.
func (c *conn) failure(ctx context.Context, what string, err error) error {
	c.failed = true
	switch {
	case errors.Is(c.file.err, errReadBudget):
		return status.Errorf(status.Unsupported, "%s: it takes too many reads. %s", what, c.remedy)
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("%s: %w", what, ctx.Err())
	case c.steps < 0:
		return status.Errorf(status.Unsupported, "%s: it takes too many steps. %s", what, c.remedy)
	case c.file.ctx != nil && c.file.ctx.Err() != nil:
		return status.Errorf(status.Timeout, "%s: it takes too long. %s", what, c.remedy)
	case c.file.err != nil:
		return fmt.Errorf("%s: %w", what, c.file.err)
	case c.auth.denied != "":
		return status.Errorf(status.Unsupported, "%s: its view uses %s, which is not allowed. Make tiles a table",
			what, shown(c.auth.denied))
	}
	switch code := sqlite.ErrCode(err); code.ToPrimary() {
	case sqlite.ResultTooBig:
		return status.Errorf(status.BodyCap, "%s: a value is too large. A tile may have %d bytes", what,
			tile.MaxBytes)
	case sqlite.ResultNoMem:
		return fmt.Errorf("%s: %w", what, status.BusyError(status.Busy, status.Limit{
			Name: "gateway.pack.mbtiles_memory", Current: heapBytes, Cap: heapBytes, RetryAfter: time.Second,
		}))
	case sqlite.ResultIOErr, sqlite.ResultCantOpen: // a temporary file
		return status.Errorf(status.Unsupported, "%s: it sorts or collects too much. %s", what, c.remedy)
	}
	return status.Errorf(status.Corrupt, "%s: %s", what, shown(reason(err)))
}

// reason returns what SQLite says of an error, without the query.
func reason(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, sqlite.ErrCode(err).ToPrimary().Message()); i > 0 {
		return text[i:]
	}
	return text
}

// shown returns a text of a stranger, escaped and shortened.
func shown(text string) string {
	const most = 200
	if len(text) > most {
		text = text[:most] + "…"
	}
	return printable.Name(text)
}
