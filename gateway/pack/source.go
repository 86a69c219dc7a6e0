package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"allium/gateway/pack/tile"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// fileSource reads a pack from a file. It implements tile.Source.
type fileSource struct {
	file     *os.File
	size     int64
	modified time.Time
	info     fs.FileInfo // when it was opened
}

// openFile opens a file below dir. It follows no link that leads out of dir. It never waits for the other
// end of a pipe.
func openFile(dir, name string) (*fileSource, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, status.FromFile(dir, err)
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return nil, status.FromFile(name, err)
	}
	if !info.Mode().IsRegular() { // to open a device may do something
		return nil, errNoFile(name)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, status.FromFile(name, err)
	}
	info, err = f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNoFile(name)
	}
	if err != nil {
		_ = f.Close() // it was only read
		return nil, err
	}
	return &fileSource{file: f, size: info.Size(), modified: info.ModTime(), info: info}, nil
}

func errNoFile(name string) error {
	return status.Errorf(status.BadRequest, "%s is not a regular file. Name a pack", name)
}

// replaced reports whether the file name below dir is another one than s, or was changed.
func (s *fileSource) replaced(dir, name string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return true // opening it again says why
	}
	defer root.Close()
	info, err := root.Stat(name)
	return err != nil || !os.SameFile(info, s.info) || !sameFile(s, info)
}

// Size implements tile.Source.
func (s *fileSource) Size() int64 { return s.size }

// ReadAt implements tile.Source.
func (s *fileSource) ReadAt(ctx context.Context, p []byte, off int64) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if off < 0 || off > s.size || int64(len(p)) > s.size-off {
		return outside(off, len(p), s.size)
	}
	_, err := s.file.ReadAt(p, off)
	if errors.Is(err, io.EOF) { // the file is shorter than it was
		return outside(off, len(p), s.size)
	}
	if err != nil {
		return status.FromFile(s.file.Name(), err)
	}
	return nil
}

// changed reports whether the file has other bytes than when it was opened, as far as its size and its
// date tell.
func (s *fileSource) changed() bool {
	info, err := s.file.Stat()
	return err != nil || !sameFile(s, info)
}

// sameFile reports whether a file has the size and the date of s.
func sameFile(s *fileSource, info fs.FileInfo) bool {
	return info.Size() == s.size && info.ModTime().Equal(s.modified)
}

// Close closes the file.
func (s *fileSource) Close() error { return s.file.Close() }

// outside returns the error of a read that leaves the pack.
func outside(off int64, n int, size int64) error {
	return status.Errorf(status.Corrupt, "the pack has %d bytes, and %d at %d are asked for", size, n, off)
}

// Objects opens the objects of packs.
type Objects interface {
	// OpenObject opens an object of this node or, unless local is true, of peers. It returns not_found
	// for one that it cannot find. The caller closes the Content.
	OpenObject(ctx context.Context, root b3.Root, local bool) (b3.Content, error)
	// Keep keeps an object of this node from being evicted until release is called.
	Keep(root b3.Root) (release func())
}

// objectSource reads a pack that is an object. It implements tile.Source.
type objectSource struct {
	objects Objects
	root    b3.Root
	size    int64
}

// openObject opens an object. Its size is proved.
func openObject(ctx context.Context, objects Objects, root b3.Root) (*objectSource, error) {
	c, err := objects.OpenObject(ctx, root, false)
	if err != nil {
		return nil, err
	}
	return &objectSource{objects: objects, root: root, size: c.Size()}, c.Close()
}

// Size implements tile.Source.
func (s *objectSource) Size() int64 { return s.size }

// ReadAt implements tile.Source. It asks peers for what this node does not have, unless ctx is one of
// tile.LocalOnly.
func (s *objectSource) ReadAt(ctx context.Context, p []byte, off int64) error {
	if off < 0 || off > s.size || int64(len(p)) > s.size-off {
		return outside(off, len(p), s.size)
	}
	if len(p) == 0 {
		return nil
	}
	err := s.read(ctx, p, off, true)
	switch out := status.Of(err); {
	case out != status.NotFound && out != status.Corrupt:
		return err
	case tile.IsLocalOnly(ctx):
		return fmt.Errorf("%w: %w", tile.ErrAway, err)
	}
	return s.read(ctx, p, off, false)
}

// read fills p with the bytes from off on.
func (s *objectSource) read(ctx context.Context, p []byte, off int64, local bool) error {
	c, err := s.objects.OpenObject(ctx, s.root, local)
	if err != nil {
		return err
	}
	defer c.Close()
	into := sliceWriter{p}
	if err := c.Copy(ctx, &into, off, off+int64(len(p))); err != nil {
		return err
	}
	if len(into.left) > 0 {
		return status.Errorf(status.Internal, "the last %d bytes of %d of %s were not copied",
			len(into.left), len(p), s.root)
	}
	return nil
}

// sliceWriter fills a slice.
type sliceWriter struct{ left []byte }

func (w *sliceWriter) Write(b []byte) (int, error) {
	n := copy(w.left, b)
	w.left = w.left[n:]
	if n < len(b) {
		return n, io.ErrShortWrite
	}
	return n, nil
}
