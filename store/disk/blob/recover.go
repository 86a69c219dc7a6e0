package blob

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"allium/protocols/b3"
	"allium/store/arriving/resumable"
	"allium/store/disk/fsys"
	"allium/store/meta"
)

// The reasons why a download starts again. Its bytes are fetched again, so nothing is
// lost.
const (
	lostNote  = "the note of this download cannot be read, so the download starts again"
	lostFiles = "a file of this download is missing, so the download starts again"
	noNote    = "this download has files and no note, so it starts again"
)

// partFiles are the files in part/ of one download or upload.
type partFiles struct {
	data, outboard, note bool
	gone                 []string // paths of notes whose files are being removed
}

// recoverParts makes part/ agree with its notes when the store opens. It moves files
// back that a crash left in obj/ without a record. It removes files that a crash left,
// and parts of objects that are whole. clean says that the store was closed cleanly.
func (f *Files) recoverParts(clean bool) error {
	n := f.notes
	if err := f.migrateNotes(); err != nil {
		return err
	}
	names, err := n.fs.List(n.path(fsys.DirPart))
	if err != nil {
		return meta.ReadError(err)
	}
	// Before format 3, files without a note were left by a crash and are no damage.
	old := slices.Contains(names, fileUnnoted)
	all, uploads := map[b3.Root]*partFiles{}, map[meta.UploadID]*partFiles{}
	for _, name := range names {
		base, suffix, _ := strings.Cut(name, ".")
		var x *partFiles
		own := partSuffix
		if id, ok := resumable.ParseID(base); ok {
			x, own = getOrNew(uploads, id), uploadSuffix
		} else if root, err := b3.Parse("b3:" + base); err == nil {
			x = getOrNew(all, root)
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
			n.unlinkOrLog(n.path(fsys.DirPart, name))
		default:
			n.moveToQuarantine(meta.Damage{
				Kind: meta.DamageFile, Reason: "this file belongs to no download or upload",
			}, n.path(fsys.DirPart, name))
		}
	}
	for _, root := range slices.SortedFunc(maps.Keys(all), meta.CompareRoots) {
		if err := f.downloads.recoverPart(root, *all[root], clean, old); err != nil {
			return err
		}
	}
	for id, x := range uploads {
		if err := f.uploads.recoverUpload(id, *x, old); err != nil {
			return err
		}
	}
	if old {
		if err := n.syncPart(); err != nil {
			return err
		}
		n.unlinkOrLog(n.path(fsys.DirPart, fileUnnoted))
	}
	if old || len(n.gone) > 0 { // mu is not needed before Serve
		return n.syncPart()
	}
	return nil
}

// getOrNew returns the value of k, and adds a new one if there is none.
func getOrNew[K comparable, V any](m map[K]*V, k K) *V {
	if m[k] == nil {
		m[k] = new(V)
	}
	return m[k]
}

// recoverPart makes the files of the download of root agree with its note.
func (d *downloads) recoverPart(root b3.Root, x partFiles, clean, old bool) error {
	name := d.partPath(root)
	if len(x.gone) > 0 {
		d.recoverGone(name, partSuffix, x)
		return nil
	}
	if !x.note {
		if old {
			d.unlinkOrLog(name, name+outboardSuffix)
			return nil
		}
		d.quarantinePart(root, meta.Damage{Kind: meta.DamageFile, Reason: noNote})
		return nil
	}
	r, ok, err := d.readPart(root)
	if err != nil {
		return err
	}
	if !ok {
		d.quarantinePart(root, meta.Damage{Kind: meta.DamageNote, Reason: lostNote})
		return nil
	}
	e, whole, err := d.index.Get(root)
	if err != nil {
		return err
	}
	damaged := r.lost > 0 || r.torn > 0 && clean
	if whole && !e.Corrupt || r.rec.Stored == 0 && !damaged {
		return d.DropPartial(root) // it was published, or nothing was saved
	}
	size, here, err := d.restoreFiles(root)
	if err != nil {
		return err
	}
	if !here {
		d.quarantinePart(root, meta.Damage{Kind: meta.DamageFile, Reason: lostFiles})
		return nil
	}
	if cut := r.cut(size); cut > 0 {
		d.noteDamage(name, meta.Damage{Kind: meta.DamageFile, Offset: size, Roots: []b3.Root{root}, Reason: fmt.Sprintf(
			"the file of this download is too short, so %s fetched again", groupsAre(cut))})
	} else if r.lost == 0 && r.torn == 0 {
		d.table.set(r.rec)
		return nil
	}
	if damaged {
		d.noteDamage(name+partSuffix, meta.Damage{Kind: meta.DamageNote, Roots: []b3.Root{root}, Reason: fmt.Sprintf(
			"the note of this download is damaged (bad places: %d), so some groups may be fetched again",
			r.lost+r.torn)})
	}
	if _, err := d.makePart(r.rec, r.pages); err != nil {
		return err
	}
	d.table.set(r.rec)
	return d.syncPart()
}

// groupsAre returns "1 group is" or "n groups are".
func groupsAre(n int) string {
	if n == 1 {
		return "1 group is"
	}
	return fmt.Sprintf("%d groups are", n)
}

// quarantinePart moves the files of a download to quarantine/.
func (d *downloads) quarantinePart(root b3.Root, why meta.Damage) {
	d.table.drop(root)
	why.Roots = []b3.Root{root}
	name := d.partPath(root)
	d.moveToQuarantine(why, name+partSuffix, name, name+outboardSuffix)
}

// restoreFiles moves the files of a download back from obj/ to part/ if a crash left
// them there. here reports whether part/ has both files; size is the length of the
// data.
func (d *downloads) restoreFiles(root b3.Root) (size int64, here bool, err error) {
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
			return 0, false, meta.WriteError("move back a file", err)
		}
		size = info.Size()
	}
	return size, true, nil
}
