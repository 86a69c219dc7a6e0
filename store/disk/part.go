package disk

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/fsys"
	"allium/store/meta"
	"allium/store/partial"
)

// The embedded backend keeps a partial object as part/<hex> and <hex>.ob, which
// are sparse, and what is in them in a note beside them, <hex>.bits. Before
// the first checkpoint its files are in tmp/, and nothing is noted.

const partSuffix = ".bits"

// Resume implements the backend of a store.
func (d *Backend) Resume(root b3.Root) (*meta.Staging, partial.Record, []partial.Page, error) {
	return d.blobs.resume(root)
}

// Save implements the backend of a store.
func (d *Backend) Save(st *meta.Staging, rec partial.Record, pages []partial.Page) error {
	return d.blobs.save(st, rec, pages)
}

// Partial implements the backend of a store.
func (d *Backend) Partial(root b3.Root) (partial.Record, bool, error) {
	rec, ok := d.blobs.parts.get(root)
	return rec, ok, nil
}

// Partials implements the backend of a store.
func (d *Backend) Partials(root b3.Root, page []partial.Record) ([]partial.Record, error) {
	return d.blobs.parts.page(root, page), nil
}

// DropPartial implements the backend of a store.
func (d *Backend) DropPartial(root b3.Root) error { return d.blobs.dropPart(root) }

func (b *blobs) partPath(root b3.Root) string { return b.path(fsys.DirPart, root.Hex()) }

func (b *blobs) resume(root b3.Root) (*meta.Staging, partial.Record, []partial.Page, error) {
	rec, ok := b.parts.get(root)
	if !ok {
		return nil, partial.Record{}, nil, nil
	}
	name := b.partPath(root)
	r, ok, err := b.readPart(root)
	if err != nil {
		return nil, partial.Record{}, nil, err
	}
	if !ok { // damaged since the start
		b.losePart(root, meta.Damage{Kind: meta.DamageNote, Reason: lostNote})
		return nil, rec, nil, nil
	}
	at := &place{note: r.note, data: name, outboard: name + outboardSuffix}
	st := &meta.Staging{Root: root, Kept: true, Own: at}
	data, err := b.reopen(at.data)
	if err != nil {
		return nil, partial.Record{}, nil, err
	}
	outboard, err := b.reopen(at.outboard)
	if err != nil {
		_ = data.Close() // nothing was written to it
		return nil, partial.Record{}, nil, err
	}
	st.Pair = meta.Pair{Data: data, Outboard: outboard}
	return st, rec, r.pages, nil
}

// readPart reads what is noted of a part of root; ok is false when the note is
// damaged.
func (b *blobs) readPart(root b3.Root) (r readPart, ok bool, err error) {
	f, err := b.fs.Open(b.partPath(root) + partSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, meta.ReadError(err)
	}
	defer f.Close() // only read
	return readPartNote(root, f)
}

// reopen opens a file that save synced.
func (b *blobs) reopen(name string) (*stagedFile, error) {
	f, err := b.fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, meta.ReadError(err)
	}
	return &stagedFile{f: f, space: b.space}, nil
}

// save syncs the files, and then writes the note, with sync: what it says is
// on disk. The first one takes the files from tmp/ to part/, behind a note that
// says nothing yet, so that bytes without a note are damage.
func (b *blobs) save(st *meta.Staging, rec partial.Record, pages []partial.Page) error {
	if err := b.index.Failure(); err != nil {
		return err
	}
	if len(pages) > 0 {
		if err := syncStaged(st); err != nil {
			return err
		}
	}
	if !st.Kept {
		if err := b.keepPart(st, rec); err != nil {
			return err
		}
	}
	if err := b.changePart(placeOf(st).note, rec, pages); err != nil {
		if status.Of(err) != status.NoSpace {
			st.Failed = err
		}
		return err
	}
	st.Kept = true
	b.parts.set(rec)
	return nil
}

// keepPart gives a download its names in part/, durably, with an empty note.
func (b *blobs) keepPart(st *meta.Staging, rec partial.Record) (err error) {
	at := placeOf(st)
	if at.note, err = b.makePart(rec, nil); err != nil {
		return err
	}
	if err := b.syncPart(); err != nil {
		return err
	}
	name := b.partPath(rec.Root)
	for _, move := range []struct {
		from *string
		to   string
	}{{&at.data, name}, {&at.outboard, name + outboardSuffix}} {
		if *move.from == move.to {
			continue // an earlier attempt came so far
		}
		why := meta.Damage{Kind: meta.DamageFile, State: meta.DamageMended, Roots: []b3.Root{rec.Root}, Reason: "nothing accounts for this file, and a download needs its name"}
		if err := b.aside.Take(why, move.to); err != nil {
			return err
		}
		if err := b.fs.Rename(*move.from, move.to); err != nil {
			return meta.WriteError("rename a file", err)
		}
		*move.from = move.to
	}
	if err := b.syncPart(); err != nil {
		st.Failed = err
		return err
	}
	return nil
}

// dropPart removes the note of root, and then its files: a crash in between
// leaves a name that says so.
func (b *blobs) dropPart(root b3.Root) error {
	b.parts.drop(root)
	name := b.partPath(root)
	return b.dropNoted(name, partSuffix)
}

// dropNoted removes a note and its files. The note goes first, durably, by a
// name that lets the next start go on: files without a note are damage.
func (b *blobs) dropNoted(name, suffix string) error {
	gone := fmt.Sprintf("%s.%s-%d%s", name, b.prefix, b.serial.Add(1), goneSuffix)
	if err := b.fs.Rename(name+suffix, gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return meta.WriteError("remove a note", err)
	}
	if err := b.syncPart(); err != nil {
		return err
	}
	err := errors.Join(b.unlink(name), b.unlink(name+outboardSuffix))
	if err != nil {
		return err // the next start goes on
	}
	b.mu.Lock()
	b.gone = append(b.gone, gone)
	many := len(b.gone) >= maxGone
	b.mu.Unlock()
	if many {
		return b.syncPart()
	}
	return nil
}

// goneSuffix ends the name of a note whose files are being removed. There are
// maxGone at most of which the files are gone.
const (
	goneSuffix = ".gone"
	maxGone    = 64
)

// publishedPart removes the note of an object that is visible now, whose files
// have moved.
func (b *blobs) publishedPart(root b3.Root) error {
	b.parts.drop(root)
	if err := b.unlink(b.partPath(root) + partSuffix); err != nil {
		return err
	}
	return b.syncPart()
}
