package blob

import (
	"errors"
	"io/fs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/disk/fsys"
	"allium/store/meta"
)

// A download has the sparse files part/<hex> and part/<hex>.ob, and the note
// part/<hex>.bits, which records the groups in them. Before the first checkpoint, its
// files are in tmp/ and there is no note.

const partSuffix = ".bits"

// downloads are the downloads in part/: unfinished objects of a known address.
type downloads struct {
	*notes
	table partTable
}

func newDownloads(n *notes) *downloads {
	return &downloads{notes: n, table: partTable{recs: map[b3.Root]meta.Partial{}}}
}

// Partial returns the last saved record of root; ok is false if there is none.
func (d *downloads) Partial(root b3.Root) (meta.Partial, bool, error) {
	rec, ok := d.table.get(root)
	return rec, ok, nil
}

// Partials appends saved records to page, in ascending order from root, up to its
// capacity.
func (d *downloads) Partials(root b3.Root, page []meta.Partial) ([]meta.Partial, error) {
	return d.table.page(root, page), nil
}

func (d *downloads) partPath(root b3.Root) string { return d.path(fsys.DirPart, root.Hex()) }

// Resume opens the files of the last Save of root. st is nil if there was none, or if
// the note has been damaged since the start.
func (d *downloads) Resume(root b3.Root) (*meta.Staging, meta.Partial, []meta.BitsPage, error) {
	rec, ok := d.table.get(root)
	if !ok {
		return nil, meta.Partial{}, nil, nil
	}
	name := d.partPath(root)
	r, ok, err := d.readPart(root)
	if err != nil {
		return nil, meta.Partial{}, nil, err
	}
	if !ok { // damaged since the start
		d.quarantinePart(root, meta.Damage{Kind: meta.DamageNote, Reason: lostNote})
		return nil, rec, nil, nil
	}
	at := &stagedPaths{note: r.note, data: name, outboard: name + outboardSuffix}
	st := &meta.Staging{Root: root, Kept: true, Own: at}
	data, err := d.reopen(at.data)
	if err != nil {
		return nil, meta.Partial{}, nil, err
	}
	outboard, err := d.reopen(at.outboard)
	if err != nil {
		_ = data.Close() // nothing was written to it
		return nil, meta.Partial{}, nil, err
	}
	st.Pair = meta.Pair{Data: data, Outboard: newOutboardFile(outboard)}
	return st, rec, r.pages, nil
}

// readPart reads the note of root; ok is false if it is damaged or missing.
func (d *downloads) readPart(root b3.Root) (r readPart, ok bool, err error) {
	f, err := d.fs.Open(d.partPath(root) + partSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, meta.ReadError(err)
	}
	defer f.Close() // only read
	return readPartNote(root, f)
}

// Save syncs the files and then writes the note durably, so that everything in the
// note is on disk. The first Save of a download moves its files from tmp/ to part/.
func (d *downloads) Save(st *meta.Staging, rec meta.Partial, pages []meta.BitsPage) error {
	if err := d.index.Failure(); err != nil {
		return err
	}
	if len(pages) > 0 {
		if err := syncStaged(st); err != nil {
			return err
		}
	}
	if !st.Kept {
		if err := d.moveToPart(st, rec); err != nil {
			return err
		}
	}
	if err := d.changePart(pathsOf(st).note, rec, pages); err != nil {
		if status.Of(err) != status.NoSpace {
			st.Failed = err
		}
		return err
	}
	st.Kept = true
	d.table.set(rec)
	return nil
}

// moveToPart moves the files of a download to part/, durably. It writes an empty note
// first, because files without a note are damage.
func (d *downloads) moveToPart(st *meta.Staging, rec meta.Partial) (err error) {
	at := pathsOf(st)
	if at.note, err = d.makePart(rec, nil); err != nil {
		return err
	}
	if err := d.syncPart(); err != nil {
		return err
	}
	name := d.partPath(rec.Root)
	for _, move := range []struct {
		from *string
		to   string
	}{{&at.data, name}, {&at.outboard, name + outboardSuffix}} {
		if *move.from == move.to {
			continue // moved by an earlier attempt
		}
		why := meta.Damage{
			Kind: meta.DamageFile, State: meta.DamageMended, Roots: []b3.Root{rec.Root},
			Reason: "this file belongs to no download, and a download needs its name",
		}
		if err := d.quarantine.Take(why, move.to); err != nil {
			return err
		}
		if err := d.fs.Rename(*move.from, move.to); err != nil {
			return meta.WriteError("rename a file", err)
		}
		*move.from = move.to
	}
	if err := d.syncPart(); err != nil {
		st.Failed = err
		return err
	}
	return nil
}

// DropPartial removes the note of root and its files. After a crash, the next start
// finishes the removal.
func (d *downloads) DropPartial(root b3.Root) error {
	d.table.drop(root)
	name := d.partPath(root)
	return d.dropNote(name, partSuffix)
}

// published removes the note of a download that is now visible. Its files are already
// in obj/.
func (d *downloads) published(root b3.Root) error {
	d.table.drop(root)
	if err := d.unlink(d.partPath(root) + partSuffix); err != nil {
		return err
	}
	return d.syncPart()
}
