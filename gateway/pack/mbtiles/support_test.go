package mbtiles

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// memory is a pack in memory. It counts the bytes that are read.
type memory struct {
	bytes []byte
	read  atomic.Int64
	fail  error // of every read past the header
}

func (m *memory) Size() int64 { return int64(len(m.bytes)) }

func (m *memory) ReadAt(ctx context.Context, p []byte, off int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.fail != nil && off+int64(len(p)) > headerSize {
		return m.fail
	}
	if off < 0 || off+int64(len(p)) > m.Size() {
		return status.Errorf(status.Corrupt, "a read past the end")
	}
	m.read.Add(int64(len(p)))
	copy(p, m.bytes[off:])
	return nil
}

// testPool returns a pool that is closed, and proved empty, when the test ends.
func testPool(t testing.TB, n int) *Pool {
	t.Helper()
	p := newPool(nil, n)
	t.Cleanup(func() {
		if err := p.Close(); err != nil || p.open != 0 {
			t.Errorf("%d connections are still open: %v", p.open, err)
		}
	})
	return p
}

// open opens a pack until the test ends.
func open(t testing.TB, pack []byte) *Archive {
	t.Helper()
	a, err := Open(context.Background(), &memory{bytes: pack}, testPool(t, 4))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// tables is the usual schema.
const tables = `CREATE TABLE metadata (name text, value text);
CREATE TABLE tiles (zoom_level integer, tile_column integer, tile_row integer, tile_data blob);
CREATE UNIQUE INDEX tile_index ON tiles (zoom_level, tile_column, tile_row);
`

// png1 is the smallest PNG whose header can be read.
const png1 = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00\x3a\x7e\x9b\x55"

// onePNG adds tile 0/0/0.
const onePNG = "INSERT INTO tiles VALUES (0, 0, 0, " +
	"x'89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55');\n"

// build returns the database that a script makes.
func build(t testing.TB, script string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pack.mbtiles")
	buildFile(t, path, script, nil)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// buildFile makes a database at path, by a script and then by f.
func buildFile(t testing.TB, path, script string, f func(*sqlite.Conn) error) {
	t.Helper()
	if err := boundHeap(); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	err = sqlitex.ExecuteScript(db, script, nil)
	if err == nil && f != nil {
		err = f(db)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// insert adds one tile, with y from the north.
func insert(db *sqlite.Conn, c tile.Coord, data []byte) error {
	return sqlitex.Execute(db, "INSERT INTO tiles VALUES (?, ?, ?, ?)",
		&sqlitex.ExecOptions{Args: []any{int(c.Z), int64(c.X), int64(1)<<c.Z - 1 - int64(c.Y), data}})
}

// get finds and reads a tile.
func get(a *Archive, c tile.Coord) ([]byte, error) {
	p, err := a.Find(context.Background(), c)
	if err != nil {
		return nil, err
	}
	return a.Read(context.Background(), nil, p)
}
