package mbtiles

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"sync"
	"time"

	"allium/gateway/pack/tile"
)

// errReadBudget reports that a query read more of the pack than its budget allows.
var errReadBudget = errors.New("the query reads too much of the pack")

// files is the file system that SQLite sees: one file for each connection, by its number.
type files struct {
	mu   sync.Mutex // guards next and open; lock: leaf
	next uint64
	open map[string]*file
}

// add returns a new file that reads src, and its name.
func (f *files) add(src tile.Source) (string, *file) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	name, file := strconv.FormatUint(f.next, 10), &file{src: src}
	f.open[name] = file
	return name, file
}

// remove forgets a name. SQLite has opened its file, or has failed to.
func (f *files) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, name)
}

// Open implements fs.FS.
func (f *files) Open(name string) (fs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if file := f.open[name]; file != nil {
		return file, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// Stat implements fs.StatFS. SQLite asks with it for journals, and there are none.
func (f *files) Stat(name string) (fs.FileInfo, error) {
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

// file is the pack as one connection reads it. One goroutine uses it at a time.
type file struct {
	src tile.Source
	off int64

	ctx  context.Context // of the running query
	left int64           // bytes that the running query may still read
	err  error           // the first failure of a read in the running query
}

// begin starts a query.
func (f *file) begin(ctx context.Context, bytes int64) { f.ctx, f.left, f.err = ctx, bytes, nil }

// end ends a query.
func (f *file) end() { f.ctx = nil }

// Seek implements io.Seeker. SQLite seeks from the start alone.
func (f *file) Seek(off int64, _ int) (int64, error) {
	f.off = off
	return off, nil
}

// Read implements io.Reader.
func (f *file) Read(p []byte) (int, error) {
	n := min(int64(len(p)), f.src.Size()-f.off)
	if n <= 0 {
		return 0, io.EOF
	}
	if err := f.readAt(p[:n]); err != nil {
		if f.err == nil {
			f.err = err
		}
		return 0, err
	}
	f.off += n
	return int(n), nil
}

func (f *file) readAt(p []byte) error {
	if f.ctx == nil {
		return errors.New("a read outside of a query")
	}
	if f.left -= int64(len(p)); f.left < 0 {
		return errReadBudget
	}
	return f.src.ReadAt(f.ctx, p, f.off)
}

// Stat implements fs.File.
func (f *file) Stat() (fs.FileInfo, error) { return fileInfo(f.src.Size()), nil }

// Close implements fs.File. The source belongs to the caller of Open.
func (f *file) Close() error { return nil }

// fileInfo is the size of a file. SQLite asks for nothing else.
type fileInfo int64

func (i fileInfo) Name() string       { return "pack" }
func (i fileInfo) Size() int64        { return int64(i) }
func (i fileInfo) Mode() fs.FileMode  { return 0o400 }
func (i fileInfo) ModTime() time.Time { return time.Time{} }
func (i fileInfo) IsDir() bool        { return false }
func (i fileInfo) Sys() any           { return nil }
