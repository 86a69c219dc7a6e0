package files

import (
	"context"
	"errors"
	"os"

	"allium/gateway/api"
	"allium/node/files/extract"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// UpdateOptions are the choices of an update.
type UpdateOptions = extract.UpdateOptions

// UpdateStats counts what an update did.
type UpdateStats = extract.UpdateStats

// Update changes the file or directory target to the content of key. It asks the node
// only for the files that differ on disk, many in one request. It writes nothing
// outside target. top is the entry that key names; report may be nil.
func Update(
	ctx context.Context, s api.Reader, key, target string, o UpdateOptions, report api.ProgressFunc,
) (top api.Entry, stats UpdateStats, err error) {
	u := updating{files: extract.Fetcher{From: s, Report: report}}
	defer func() {
		if u.up != nil {
			stats = u.up.Stats()
			err = errors.Join(err, u.up.Close())
		}
	}()
	for c, err := range s.Diff(ctx, "", key) {
		switch {
		case err != nil:
			return top, stats, err
		case c.New == nil:
			return top, stats, status.Errorf(status.Upstream, "the node's listing of %s removes %q", key, c.Path)
		case c.Path == "" && c.New.Kind == api.Link:
			return top, stats, status.Errorf(status.BadRequest, "%s is a link; name what it points to", key)
		case c.Path == "" && c.New.Kind == api.File:
			stats, err = updateFile(ctx, s, key, *c.New, target, report)
			return *c.New, stats, err
		case c.Path == "":
			top = *c.New
			if u.up, err = extract.BeginUpdate(target, o); err != nil {
				return top, stats, err
			}
			u.files.Write = u.up.File
		}
		if err := u.entry(ctx, c.Path, *c.New); err != nil {
			return top, stats, err
		}
	}
	if u.up == nil {
		return top, stats, status.Errorf(status.Upstream, "the node's listing of %s is empty", key)
	}
	if err := u.files.Flush(ctx); err != nil {
		return top, stats, err
	}
	return top, stats, u.up.Finish()
}

// updating is an update under way.
type updating struct {
	up    *extract.Updater
	files extract.Fetcher
}

func (u *updating) entry(ctx context.Context, path string, e api.Entry) error {
	if u.up == nil {
		return status.Errorf(status.Upstream, "the node's listing begins with %q", path)
	}
	me := extract.ManifestEntry(e)
	need, err := u.up.Entry(path, me)
	if err != nil || !need {
		return err
	}
	return u.files.Add(ctx, path, me)
}

// updateFile changes the file target to the entry e, which key names.
func updateFile(
	ctx context.Context, s api.Reader, key string, e api.Entry, target string, report api.ProgressFunc,
) (UpdateStats, error) {
	if sameFile(target, e) {
		return UpdateStats{Kept: 1}, nil
	}
	stream, err := s.Get(ctx, key)
	if err != nil {
		return UpdateStats{}, err
	}
	defer stream.Body.Close()
	if err := Extract(stream, target, ExtractOptions{Overwrite: true, KeepMode: true}, report); err != nil {
		return UpdateStats{}, err
	}
	return UpdateStats{Written: 1, Bytes: e.Size}, nil
}

// sameFile reports whether target is a regular file with the size, the executable
// bit and the address of e.
func sameFile(target string, e api.Entry) bool {
	info, err := os.Lstat(target)
	if err != nil || !info.Mode().IsRegular() || info.Size() != e.Size || (info.Mode()&0o111 != 0) != e.Executable {
		return false
	}
	root, err := hashFile(target)
	return err == nil && root == e.Root
}

func hashFile(name string) (b3.Root, error) {
	f, err := os.Open(name)
	if err != nil {
		return b3.Root{}, err
	}
	defer f.Close()
	h := b3.NewHasher(nil, 1)
	if _, err := h.ReadFrom(f); err != nil {
		return b3.Root{}, err
	}
	root, _, err := h.Sum()
	return root, err
}
