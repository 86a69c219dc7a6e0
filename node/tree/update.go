package tree

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"

	"allium/gateway/api"
	"allium/node/tree/extract"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// UpdateOptions are the choices of an update.
type UpdateOptions = extract.UpdateOptions

// UpdateStats counts what an update did.
type UpdateStats = extract.UpdateStats

// An update asks for files in one request until either bound is reached.
const (
	updateFiles = 1024
	updateBytes = 64 << 20 // the last file may exceed it
)

// Update changes the file or directory target to the content of key. It asks the node
// only for the files that differ on disk, many in one request. It writes nothing
// outside target. top is the entry that key names; report may be nil.
func Update(
	ctx context.Context, s api.Reader, key, target string, o UpdateOptions, report api.ProgressFunc,
) (top api.Entry, stats UpdateStats, err error) {
	u := updating{s: s, report: report}
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
		}
		if err := u.entry(ctx, c.Path, *c.New); err != nil {
			return top, stats, err
		}
	}
	if u.up == nil {
		return top, stats, status.Errorf(status.Upstream, "the node's listing of %s is empty", key)
	}
	if err := u.flush(ctx); err != nil {
		return top, stats, err
	}
	return top, stats, u.up.Finish()
}

// updating is an update under way.
type updating struct {
	s      api.Reader
	up     *extract.Updater
	report api.ProgressFunc
	needed []neededFile
	bytes  int64
	done   api.Progress
}

type neededFile struct {
	path  string
	entry manifest.Entry
}

func (u *updating) entry(ctx context.Context, path string, e api.Entry) error {
	if u.up == nil {
		return status.Errorf(status.Upstream, "the node's listing begins with %q", path)
	}
	me := manifest.Entry{Name: e.Name, Root: e.Root, Size: e.Size, Executable: e.Executable, Target: e.Target}
	switch e.Kind {
	case api.Directory:
		me.Kind = manifest.Directory
	case api.Link:
		me.Kind = manifest.Link
	}
	need, err := u.up.Entry(path, me)
	if err != nil || !need {
		return err
	}
	u.needed = append(u.needed, neededFile{path, me})
	if u.bytes += e.Size; len(u.needed) < updateFiles && u.bytes < updateBytes {
		return nil
	}
	return u.flush(ctx)
}

// flush asks the node for the needed files in one request and writes them.
func (u *updating) flush(ctx context.Context) error {
	if len(u.needed) == 0 {
		return nil
	}
	roots := make([]b3.Root, len(u.needed))
	for i, n := range u.needed {
		roots[i] = n.entry.Root
	}
	stream, err := u.s.Files(ctx, roots)
	if err != nil {
		return err
	}
	defer stream.Body.Close()
	tr := tar.NewReader(stream.Body)
	file := &progressReader{tr, u.report, &u.done}
	for _, n := range u.needed {
		h, err := tr.Next()
		if err != nil {
			return err
		}
		if h.Name != n.entry.Root.Hex() || h.Size != n.entry.Size {
			return status.Errorf(status.Upstream, "the node sent %s of %d bytes for %s", h.Name, h.Size, n.path)
		}
		if err := u.up.File(n.path, n.entry, file); err != nil {
			return err
		}
		u.done.Objects++
	}
	if _, err := io.Copy(io.Discard, stream.Body); err != nil { // reads the padding; an error here means that the stream was cut
		return err
	}
	u.needed, u.bytes = u.needed[:0], 0
	return nil
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
