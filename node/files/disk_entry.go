package files

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"allium/node/files/addcache"
	"allium/protocols/manifest"
)

// minStat is the minimum number of entries of a directory that a goroutine describes, so that small directories
// need only one.
const minStat = 64

// diskDir is the place of a directory or of an argument.
type diskDir struct {
	file  string // path on disk
	path  string // path in the tree
	shown string // path in messages
}

// diskEntry is a listed file, directory or link. It is small because Check remembers
// many.
type diskEntry struct {
	dir           *diskDir // its directory; of an argument, which has empty names, the argument
	raw           string   // its name on disk
	name          string   // its name in the tree
	mode          fs.FileMode
	ownerReadable bool // its owner and mode let this process read it
	own           bool // it is in the home directory of this machine, or is it
	state         diskFile
}

// entry returns the entry with these names that info describes.
func (d *Disk) entry(dir *diskDir, raw, name string, info fs.FileInfo) diskEntry {
	e := diskEntry{dir: dir, raw: raw, name: name, mode: info.Mode(), own: d.own.Has(info)}
	if e.mode.IsRegular() {
		e.state.size = info.Size()
		e.state.stamp, _ = addcache.StampOf(info)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	e.ownerReadable = ok && e.mode&0o400 != 0 && int(st.Uid) == d.user
	return e
}

// stat returns the listed entries of a directory, with the error of each that cannot be described.
func (d *Disk) stat(dir *diskDir, list []fs.DirEntry) ([]diskEntry, []error) {
	entries, errs := make([]diskEntry, len(list)), make([]error, len(list))
	procs := runtime.GOMAXPROCS(0)
	part := max(minStat, (len(list)+procs-1)/procs)
	var wg sync.WaitGroup
	for from := 0; from < len(list); from += part {
		wg.Go(func() {
			for i := from; i < min(from+part, len(list)); i++ {
				raw := list[i].Name()
				name := manifest.Normal(raw)
				entries[i] = diskEntry{dir: dir, raw: raw, name: name}
				if info, err := list[i].Info(); err != nil {
					errs[i] = err
				} else {
					entries[i] = d.entry(dir, raw, name, info)
				}
			}
		})
	}
	wg.Wait()
	return entries, errs
}

// file returns the path of e on disk.
func (e diskEntry) file() string { return filepath.Join(e.dir.file, e.raw) }

// path returns the path of e in the tree.
func (e diskEntry) path() string {
	if e.name == "" {
		return e.dir.path
	}
	return e.dir.path + "/" + e.name
}

// shown returns the path of e for messages.
func (e diskEntry) shown() string {
	if e.raw == "" {
		return e.dir.shown
	}
	return filepath.Join(e.dir.shown, e.raw)
}

// inner returns the path from the root of the tree; it is empty for the root.
func (e diskEntry) inner() string { return innerPath(e.path()) }

// innerPath returns a path without its first element, the name of the tree.
func innerPath(path string) string {
	_, below, _ := strings.Cut(path, "/")
	return below
}

// cause returns the message of the operating system, without the path.
func cause(err error) string {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		err = e.Err
	}
	if errors.Is(err, syscall.ENAMETOOLONG) {
		return err.Error() + "; add a part of the tree from within it"
	}
	return err.Error()
}

// readable returns an error when this process may not read the file. It needs a system
// call only when owner and mode leave that open.
func (e diskEntry) readable() error {
	if e.ownerReadable {
		return nil
	}
	return unix.Access(e.file(), unix.R_OK)
}

func kindOfMode(m fs.FileMode) manifest.EntryKind {
	if m.IsDir() {
		return manifest.Directory
	}
	return manifest.File
}

// modeName returns what a file is that cannot be added.
func modeName(m fs.FileMode) string {
	switch {
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeNamedPipe != 0:
		return "named pipe"
	default:
		return "device"
	}
}
