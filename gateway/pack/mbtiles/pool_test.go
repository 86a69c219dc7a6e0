package mbtiles

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// heapUsed returns the memory that SQLite has now.
func heapUsed() int64 {
	tls := libc.NewTLS()
	defer tls.Close()
	return sqlite3.Xsqlite3_memory_used(tls)
}

// pyramid returns a pack with all tiles of zooms 0 to z, each of n bytes that name its coordinate.
func pyramid(t testing.TB, z uint8, n int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pyramid")
	buildFile(t, path, tables, func(db *sqlite.Conn) (err error) {
		defer sqlitex.Transaction(db)(&err)
		for z := range z + 1 {
			for i := range 1 << (2 * z) {
				c := tile.Coord{Z: z, X: uint32(i) & (1<<z - 1), Y: uint32(i) >> z}
				if err := insert(db, c, content(c, n)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// content is the tile of a pyramid.
func content(c tile.Coord, n int) []byte {
	s := png1 + c.String()
	return []byte(s + strings.Repeat(".", n-len(s)))
}

// TestReaders: many readers of several archives share few connections, and each gets its own tile.
func TestReaders(t *testing.T) {
	pack := pyramid(t, 4, 3000)
	pool := testPool(t, 3)
	var archives []*Archive
	for range 8 {
		a, err := Open(t.Context(), &memory{bytes: pack}, pool)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, a)
	}
	var wg sync.WaitGroup
	for g := range 24 {
		wg.Go(func() {
			for i := range 60 {
				c := tile.Coord{Z: 4, X: uint32(g+i) % 16, Y: uint32(g*i) % 16}
				got, err := get(archives[(g+i/20)%len(archives)], c)
				if err != nil || string(got) != string(content(c, 3000)) {
					t.Errorf("%s: %d bytes, %v", c, len(got), err)
				}
			}
		})
	}
	wg.Wait()
	if pool.open > 3 || pool.open != len(pool.idle) {
		t.Errorf("%d connections are open, %d idle", pool.open, len(pool.idle))
	}
	for _, a := range archives {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	if pool.open != 0 {
		t.Errorf("%d connections are open after all archives are closed", pool.open)
	}
}

// TestCancel: a query that runs ends with its context, and its connection is closed.
func TestCancel(t *testing.T) {
	rows := "INSERT INTO t SELECT 0, a.value, 0, x'89504e470d0a1a0a' FROM json_each('[" +
		strings.Repeat("1,", 300) + "1]') a;\n"
	// Tile 0/0/0 is found at once, and any other one after 300^5 steps.
	pack := build(t, view("SELECT t.z AS zoom_level, b.x AS tile_column, t.y AS tile_row, c.d AS tile_data "+
		"FROM t, t AS b, t AS c, t AS d, t AS e")+rows)
	pool := testPool(t, 2)
	a := &Archive{src: &memory{bytes: pack}, pool: pool, tables: map[string]bool{"tiles": true, "t": true}}
	a.gate = pool.gate // mounting would refuse the pack
	ctx, cancel := context.WithCancel(t.Context())
	query := func(conn *conn) error {
		steps := 0
		look := conn.hooks.progress
		conn.hooks.progress = func(tls *libc.TLS, arg uintptr) int32 {
			if steps++; steps == 3 {
				cancel()
			}
			return look(tls, arg)
		}
		if err := conn.hooks.install(conn.db); err != nil {
			return err
		}
		const sql = "SELECT count(*) FROM tiles WHERE tile_data < zoom_level"
		err := conn.query(ctx, lookBudget, "cannot count", sql, nil,
			func(*sqlite.Stmt) (bool, error) { return false, nil })
		if steps != 3 {
			t.Errorf("it ran %d steps", steps)
		}
		return err
	}
	if err := pool.with(ctx, a, query); status.Of(err) != status.Canceled {
		t.Errorf("got %v", err)
	}
	if pool.open != 0 {
		t.Errorf("%d connections are open", pool.open)
	}
}

// TestFrees: SQLite's memory is back where it was when archives are closed, also those that failed.
func TestFrees(t *testing.T) {
	good := pyramid(t, 3, 500)
	bad := append([]byte(nil), good...)
	for i := 4096 + 8; i < len(bad); i += 97 {
		bad[i] ^= 0x55
	}
	pool := testPool(t, 4)
	before := int64(0)
	for i := range 40 {
		for _, pack := range [][]byte{good, bad} {
			a, err := Open(t.Context(), &memory{bytes: pack}, pool)
			if err != nil {
				continue
			}
			_, _ = a.Sample(t.Context())
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
		if i == 0 {
			before = heapUsed()
		}
	}
	if now := heapUsed(); now > before {
		t.Errorf("SQLite holds %d bytes, %d at the beginning", now, before)
	}
}

// TestIdleArchives: archives that nobody reads cost little, and no more connections than allowed.
func TestIdleArchives(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine opens a thousand packs")
	}
	pack := build(t, tables+onePNG+"INSERT INTO metadata VALUES ('name', 'a'), ('bounds', '-180,-85,180,85');")
	pool := testPool(t, maxConns)
	rss, heap := resident(t), goHeap()
	const n = 1000
	archives := make([]*Archive, n)
	for i := range archives {
		a, err := Open(t.Context(), &memory{bytes: pack}, pool)
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = a
	}
	if pool.open != maxConns {
		t.Errorf("%d connections are open", pool.open)
	}
	perPack := (goHeap() - heap) / n
	t.Logf("a pack: %d bytes of Go's heap; all: %d KiB of RSS, %d KiB of SQLite in %d connections", perPack,
		(resident(t)-rss)>>10, heapUsed()>>10, pool.open)
	if perPack > 8<<10 {
		t.Errorf("a pack takes %d bytes", perPack)
	}
	if used := heapUsed() / maxConns; used > 512<<10 {
		t.Errorf("a connection takes %d bytes", used)
	}
	for _, a := range archives {
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func goHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// resident returns the resident memory of the process, 0 where it is not known.
func resident(t *testing.T) int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Logf("no RSS: %v", err)
		return 0
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// TestBusy: more queries than may wait are refused.
func TestBusy(t *testing.T) {
	a := open(t, build(t, tables+onePNG))
	var held []func()
	for range connsOfArchive {
		leave, err := a.gate.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, leave)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[status.Outcome]int{}
	for range waitingOfArchive + 1 {
		wg.Go(func() {
			_, err := a.Read(ctx, nil, tile.Place{})
			mu.Lock()
			defer mu.Unlock()
			if outcomes[status.Of(err)]++; status.Of(err) == status.Busy {
				cancel()
			}
		})
	}
	wg.Wait()
	cancel()
	if outcomes[status.Busy] != 1 || outcomes[status.Canceled] != waitingOfArchive {
		t.Errorf("%v", outcomes)
	}
	for _, leave := range held {
		leave()
	}
	if _, err := get(a, tile.Coord{}); err != nil {
		t.Error(err)
	}
}

// TestBeside: what is beside a file decides, and nothing is made beside it.
func TestBeside(t *testing.T) {
	hot := []byte(journalMagic + strings.Repeat("\x00", 504))
	for name, tt := range map[string]struct {
		suffix  string // of the file beside
		content []byte
		want    status.Outcome
		says    string
	}{
		"nothing":       {".txt", hot, status.OK, ""},
		"empty log":     {"-wal", nil, status.OK, ""},
		"log":           {"-wal", []byte{0x37}, status.NotReady, "a b.mbtiles' 'PRAGMA wal_checkpoint(TRUNCATE)'"},
		"old journal":   {"-journal", make([]byte, 512), status.OK, ""},
		"empty journal": {"-journal", nil, status.OK, ""},
		"hot journal":   {"-journal", hot, status.NotReady, "a b.mbtiles' 'SELECT count(*)"},
	} {
		path := filepath.Join(t.TempDir(), "a b.mbtiles")
		if err := os.WriteFile(path+tt.suffix, tt.content, 0o600); err != nil {
			t.Fatal(err)
		}
		err := CheckBeside(path)
		if status.Of(err) != tt.want || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]string{
		"a/b-c_1.mbtiles": "a/b-c_1.mbtiles", "it's": `'it'\''s'`, "$x": "'$x'", "-v": "./-v", "é": "'é'",
	} {
		if got := argument(name); got != want {
			t.Errorf("%q is written %s, want %s", name, got, want)
		}
	}
}

// TestNothingBeside: reading a file in WAL mode leaves the directory as it was, even one that can be written.
func TestNothingBeside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pack.mbtiles")
	pack := build(t, tables+onePNG)
	pack[18], pack[19] = 2, 2
	if err := os.WriteFile(path, pack, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := CheckBeside(path); err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), onDisk{f, int64(len(pack))}, testPool(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	beside := func(when string) {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Errorf("%s: %v, %v", when, entries, err)
		}
	}
	if _, err := get(a, tile.Coord{}); err != nil {
		t.Error(err)
	}
	beside("open")
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	beside("closed")
	if now, err := os.ReadFile(path); err != nil || string(now) != string(pack) {
		t.Errorf("the file has changed: %v", err)
	}
}

// onDisk is a pack in a file.
type onDisk struct {
	f    *os.File
	size int64
}

func (d onDisk) Size() int64 { return d.size }

func (d onDisk) ReadAt(ctx context.Context, p []byte, off int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := d.f.ReadAt(p, off)
	return err
}

// BenchmarkTile reads tiles of 20 KiB of a file in the page cache: Find and Read.
func BenchmarkTile(b *testing.B) {
	for _, name := range []string{"table", "view"} {
		b.Run(name, func(b *testing.B) { benchmarkTile(b, name == "view") })
	}
}

func benchmarkTile(b *testing.B, deduplicated bool) {
	path := filepath.Join(b.TempDir(), "pack")
	pack := pyramid(b, 6, 20<<10)
	if err := os.WriteFile(path, pack, 0o600); err != nil {
		b.Fatal(err)
	}
	if deduplicated {
		buildFile(b, path, `
CREATE TABLE map (zoom_level integer, tile_column integer, tile_row integer, tile_id integer);
CREATE TABLE images (tile_id integer primary key, tile_data blob);
INSERT INTO map SELECT zoom_level, tile_column, tile_row, rowid FROM tiles;
INSERT INTO images SELECT rowid, tile_data FROM tiles;
CREATE UNIQUE INDEX map_index ON map (zoom_level, tile_column, tile_row);
DROP TABLE tiles;
CREATE VIEW tiles AS SELECT zoom_level, tile_column, tile_row, tile_data FROM map JOIN images USING (tile_id);`, nil)
	}
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	a, err := Open(b.Context(), onDisk{f, info.Size()}, testPool(b, maxConns))
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	b.SetBytes(20 << 10)
	b.ReportAllocs()
	b.ResetTimer()
	buf := make([]byte, 0, 32<<10)
	for i := range b.N {
		p, err := a.Find(b.Context(), tile.Coord{Z: 6, X: uint32(i*7) % 64, Y: uint32(i*13) / 64 % 64})
		if err == nil {
			buf, err = a.Read(b.Context(), buf[:0], p)
		}
		if err != nil || len(buf) != 20<<10 {
			b.Fatal(len(buf), err)
		}
	}
}

// BenchmarkOpen mounts a pack.
func BenchmarkOpen(b *testing.B) {
	pack, err := os.ReadFile("testdata/world_cities.mbtiles")
	if err != nil {
		b.Fatal(err)
	}
	pool := testPool(b, 4)
	for b.Loop() {
		a, err := Open(b.Context(), &memory{bytes: pack}, pool)
		if err != nil {
			b.Fatal(err)
		}
		if err := a.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
