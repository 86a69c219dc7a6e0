// Package homefiles recognizes home directories of nodes by what is in them, and private keys by what they
// are. An add refuses both, so that no key leaves its machine.
//
// [IsHome], [Key] and [Own.Above] look at names and first bytes, so they know the homes of all nodes, also
// copies. [Own] knows one home by device and inode: its parts are found behind hard links and bind mounts too.
package homefiles

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/libp2p/go-libp2p/core/pnet"

	"allium/internal/keyfile"
	"allium/internal/privatefile"
)

// keyStart begins the text of every Ed25519 key in the format of package keyfile.
const keyStart = "CAES"

// signs are files that only homes have, with their first bytes. A home has one of them from the moment on in
// which it has a secret.
var signs = []struct{ file, start string }{
	{"identity.key", keyStart},
	{"capability.keys", ringStart},
	{"capability.revoked", "allium-capability-revoked/"},
}

// pairs are files that make a home together: each is found in other places too.
var pairs = []struct{ file, start, beside string }{
	{"swarm.key", swarmStart, "config.toml"},
	{"store/FORMAT", "allium store\n", "LOCK"},
}

// maxZones bounds the entries of a directory zones that are looked at.
const maxZones = 1 << 10

// IsHome reports whether the directory dir is the home of a node. has reports whether the directory has an
// entry with a name; nil: it is not known. Links count for nothing: an add does not follow them.
func IsHome(dir string, has func(name string) bool) bool { return isHome(dir, has, nil) }

// isHome is IsHome. A file counts only if trusted, unless that is nil, returns true for it.
func isHome(dir string, has func(name string) bool, trusted func(fs.FileInfo) bool) bool {
	begins := func(file, start string) bool { return begins(filepath.Join(dir, file), start, trusted) }
	may := func(file string) bool {
		name, _, _ := strings.Cut(file, "/")
		return has == nil || has(name)
	}
	for _, s := range signs {
		if may(s.file) && begins(s.file, s.start) {
			return true
		}
	}
	for _, p := range pairs {
		if may(p.file) && may(p.beside) && begins(p.beside, "") && begins(p.file, p.start) {
			return true
		}
	}
	return may("zones") && hasZone(filepath.Join(dir, "zones"), trusted)
}

// hasZone reports whether a directory has the private key of a zone, in a file that is trusted.
func hasZone(dir string, trusted func(fs.FileInfo) bool) bool {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return false
	}
	for _, e := range entries(dir, maxZones) {
		if name := e.Name(); strings.HasPrefix(name, "k51") && strings.HasSuffix(name, ".key") &&
			begins(filepath.Join(dir, name), keyStart, trusted) {
			return true
		}
	}
	return false
}

// begins reports whether file is a regular file that is trusted and begins with start.
func begins(file, start string, trusted func(fs.FileInfo) bool) bool {
	info, err := os.Lstat(file) // opening a pipe would block
	if err != nil || !info.Mode().IsRegular() || trusted != nil && !trusted(info) {
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

// Kinds of private keys, as [Key] calls them.
const (
	identity   = "the private key of a node or a zone"
	network    = "the key of a private network"
	capability = "the keys that mint capabilities"
)

// Beginnings of texts with keys.
const (
	ringStart  = "allium-capability-keys/"
	swarmStart = "/key/swarm/psk/"
)

// Sizes of keys of a private network, from 32 bytes as they are to 64 hex digits with the longest line breaks. A
// text of an Ed25519 key has a size between them.
const (
	shortestKey = 60
	longestKey  = 99
)

// Sizes of the text of one to smallRing keys that mint capabilities, as allium writes it. Its ids have a digit or
// two, and it may have a line about revocations. A larger text is looked at where its name tells of it.
const (
	ringHead   = 208
	ringKey    = 67
	ringRevoke = 8
	smallRing  = 4
	maxRing    = 16 << 10
)

// Key returns what kind of private key a file of allium is, under any name and with any mode, and "" if it is
// none. It opens only files that have the size of a key: most files of a tree are not opened.
//
// It does not know keys in archives, in other formats such as PEM, and capabilities themselves. A text of more
// than four keys that mint capabilities, or one written by hand, it knows if "capability" is in its name.
func Key(file string, mode fs.FileMode, size int64) string {
	switch {
	case !mode.IsRegular():
		return ""
	case size >= shortestKey && size <= longestKey:
		return shortKey(read(file, longestKey))
	case ringSize(size), size <= maxRing && strings.Contains(filepath.Base(file), "capability"):
		if begins(file, ringStart, nil) {
			return capability
		}
	}
	return ""
}

// shortKey is Key for the text of a file.
func shortKey(text []byte) string {
	if bytes.HasPrefix(text, []byte(swarmStart)) {
		if psk, err := pnet.DecodeV1PSK(bytes.NewReader(text)); err == nil &&
			!bytes.Equal(psk, make([]byte, len(psk))) {
			return network
		}
		return ""
	}
	if !bytes.HasPrefix(text, []byte(keyStart)) {
		return ""
	}
	if _, err := keyfile.Decode(text); err != nil {
		return ""
	}
	return identity
}

// ringSize reports whether the text of a few keys that mint capabilities may have a size.
func ringSize(size int64) bool {
	for n := range int64(smallRing) {
		more := size - ringHead - (n+1)*ringKey
		if more >= 0 && more <= n+1 || more >= ringRevoke && more <= n+1+ringRevoke {
			return true
		}
	}
	return false
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

// Of returns the files of a home directory: the directory, its entries and theirs. Deeper files, such as stored
// objects, are left out. Links to keys and to zones are followed.
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
//
// A file makes a home of its directory only if the owner of that directory or this user owns it. So nobody
// else can make a home of a directory that all may write to, such as /tmp.
func (o Own) Above(path string) string {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err == nil && (o.Has(info) || isHome(dir, nil, ownedLike(info))) {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// ownedLike returns a function that reports whether the owner of a directory or this user owns a file. All
// files count on a system that does not tell owners.
func ownedLike(dir fs.FileInfo) func(fs.FileInfo) bool {
	return func(file fs.FileInfo) bool {
		uid, known := privatefile.Owner(file)
		of, _ := privatefile.Owner(dir)
		return !known || uid == of || uid == os.Geteuid()
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
