package follow

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"allium/node/files/addcache"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// compare finds the entries that differ from the disk.
func (u *update) compare(ctx context.Context) error {
	for i, e := range u.entries {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		same, err := u.same(ctx, i, e)
		if err != nil {
			return &manifest.EntryError{Entry: e.path, Err: err}
		}
		if !same {
			u.todo = append(u.todo, i)
		}
	}
	return nil
}

// same reports whether the disk has an entry. Then it notes that.
func (u *update) same(ctx context.Context, i int, e entry) (bool, error) {
	in, name, info, err := u.lookAt(e.path)
	if err != nil || info == nil {
		return false, err
	}
	now := record{Kind: e.Kind, Root: e.Root, Size: e.Size, Target: e.Target}
	if e.Kind == manifest.Directory {
		now = record{Kind: e.Kind}
	}
	same, stamp, err := u.d.matches(ctx, in, name, e.path, info, now)
	if errors.Is(err, fs.ErrPermission) {
		return false, nil
	}
	if err != nil || !same {
		return false, err
	}
	if e.Kind == manifest.File && (info.Mode()&0o111 != 0) != e.Executable {
		u.local[i] = true
		return false, nil
	}
	if e.Kind != manifest.Directory {
		u.stats.Kept++
	}
	now.Stamp = stamp
	for _, r := range u.d.recs[e.path] {
		now.Own = now.Own || r.Own && r.same(now)
	}
	u.after.add(e.path, now)
	return true, nil
}

// matches reports whether the file at a path has the content of r. It reads the file only if no record has its present
// stamp. stamp is that of the file, or empty if it cannot be trusted later.
func (d *Dir) matches(
	ctx context.Context, in *os.Root, name, path string, info fs.FileInfo, r record,
) (same bool, stamp string, err error) {
	switch r.Kind {
	case manifest.Directory:
		return info.IsDir(), "", nil
	case manifest.Link:
		if info.Mode()&fs.ModeSymlink == 0 {
			return false, "", nil
		}
		target, err := in.Readlink(name)
		return err == nil && target == r.Target, "", err
	}
	if !info.Mode().IsRegular() || info.Size() != r.Size {
		return false, "", nil
	}
	root, stamp, err := d.rootOf(ctx, in, name, path, info)
	return root == r.Root, stamp, err
}

// rootOf returns the address of a file on the disk.
func (d *Dir) rootOf(
	ctx context.Context, in *os.Root, name, path string, info fs.FileInfo,
) (root b3.Root, stamp string, err error) {
	before, stamped := addcache.StampOf(info)
	if stamped {
		stamp = before.String()
		for _, r := range d.recs[path] {
			if r.Kind == manifest.File && r.Stamp == stamp {
				return r.Root, stamp, nil
			}
		}
	}
	if root, err = hashFile(ctx, in, name); err != nil {
		return root, "", err
	}
	if info, err = in.Lstat(name); err != nil {
		return root, "", err
	}
	if after, _ := addcache.StampOf(info); !stamped || after != before || before.Recent(d.now()) {
		stamp = ""
	}
	return root, stamp, nil
}

// lookAt describes what is at a path, below the directory in. info is nil if nothing is there, or not yet
// the directory that it is to be in.
func (u *update) lookAt(path string) (in *os.Root, name string, info fs.FileInfo, err error) {
	in, name, err = u.dirs.Of(path)
	if err == nil {
		info, err = in.Lstat(name)
	}
	if errors.Is(err, fs.ErrNotExist) || status.Of(err) == status.Conflict {
		return in, name, nil, nil
	}
	return in, name, info, err
}

// matching returns the records of a path that say what is there. A file that cannot be read matches none.
func (d *Dir) matching(
	ctx context.Context, in *os.Root, name, path string, info fs.FileInfo,
) (found []record, err error) {
	for _, r := range d.recs[path] {
		same, _, err := d.matches(ctx, in, name, path, info, r)
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
		if err == nil && same {
			found = append(found, r)
		}
	}
	return found, nil
}

// known reports whether the file at a path is still as an update left or saw it, by the records. own says that an
// update wrote it.
func (d *Dir) known(
	ctx context.Context, in *os.Root, name, path string, info fs.FileInfo,
) (known, own bool, err error) {
	found, err := d.matching(ctx, in, name, path, info)
	return len(found) > 0, slices.ContainsFunc(found, func(r record) bool { return r.Own }), err
}
