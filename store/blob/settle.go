package blob

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"allium/protocols/b3"
	"allium/store/fsys"
	"allium/store/meta"
	"allium/store/upload"
)

// Why a download begins anew. What is lost of one is fetched again: nothing that
// was promised is lost.
const (
	lostNote  = "the note of this download cannot be read, so it begins anew"
	lostFiles = "a file of this download is missing, so it begins anew"
	noNote    = "there are files of this download and no note, so it begins anew"
)

// noted are the names in part/ that begin with one address or upload.
type noted struct {
	data, outboard, note bool
	gone                 []string // notes of which the files are to go
}

// settle takes over what is in part/ when the store opens. What a crash
// moved on its way into obj/ is put back; what a crash leaves behind, and parts
// of what is whole, is removed. clean says that the store was closed in order.
func (f *Files) settle(clean bool) error {
	n := f.notes
	if err := f.migrateNotes(); err != nil {
		return err
	}
	names, err := n.fs.List(n.path(fsys.DirPart))
	if err != nil {
		return meta.ReadError(err)
	}
	// Before there were notes, a crash left what the index did not name.
	old := slices.Contains(names, fileUnnoted)
	all, uploads := map[b3.Root]*noted{}, map[upload.ID]*noted{}
	for _, name := range names {
		base, suffix, _ := strings.Cut(name, ".")
		var x *noted
		own := partSuffix
		if id, ok := upload.ParseID(base); ok {
			x, own = lookUp(uploads, id), uploadSuffix
		} else if root, err := b3.Parse("b3:" + base); err == nil {
			x = lookUp(all, root)
		}
		switch {
		case x != nil && suffix == "":
			x.data = true
		case x != nil && "."+suffix == outboardSuffix:
			x.outboard = true
		case x != nil && "."+suffix == own:
			x.note = true
		case x != nil && strings.HasSuffix(suffix, goneSuffix):
			x.gone = append(x.gone, n.path(fsys.DirPart, name))
		case name == fileUnnoted:
		case old:
			n.tidy(n.path(fsys.DirPart, name))
		default:
			n.setAside(meta.Damage{Kind: meta.DamageFile, Reason: "nothing accounts for this file"}, n.path(fsys.DirPart, name))
		}
	}
	for _, root := range slices.SortedFunc(maps.Keys(all), meta.CompareRoots) {
		if err := f.downloads.settlePart(root, *all[root], clean, old); err != nil {
			return err
		}
	}
	for id, x := range uploads {
		if err := f.uploads.settleUpload(id, *x, old); err != nil {
			return err
		}
	}
	if old {
		if err := n.syncPart(); err != nil {
			return err
		}
		n.tidy(n.path(fsys.DirPart, fileUnnoted))
	}
	if old || len(n.gone) > 0 { // nobody else is here yet
		return n.syncPart()
	}
	return nil
}

// lookUp returns the value of a key, which it makes.
func lookUp[K comparable, V any](m map[K]*V, k K) *V {
	if m[k] == nil {
		m[k] = new(V)
	}
	return m[k]
}

// settlePart takes over what is in part/ of root.
func (d *downloads) settlePart(root b3.Root, x noted, clean, old bool) error {
	name := d.partPath(root)
	if len(x.gone) > 0 {
		d.settleGone(name, partSuffix, x)
		return nil
	}
	if !x.note {
		if old {
			d.tidy(name, name+outboardSuffix)
			return nil
		}
		d.losePart(root, meta.Damage{Kind: meta.DamageFile, Reason: noNote})
		return nil
	}
	r, ok, err := d.readPart(root)
	if err != nil {
		return err
	}
	if !ok {
		d.losePart(root, meta.Damage{Kind: meta.DamageNote, Reason: lostNote})
		return nil
	}
	e, whole, err := d.index.Get(root)
	if err != nil {
		return err
	}
	damaged := r.lost > 0 || r.torn > 0 && clean
	if whole && !e.Corrupt || r.rec.Held == 0 && !damaged {
		return d.DropPartial(root) // it was published, or never noted
	}
	size, here, err := d.reclaim(root)
	if err != nil {
		return err
	}
	if !here {
		d.losePart(root, meta.Damage{Kind: meta.DamageFile, Reason: lostFiles})
		return nil
	}
	if cut := r.cut(size); cut > 0 {
		d.notice(name, meta.Damage{Kind: meta.DamageFile, Offset: size, Roots: []b3.Root{root}, Reason: fmt.Sprintf(
			"this download was cut at its end, so %d groups of it are fetched again", cut)})
	} else if r.lost == 0 && r.torn == 0 {
		d.table.set(r.rec)
		return nil
	}
	if damaged {
		d.notice(name+partSuffix, meta.Damage{Kind: meta.DamageNote, Roots: []b3.Root{root}, Reason: fmt.Sprintf(
			"%d places in the note of this download are damaged, so some of it may be fetched again", r.lost+r.torn)})
	}
	if _, err := d.makePart(r.rec, r.pages); err != nil {
		return err
	}
	d.table.set(r.rec)
	return d.syncPart()
}

// losePart puts what is left of a download out of the way.
func (d *downloads) losePart(root b3.Root, why meta.Damage) {
	d.table.drop(root)
	why.Roots = []b3.Root{root}
	name := d.partPath(root)
	d.setAside(why, name+partSuffix, name, name+outboardSuffix)
}

// reclaim reports whether both files of a download are in part/, or could be
// put back there, and how long the data is.
func (d *downloads) reclaim(root b3.Root) (size int64, here bool, err error) {
	for _, suffix := range []string{outboardSuffix, ""} {
		part := d.partPath(root) + suffix
		info, err := d.fs.Stat(part)
		if errors.Is(err, fs.ErrNotExist) {
			if err = d.fs.Rename(d.objectPath(root)+suffix, part); err == nil {
				info, err = d.fs.Stat(part)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return 0, false, nil
		}
		if err != nil {
			return 0, false, meta.WriteError("put back a file", err)
		}
		size = info.Size()
	}
	return size, true, nil
}
