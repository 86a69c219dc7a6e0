// Package homefiles recognizes home directories of nodes by what is in them, and private keys by what they
// are. An add refuses both, so that no key leaves its machine.
//
// [IsHome], [IsKey] and [Own.Above] look at names and first bytes, so they know the homes of all nodes, also
// copies. [Own] knows one home by device and inode: its parts are found behind hard links and bind mounts too.
package homefiles

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"allium/internal/keyfile"
)

// keyStart begins the text of every Ed25519 key in the format of package keyfile.
const keyStart = "CAES"

// signs are files that only homes have, with their first bytes. A home has one of them from the moment on in
// which it has a secret.
var signs = []struct{ file, start string }{
	{"identity.key", keyStart},
	{"capability.keys", "allium-capability-keys/"},
	{"capability.revoked", "allium-capability-revoked/"},
}

// pairs are files that make a home together: each is found in other places too.
var pairs = []struct{ file, start, beside string }{
	{"swarm.key", "/key/swarm/psk/", "config.toml"},
	{"store/FORMAT", "allium store\n", "LOCK"},
}

// maxZones bounds the entries of a directory zones that are looked at.
const maxZones = 1 << 10

// IsHome reports whether the directory dir is the home of a node. has reports whether the directory has an
// entry with a name; nil: it is not known. Links count for nothing: an add does not follow them.
func IsHome(dir string, has func(name string) bool) bool {
	may := func(file string) bool {
		name, _, _ := strings.Cut(file, "/")
		return has == nil || has(name)
	}
	for _, s := range signs {
		if may(s.file) && begins(filepath.Join(dir, s.file), s.start) {
			return true
		}
	}
	for _, p := range pairs {
		if may(p.file) && may(p.beside) && begins(filepath.Join(dir, p.beside), "") &&
			begins(filepath.Join(dir, p.file), p.start) {
			return true
		}
	}
	return may("zones") && hasZone(filepath.Join(dir, "zones"))
}

// hasZone reports whether a directory has the private key of a zone.
func hasZone(dir string) bool {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return false
	}
	for _, e := range entries(dir, maxZones) {
		if name := e.Name(); strings.HasPrefix(name, "k51") && strings.HasSuffix(name, ".key") &&
			begins(filepath.Join(dir, name), keyStart) {
			return true
		}
	}
	return false
}

// begins reports whether file is a regular file that begins with start.
func begins(file, start string) bool {
	info, err := os.Lstat(file) // opening a pipe would block
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	if start == "" {
		return true
	}
	return string(read(file, len(start))) == start
}

// read returns at most n bytes of a file, fewer if it cannot be read.
func read(file string, n int) []byte {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	p := make([]byte, n)
	n, _ = io.ReadFull(f, p) // what cannot be read cannot be added
	return p[:n]
}

// Sizes of a file with one key, without a line break and with the longest.
const (
	shortestKey = 92
	longestKey  = 94
)

// IsKey reports whether file, which info describes, is the private key of a node or a zone, under any name.
// It opens only files that have the size of a key and are closed to other users, as every key is that allium
// wrote.
func IsKey(file string, mode fs.FileMode, size int64) bool {
	if !mode.IsRegular() || mode.Perm()&0o077 != 0 || size < shortestKey || size > longestKey {
		return false
	}
	_, err := keyfile.Decode(read(file, longestKey))
	return err == nil
}

// id is a file, whatever its path is.
type id struct{ device, inode uint64 }

func idOf(info fs.FileInfo) (id, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return id{}, false
	}
	return id{uint64(st.Dev), st.Ino}, true //nolint:unconvert // signed on some systems
}

// Own are the files of one home directory. The zero value has none. It is safe for concurrent use.
type Own struct{ files map[id]bool }

// maxOwn bounds the entries of each directory that Of looks at.
const maxOwn = 1 << 12

// Of returns the files of a home directory: the directory, its entries and theirs. What lies deeper, such as
// stored objects, is left out. Links to keys and to zones are followed.
func Of(home string) Own {
	o := Own{map[id]bool{}}
	o.add(os.Stat(home))
	for _, e := range entries(home, maxOwn) {
		name := filepath.Join(home, e.Name())
		o.add(os.Lstat(name))
		if e.IsDir() || e.Name() == "zones" {
			for _, below := range entries(name, maxOwn) {
				o.add(os.Lstat(filepath.Join(name, below.Name())))
			}
		}
	}
	for _, linked := range []string{"identity.key", "capability.keys", "swarm.key", "zones"} {
		o.add(os.Stat(filepath.Join(home, linked)))
	}
	return o
}

func (o Own) add(info fs.FileInfo, err error) {
	if err != nil {
		return
	}
	if id, ok := idOf(info); ok {
		o.files[id] = true
	}
}

// Has reports whether info describes a file of the home, or the home.
func (o Own) Has(info fs.FileInfo) bool {
	if len(o.files) == 0 {
		return false
	}
	id, ok := idOf(info)
	return ok && o.files[id]
}

// Above returns the home directory in which path is, this one or that of another node, and "" if there is
// none. path is absolute and free of links.
func (o Own) Above(path string) string {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if IsHome(dir, nil) {
			return dir
		}
		if info, err := os.Stat(dir); err == nil && o.Has(info) {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// entries returns at most n entries of a directory, none if it cannot be read.
func entries(dir string, n int) []fs.DirEntry {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	list, _ := d.ReadDir(n) // the entries before an error count
	return list
}
