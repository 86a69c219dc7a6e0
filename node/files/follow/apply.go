package follow

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"allium/node/files/extract"
	"allium/protocols/manifest"
)

// intend makes the fetched files durable, and records the files that are about to be written. If this process is
// killed, the next update recognises the files of both versions.
func (u *update) intend(ctx context.Context) error {
	if len(u.todo) == 0 {
		return nil
	}
	if err := u.d.sync(u.d.held); err != nil {
		return err
	}
	for path, all := range u.after { // directories that were there, too: what is written may lie in them
		for _, r := range all {
			u.d.recs.add(path, r)
		}
	}
	for _, i := range u.todo {
		e := u.entries[i]
		if len(u.d.recs[e.path]) >= maxRecords {
			if err := u.forgetOthers(ctx, e.path); err != nil {
				return err
			}
		}
		u.d.recs.add(e.path, recordOf(e))
	}
	return u.d.recs.save(u.d.ledger, u.d.real)
}

// forgetOthers drops the records of a path that do not say what is there now, if one does: updates that
// were killed intended the others.
func (u *update) forgetOthers(ctx context.Context, path string) error {
	in, name, info, err := u.lookAt(path)
	if err != nil || info == nil {
		return err
	}
	found, err := u.d.matching(ctx, in, name, path, info)
	if len(found) > 0 {
		u.d.recs[path] = found
	}
	return err
}

// recordOf returns the record of an entry that an update writes.
func recordOf(e entry) record {
	if e.Kind == manifest.Directory {
		return record{Kind: e.Kind, Own: true}
	}
	return record{Kind: e.Kind, Root: e.Root, Size: e.Size, Target: e.Target, Own: true}
}

// apply changes the directory. Links come last, so that nothing is written through one.
func (u *update) apply(ctx context.Context) error {
	for _, links := range []bool{false, true} {
		for _, i := range u.todo {
			e := u.entries[i]
			if (e.Kind == manifest.Link) != links {
				continue
			}
			if err := u.place(ctx, e); err != nil {
				return &manifest.EntryError{Entry: e.path, Err: err}
			}
		}
	}
	if err := u.removeOthers(ctx); err != nil {
		return err
	}
	if err := u.d.unstage(); err != nil {
		return err
	}
	if len(u.todo) == 0 && u.after.equal(u.d.recs) {
		return nil
	}
	if len(u.todo) > 0 {
		if err := u.d.sync(u.d.held); err != nil {
			return err
		}
	}
	u.d.recs = u.after
	return u.d.recs.save(u.d.ledger, u.d.real)
}

// place puts an entry at its path. A file there that must not be replaced is set aside first.
func (u *update) place(ctx context.Context, e entry) error {
	in, name, err := u.dirs.Of(e.path)
	if err != nil {
		return err
	}
	info, err := in.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		info = nil
	case err != nil:
		return err
	case e.Kind == manifest.Directory && info.IsDir():
		u.after.add(e.path, record{Kind: e.Kind})
		return nil
	default:
		if err := u.makeWay(ctx, in, name, e.path, info); err != nil {
			return err
		}
	}
	rec := recordOf(e)
	switch e.Kind {
	case manifest.Directory:
		if info != nil && !info.IsDir() {
			if err := ignore(in.Remove(name), fs.ErrNotExist); err != nil {
				return err
			}
		}
		err = in.Mkdir(name, 0o755)
	case manifest.Link:
		err = u.placeLink(e)
	default:
		err = u.placeFile(e, info)
	}
	if err != nil {
		return err
	}
	if e.Kind != manifest.Directory {
		u.stats.Written++
	}
	u.after.add(e.path, rec)
	u.d.recs[e.path] = []record{rec}
	return nil
}

func (u *update) placeLink(e entry) error {
	tmp := path.Join(stagingName, u.d.staged.unused())
	if err := u.d.root.Symlink(e.Target, tmp); err != nil {
		return err
	}
	return u.d.root.Rename(tmp, e.path)
}

// placeFile renames the content of an entry into place. A file keeps its permissions, except the
// executable bit.
func (u *update) placeFile(e entry, was fs.FileInfo) error {
	u.staged[stagedName(e.Entry)]--
	name, err := u.d.staged.take(e.Entry, u.staged[stagedName(e.Entry)] > 0)
	if err != nil {
		return err
	}
	if was != nil && was.Mode().IsRegular() {
		if err := u.d.staged.dir.Chmod(name, extract.KeptMode(was.Mode(), e.Executable)); err != nil {
			return err
		}
	}
	if err := u.d.root.Rename(path.Join(stagingName, name), e.path); err != nil {
		return err
	}
	u.stats.Bytes += e.Size
	return nil
}

// makeWay sets aside the file or directory at a path, unless an update wrote or saw it. From a directory it first
// removes the entries that updates wrote.
func (u *update) makeWay(ctx context.Context, in *os.Root, name, path string, info fs.FileInfo) error {
	if info.IsDir() {
		if gone, err := u.remove(ctx, in, name, path, 0); err != nil || gone {
			return err
		}
		return u.setAside(in, name, path)
	}
	known, _, err := u.d.known(ctx, in, name, path, info)
	if err != nil || known {
		return err
	}
	return u.setAside(in, name, path)
}

// asideMark stands in the name of a file that was set aside, before the time.
const asideMark = ".edited-"

// asideTime is the layout of that time.
const asideTime = "20060102-150405"

// setAside renames what is at a path.
func (u *update) setAside(in *os.Root, name, at string) error {
	as, err := u.asideName(in, name)
	if err != nil {
		return err
	}
	if err := in.Rename(name, as); err != nil {
		return err
	}
	u.stats.AsideCount++
	if len(u.stats.Aside) < maxAside {
		u.stats.Aside = append(u.stats.Aside, Aside{at, path.Join(path.Dir(at), as)})
	}
	return nil
}

// asideName returns a name that says that it was edited here, and when it was set aside:
// notes.edited-20261125-191500.txt. Nothing has that name.
func (u *update) asideName(in *os.Root, name string) (string, error) {
	stem, ext := name, ""
	if i := strings.LastIndexByte(name, '.'); i > 0 && len(name)-i <= 16 {
		stem, ext = name[:i], name[i:]
	}
	mark := asideMark + u.d.now().UTC().Format(asideTime)
	for n := 2; ; n++ {
		if most := manifest.MaxName - len(mark) - len(ext); len(stem) > most {
			stem = strings.ToValidUTF8(stem[:most], "")
		}
		as := stem + mark + ext
		if _, err := in.Lstat(as); errors.Is(err, fs.ErrNotExist) {
			return as, nil
		} else if err != nil {
			return "", err
		}
		mark = asideMark + u.d.now().UTC().Format(asideTime) + "-" + strconv.Itoa(n)
	}
}

// isAside reports whether asideName could have returned a name.
func isAside(name string) bool {
	i := strings.LastIndex(name, asideMark)
	if i <= 0 {
		return false
	}
	rest := name[i+len(asideMark):]
	return len(rest) >= len(asideTime) && rest[len("20060102")] == '-' &&
		strings.Trim(rest[:len("20060102")]+rest[len("20060102-"):len(asideTime)], "0123456789") == ""
}

func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}
