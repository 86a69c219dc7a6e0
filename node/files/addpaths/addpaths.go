// Package addpaths remembers from which path each object was added, so that a list of pins can name
// objects that have no label.
//
// The file is a hint: it is not synced, lines that cannot be read are left out, and the oldest go when it
// is full. Commands may note paths in it at the same time.
package addpaths

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"allium/internal/privatefile"
	"allium/protocols/b3"
)

const (
	maxFile = 1 << 20 // bytes of the file; when it is full, the newer half stays
	maxPath = 4 << 10 // bytes of a path; a longer one is not noted
)

// Added is an object and the path from which it was added.
type Added struct {
	Root b3.Root
	Path string
}

// Note writes the paths of objects to a file, and makes it and its directory if there is none. The latest
// path of an object counts.
func Note(ctx context.Context, file string, added []Added) error {
	return privatefile.Locked(ctx, filepath.Dir(file), func() error {
		old, err := read(file)
		if err != nil {
			return err
		}
		known := lines(old)
		var more []byte
		for _, a := range added {
			path := strconv.Quote(a.Path)
			if len(path) > maxPath || string(known[a.Root]) == path {
				continue
			}
			more = append(append(more, a.Root.String()...), ' ')
			more = append(append(more, path...), '\n')
		}
		if len(old)+len(more) > maxFile {
			all := append(old, more...)
			all = all[len(all)-maxFile/2:]
			_, all, _ = bytes.Cut(all, []byte("\n")) // a part of a line
			return privatefile.Replace(file, all)
		}
		if len(more) == 0 {
			return nil
		}
		if n := len(old); n > 0 && old[n-1] != '\n' { // a crash cut the last line
			more = append([]byte("\n"), more...)
		}
		return appendTo(file, more)
	})
}

// appendTo appends p to a file of mode 0600.
func appendTo(file string, p []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(p)
	return errors.Join(err, f.Close())
}

// Read returns the path of each object that a file names. A file that does not exist names none.
func Read(file string) (map[b3.Root]string, error) {
	all, err := read(file)
	if err != nil {
		return nil, err
	}
	paths := map[b3.Root]string{}
	for root, quoted := range lines(all) {
		if path, err := strconv.Unquote(string(quoted)); err == nil {
			paths[root] = path
		}
	}
	return paths, nil
}

// read returns the newest maxFile bytes of a file.
func read(file string) ([]byte, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > maxFile {
		if _, err := f.Seek(-maxFile, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// lines returns the last quoted path of each object.
func lines(all []byte) map[b3.Root][]byte {
	paths := map[b3.Root][]byte{}
	for line := range bytes.Lines(all) {
		address, path, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		if root, err := b3.Parse(string(address)); err == nil {
			paths[root] = path
		}
	}
	return paths
}
