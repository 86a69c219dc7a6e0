package testnet

import (
	"archive/tar"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"time"

	"allium/gateway/api"
	"allium/node/files"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// content is bytes generated from a seed and a name: the same on every machine.
type content struct {
	seed uint64
	name string
	tree bool
	size int64 // of all files together
}

// part is one file of the content. The path of a single file is its name.
type part struct {
	path string // within the tree
	size int64
}

// A tree has a file for each 16 KiB, at most 256, and 16 in a directory.
const (
	partBytes = 16 << 10
	maxParts  = 256
	partsEach = 16
)

// parts returns the files in the order of Items. Their sizes differ and sum to size.
func (c content) parts() []part {
	if !c.tree {
		return []part{{c.name, c.size}}
	}
	n := min(max(c.size/partBytes, 1), maxParts)
	rng := rand.New(rand.NewChaCha8(c.key("sizes")))
	parts := make([]part, n)
	left := c.size
	for i := range parts {
		size := left
		if rest := n - int64(i); rest > 1 {
			size = min(left, rng.Int64N(2*left/rest+1))
		}
		left -= size
		parts[i] = part{fmt.Sprintf("d%02d/f%03d", i/partsEach, i), size}
	}
	return parts
}

// key returns the seed of one part of the content.
func (c content) key(what string) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "allium testnet content\n%d\n%s\n%s", c.seed, c.name, what))
}

// open returns a reader that generates a file.
func (c content) open(p part) io.Reader {
	return io.LimitReader(rand.NewChaCha8(c.key("file "+p.path)), p.size)
}

// items returns the content as input of an add.
func (c content) items() files.Items {
	return func(yield func(files.Item, error) bool) {
		file := func(p part, at string) bool {
			return yield(files.Item{Path: at, Kind: manifest.File, Open: func() (io.ReadCloser, error) {
				return generated{c.open(p), p}, nil
			}}, nil)
		}
		if !c.tree {
			file(c.parts()[0], c.name)
			return
		}
		if !yield(files.Item{Path: c.name, Kind: manifest.Directory}, nil) {
			return
		}
		dir := ""
		for _, p := range c.parts() {
			if d := path.Dir(p.path); d != dir {
				if dir = d; !yield(files.Item{Path: path.Join(c.name, dir), Kind: manifest.Directory}, nil) {
					return
				}
			}
			if !file(p, path.Join(c.name, p.path)) {
				return
			}
		}
	}
}

// check compares what a node sent with the content, byte by byte.
func (c content) check(s *api.Stream) error {
	parts := c.parts()
	if !c.tree {
		return sameBytes(c.name, c.open(parts[0]), s.Body)
	}
	tr := tar.NewReader(s.Body)
	for _, p := range parts {
		h, err := tr.Next()
		for err == nil && h.Typeflag == tar.TypeDir {
			h, err = tr.Next()
		}
		if err == io.EOF {
			return status.Errorf(status.Corrupt, "%s ends before %s", c.name, p.path)
		}
		if err != nil {
			return err
		}
		if path.Clean(h.Name) != p.path {
			return status.Errorf(status.Corrupt, "%s has %s where %s was added", c.name, h.Name, p.path)
		}
		if err := sameBytes(p.path, c.open(p), tr); err != nil {
			return err
		}
	}
	if h, err := tr.Next(); err == nil {
		return status.Errorf(status.Corrupt, "%s has %s, which was not added", c.name, h.Name)
	} else if err != io.EOF {
		return err
	}
	_, err := io.Copy(io.Discard, s.Body) // the transfer ends with a status
	return err
}

// generated is a file that exists only while it is read. It knows its size.
type generated struct {
	io.Reader
	part part
}

var _ fs.File = generated{}

func (g generated) Close() error               { return nil }
func (g generated) Stat() (fs.FileInfo, error) { return generatedInfo(g.part), nil }

type generatedInfo part

func (i generatedInfo) Name() string     { return path.Base(i.path) }
func (i generatedInfo) Size() int64      { return i.size }
func (generatedInfo) Mode() fs.FileMode  { return 0o644 }
func (generatedInfo) ModTime() time.Time { return time.Time{} }
func (generatedInfo) IsDir() bool        { return false }
func (generatedInfo) Sys() any           { return nil }
