package store

import (
	"errors"
	"log/slog"
	"testing"

	"allium/internal/env"
	"allium/store/disk/segment/codec"

	"github.com/cockroachdb/pebble/v2/vfs"

	"context"
	"fmt"

	"allium/protocols/b3"
	"allium/store/disk"
	"allium/store/disk/fsys"
	"allium/store/disk/tables"
	"allium/store/meta"
	"allium/store/scrub"
)

// ScrubNow runs a cycle of the background check and returns what it saw.
func (s *Store) ScrubNow(ctx context.Context) (scrub.Stats, error) {
	c := newScrubber(s, env.Env{Log: s.log})
	err := c.Cycle(ctx)
	return c.Stats(), err
}

// CheckUsage compares what a store of files, in which nothing goes on, believes
// of its segments with what its index says.
func (s *Store) CheckUsage() error { return s.backend.(*disk.Backend).CheckUsage() }

// Adopted is closed when the files that the start found in obj/, and that no
// record names, were looked at.
func (s *Store) Adopted() <-chan struct{} { return s.backend.(*disk.Backend).Adopted() }

// ForgetClose makes a store that was closed in order look as if it was not.
func ForgetClose(t testing.TB, fs vfs.FS, dir string) {
	t.Helper()
	x, err := tables.Open(tables.Options{FS: fs, Dir: fs.PathJoin(dir, fsys.DirIndex), Cache: 1 << 20, Files: 64,
		Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = errors.Join(x.Clean.Drop(), x.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// SpoilIndex notes what a close does of an index that failed.
func (s *Store) SpoilIndex() { s.backend.(*disk.Backend).NoteIndexDamage(errors.New("spoiled")) }

// AddDamage notes damage.
func (s *Store) AddDamage(d meta.Damage) { s.backend.Damages().Add(d) }

// Lose removes an object whatever holds it, as damage does.
func (s *Store) Lose(ctx context.Context, root b3.Root) error {
	e, ok, err := s.backend.Get(root)
	if err != nil || !ok {
		return fmt.Errorf("%s is not here: %w", root, err)
	}
	return s.backend.RemoveAll(ctx, []meta.Entry{e})
}

// RecordHeaderSize is the length of a record's header.
const RecordHeaderSize = codec.RecordHeaderSize
