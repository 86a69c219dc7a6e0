package mbtiles

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"allium/protocols/status"
)

// view is a schema whose tiles are a view of table t.
func view(query string) string {
	return `CREATE TABLE metadata (name text, value text);
CREATE TABLE t (z integer, x integer, y integer, d blob);
INSERT INTO t VALUES (0, 0, 0, x'89504e470d0a1a0a0000000d49484452');
CREATE VIEW tiles AS ` + query + ";\n"
}

// columns are those of t by the names that tiles must have.
const columns = "z AS zoom_level, x AS tile_column, y AS tile_row, d AS tile_data"

// data is a view whose tiles are the value of an expression.
func data(expression string) string {
	return view("SELECT z AS zoom_level, x AS tile_column, y AS tile_row, " + expression + " AS tile_data FROM t")
}

// manyRows fills t.
var manyRows = "INSERT INTO t SELECT a.value, b.value, 0, x'00' FROM json_each('[1,2,3,4,5,6,7,8,9]') a, " +
	"json_each('[" + strings.Repeat("1,", 500) + "1]') b;\n"

// numbered returns n texts, each with its number.
func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(format, "#", fmt.Sprint(i)))
	}
	return b.String()
}

// TestHostileSchemas: each is refused in bounded time, memory and reads, mostly before a query runs.
func TestHostileSchemas(t *testing.T) {
	const endless = `CREATE VIEW tiles AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)
SELECT n AS zoom_level, n AS tile_column, n AS tile_row, x'00' AS tile_data FROM r WHERE n < 0;`
	const noTiles = "CREATE TABLE metadata (name, value); "
	doubled := noTiles + "CREATE TABLE t (z, x, y, d); CREATE VIEW v0 AS SELECT * FROM t;\n"
	for i := range 40 {
		doubled += fmt.Sprintf("CREATE VIEW v%d AS SELECT * FROM v%d UNION ALL SELECT * FROM v%d;\n", i+1, i, i)
	}
	nested := "t"
	for range 12 {
		nested = "(SELECT z, x, y, d || d || d || d AS d FROM " + nested + ")"
	}
	for name, tt := range map[string]struct {
		script string
		want   status.Outcome
	}{
		"endless": {noTiles + endless, status.Unsupported},
		"endless metadata": {tables + "DROP TABLE metadata;" + strings.Replace(endless, "tiles", "metadata", 1),
			status.Unsupported},
		"cross join": {view("SELECT t.z AS zoom_level, b.x AS tile_column, c.x AS tile_row, d.d AS tile_data "+
			"FROM t, t AS b, t AS c, t AS d, t AS e WHERE e.x + d.x < 0") + manyRows, status.Unsupported},
		"sorted": {view("SELECT t.z AS zoom_level, b.x AS tile_column, t.y AS tile_row, b.d AS tile_data "+
			"FROM t, t AS b ORDER BY b.d || t.d, t.x || b.x LIMIT 1000000000") + manyRows +
			"DELETE FROM t WHERE rowid > 60; UPDATE t SET d = zeroblob(10000);", status.Unsupported},
		"views of views": {doubled + "CREATE VIEW tiles AS SELECT " + columns + " FROM v40", status.Unsupported},
		"quoted view": {view("SELECT "+columns+` FROM "a""b"`) + `CREATE VIEW "a""b" AS SELECT * FROM t;`,
			status.Unsupported},
		"common tables": {view("WITH c0 AS (SELECT * FROM t)" + numbered(60, ", d# AS (SELECT a.* FROM c0 a, c0 b)") +
			" SELECT " + columns + " FROM d59"), status.Unsupported},
		"subqueries": {view("SELECT " + columns + " FROM " + nested), status.Unsupported},
		"long view":  {data("d" + strings.Repeat(" ", maxView)), status.Unsupported},
		"circle": {noTiles + "CREATE VIEW a AS SELECT * FROM tiles; CREATE VIEW tiles AS SELECT * FROM a;",
			status.Unsupported},
		"zeroblob":        {data("zeroblob(1000000000)"), status.Unsupported},
		"printf":          {data("printf('%1000000000d', 1)"), status.Unsupported},
		"load_extension":  {data("load_extension('x')"), status.Corrupt},
		"readfile":        {data("readfile('/etc/passwd')"), status.Corrupt},
		"like":            {data("d LIKE '%a%a%a%a%b'"), status.Unsupported},
		"JSON table":      {view("SELECT " + columns + " FROM t, json_each('[1]')"), status.Unsupported},
		"pages":           {view("SELECT 0 AS zoom_level, data AS tile_data FROM sqlite_dbpage"), status.Corrupt},
		"schema":          {view("SELECT 0 AS zoom_level, sql AS tile_data FROM sqlite_schema"), status.Unsupported},
		"pragma":          {view("SELECT 0 AS zoom_level, name AS tile_data FROM pragma_table_list"), status.Corrupt},
		"virtual":         {noTiles + "CREATE VIRTUAL TABLE tiles USING fts5(tile_data);", status.Unsupported},
		"virtual other":   {tables + onePNG + "CREATE VIRTUAL TABLE x USING rtree(a, b, c);", status.Unsupported},
		"generated":       {noTiles + "CREATE TABLE tiles (zoom_level, tile_data AS (hex(1)));", status.Unsupported},
		"many tables":     {tables + onePNG + numbered(maxObjects, "CREATE TABLE t# (a);"), status.Unsupported},
		"wide":            {view("SELECT " + strings.Repeat("z, ", 500) + columns + " FROM t"), status.Corrupt},
		"deep expression": {data(strings.Repeat("abs(", 80) + "d" + strings.Repeat(")", 80)), status.Corrupt},
		"many SELECTs":    {view(strings.Repeat("SELECT * FROM t UNION ALL ", 20) + "SELECT * FROM t"), status.Corrupt},
		"large schema": {tables + onePNG + numbered(40, "CREATE TABLE t# (a /*"+strings.Repeat("x", 50000)+"*/);"),
			status.Unsupported},
		"long statement": {tables + "CREATE TABLE x (a /*" + strings.Repeat("x", maxSQL) + "*/);", status.Corrupt},
	} {
		t.Run(name, func(t *testing.T) {
			src := &memory{bytes: build(t, tt.script)}
			pool := testPool(t, 1)
			var atFirst, now runtime.MemStats
			runtime.ReadMemStats(&atFirst)
			before := heapPeak(true)
			start := time.Now()
			_, err := Open(t.Context(), src, pool)
			more := heapPeak(false) - before
			runtime.ReadMemStats(&now)
			allocated := now.TotalAlloc - atFirst.TotalAlloc
			read := src.read.Load()
			t.Logf("%s, %d KiB read, %d KiB of SQLite, %d KiB of Go: %v", time.Since(start), read>>10, more>>10,
				allocated>>10, err)
			if status.Of(err) != tt.want {
				t.Errorf("got %v (%s), want %s", err, status.Of(err), tt.want)
			}
			if more > 8<<20 || allocated > 8<<20 || read > 1<<20 {
				t.Errorf("it took %d bytes of SQLite, %d bytes of Go and %d bytes of reads", more, allocated, read)
			}
			if pool.open != 0 {
				t.Errorf("%d connections stayed open", pool.open)
			}
		})
	}
}

// TestHeap: an expression that makes hundreds of large values from a small one is bounded by the memory of
// SQLite as a whole, and harms nobody afterwards.
func TestHeap(t *testing.T) {
	pool := testPool(t, 2)
	heapPeak(true)
	const depth = 30 // each level holds seven values of 16 MB
	script := data(strings.Repeat("max("+strings.Repeat("d || d, ", 7), depth)+"d"+strings.Repeat(")", depth)) +
		"UPDATE t SET d = zeroblob(8000000);"
	_, err := Open(t.Context(), &memory{bytes: build(t, script)}, pool)
	if status.Of(err) != status.Busy {
		t.Errorf("got %v", err)
	}
	if peak := heapPeak(false); peak > heapBytes || peak < heapBytes/2 {
		t.Errorf("SQLite took %d bytes", peak)
	}
	a, err := Open(t.Context(), &memory{bytes: build(t, tables+onePNG)}, pool)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// heapPeak returns the most memory that SQLite had, and begins anew if reset is set.
func heapPeak(reset bool) int64 {
	tls := libc.NewTLS()
	defer tls.Close()
	if reset {
		sqlite3.Xsqlite3_memory_highwater(tls, 1)
	}
	return sqlite3.Xsqlite3_memory_highwater(tls, 0)
}
