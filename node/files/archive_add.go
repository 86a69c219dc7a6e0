package files

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/node/files/archive"
	"allium/protocols/status"
)

// The bounds of the adds of archives.
const (
	maxSorts  = 16       // sorters at a time; as many adds wait, and others are refused
	maxZips   = 2        // zips that are held at a time; more wait for one of the places of sorters
	maxZip    = 8 << 30  // bytes of a zip on disk; a longer one is refused with body_cap
	maxZipRAM = 32 << 20 // bytes of a zip on a node that writes nothing to disk
)

// ArchiveAdder adds archives that any program made. Its methods are safe for concurrent
// use. It sorts at most 16 archives at a time, and holds at most two zips.
type ArchiveAdder struct {
	sorts, zips *limits.Gate
	spoolDir    string
}

// NewArchiveAdder returns an ArchiveAdder. It writes zips, and the records of an archive
// that exceed 4 MiB of RAM, to unnamed files in spoolDir. With an empty spoolDir it holds a
// zip of up to 32 MiB in RAM and refuses larger ones. registry may be nil.
func NewArchiveAdder(spoolDir string, registry *limits.Registry) *ArchiveAdder {
	return &ArchiveAdder{
		spoolDir: spoolDir,
		sorts: registry.NewGate(limits.Spec{
			Name: "add.sorts", Path: "archives in any order → trees",
			Policy: "as many wait, the rest are refused with busy",
		}, maxSorts, maxSorts),
		zips: registry.NewGate(limits.Spec{
			Name: "add.zips", Path: "zips → held until they are unpacked",
			Policy: "others wait, as many as sorts may run",
		}, maxZips, maxSorts),
	}
}

// Add adds an archive whose entries come in any order; see [Add]. With a top the whole
// archive is one directory, which is called top. Otherwise each of its top entries is a
// tree. The Notes of the first tree name the entries that were skipped in all trees.
func (t *ArchiveAdder) Add(
	ctx context.Context, st Store, in archive.Reader, top string, onBad api.OnBadEntry, reports Reports,
	each func(context.Context, api.Added) error,
) error {
	done, err := t.sorts.Acquire(ctx)
	if err != nil {
		return err
	}
	defer done()
	var notes addNotes
	sorter := newSorter(t.spoolDir, &notes, onBad)
	defer sorter.close()
	some := false
	items := anyItems(in, top, &notes, onBad)
	err = add(ctx, st, items, sorter, reports, func(ctx context.Context, added api.Added) error {
		added.Notes, notes = notes.get(), addNotes{} // the whole archive was read before the first tree
		some = true
		return each(ctx, added)
	})
	if err == nil && !some {
		err = notes.refusal(false) // every entry was skipped
	}
	return err
}

// Zip holds the zip that r gives, since its list of entries comes last, and calls use with a
// reader of it. It refuses a zip that is longer than it may hold with body_cap, and one that
// decompresses to more than ratio times its size; see [archive.NewZip].
func (t *ArchiveAdder) Zip(ctx context.Context, r io.Reader, ratio int64, use func(*archive.Zip) error) error {
	done, err := t.zips.Acquire(ctx)
	if err != nil {
		return err
	}
	defer done()
	f, size, err := t.hold(r)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := archive.NewZip(f, size, ratio)
	if err != nil {
		return err
	}
	defer z.Close()
	return use(z)
}

// held is the content of a zip.
type held interface {
	io.ReaderAt
	io.Closer
}

// hold reads r into an unnamed file, or into RAM on a node that writes nothing to disk.
func (t *ArchiveAdder) hold(r io.Reader) (_ held, size int64, err error) {
	if t.spoolDir == "" {
		p, err := io.ReadAll(io.LimitReader(r, maxZipRAM+1))
		if err == nil && len(p) > maxZipRAM {
			err = errLongZip(maxZipRAM)
		}
		return heldBytes{bytes.NewReader(p)}, int64(len(p)), err
	}
	f, err := unnamedFile(t.spoolDir, "zip-*")
	if err != nil {
		return nil, 0, err
	}
	to := &spoolWriter{w: f}
	size, err = io.Copy(to, io.LimitReader(r, maxZip+1))
	switch {
	case to.err != nil:
		err = spoolError("hold the zip", to.err)
	case err == nil && size > maxZip:
		err = errLongZip(maxZip)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, size, nil
}

func errLongZip(most limits.Bytes) error {
	return status.Errorf(status.BodyCap, "the zip is longer than %s, the limit. Send a tar, which is not held, or "+
		"several zips", most.Human())
}

// heldBytes is a zip in RAM.
type heldBytes struct{ *bytes.Reader }

// Close implements io.Closer.
func (heldBytes) Close() error { return nil }

// spoolWriter remembers the error of its file, which is no error of the client.
type spoolWriter struct {
	w   io.Writer
	err error
}

func (s *spoolWriter) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.err = err
	return n, err
}

// unnamedFile returns a new file in dir that is gone when it is closed.
func unnamedFile(dir, pattern string) (*os.File, error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, spoolError("add the archive", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(spoolError("add the archive", err), f.Close())
	}
	return f, nil
}

// spoolError gives an outcome to an error of a file that holds what an add needs.
func spoolError(op string, err error) error {
	e := status.FromSystem(op, err)
	switch {
	case e != nil && e.Outcome == status.NoSpace:
		return status.Errorf(status.NoSpace, "%s: the disk of temporary files is full: %w; free space on it", op, err)
	case e != nil:
		return e
	}
	return status.Errorf(status.NotReady, "%s: %w; check the disk", op, err)
}
