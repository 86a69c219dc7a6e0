package tree

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"allium/gateway/api"
	"allium/node/tree/addcache"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// Disk is files and directories of the local file system, each under its
// own base name. An argument itself may be a symbolic link; links below it are
// links. Names and link targets are brought to Unicode normal form C.
//
// An entry below an argument is bad when no directory can hold it or get would
// refuse it: its name or link target is no UTF-8, the link leads out of the
// tree, the file cannot be read, it is a socket, pipe or device, its name
// becomes that of another entry, or it lies too deep.
type Disk struct {
	names []string
	skip  bool // bad entries are left out
	user  int  // that this process acts for

	// What Check found of directories without bad entries, for the walk after it:
	// entries are listed once, the first maxListed of them.
	listed map[place][]diskEntry
	kept   int // entries in listed, now or earlier
}

// place is where a directory is on disk and in the tree: one directory may be
// added under several names.
type place struct{ file, path string }

// maxListed is how many entries Check keeps: 120 bytes each.
const maxListed = 1 << 18

// NewDisk returns the tree of names, which leaves out bad entries or ends
// with an error at the first.
func NewDisk(names []string, onBad api.OnBadEntry) *Disk {
	return &Disk{names: names, skip: onBad == api.SkipBadEntries, user: os.Geteuid()}
}

// DiskItems are the items of names; a bad entry is an error.
func DiskItems(names ...string) Items { return NewDisk(names, api.RefuseBadEntries).Items() }

// Items yields the tree as it is now.
func (d *Disk) Items() Items {
	return func(yield func(Item, error) bool) {
		w := diskWalk{skip: d.skip, yield: yield, tree: d}
		w.names(d.names)
	}
}

// keepListed keeps what a directory holds.
func (d *Disk) keepListed(dir diskEntry, entries []diskEntry) {
	if d.kept+len(entries) > maxListed {
		return
	}
	if d.listed == nil {
		d.listed = map[place][]diskEntry{}
	}
	d.kept += len(entries)
	d.listed[place{dir.file(), dir.path()}] = entries
}

// takeListed returns what keepListed kept of a directory, once.
func (d *Disk) takeListed(dir diskEntry) ([]diskEntry, bool) {
	at := place{dir.file(), dir.path()}
	entries, ok := d.listed[at]
	delete(d.listed, at)
	return entries, ok
}

// Check walks the tree and reads no file. It returns what Items will leave out
// and rename; bad entries are an error that lists them, unless they are to be
// left out.
func (d *Disk) Check(ctx context.Context) (*api.AddNotes, error) {
	var failure error
	w := diskWalk{ctx: ctx, skip: true, tree: d, check: true, yield: func(_ Item, err error) bool {
		failure = cmp.Or(failure, err)
		return err == nil
	}}
	w.names(d.names)
	if failure == nil && !d.skip {
		failure = w.notes.refusal(false)
	}
	if failure != nil {
		return nil, failure
	}
	return w.notes.get(), nil
}

// diskWalk is one walk. Its methods return false when the consumer wants no
// more.
type diskWalk struct {
	tree  *Disk
	check bool            // by Check
	ctx   context.Context // nil where the consumer ends the walk
	skip  bool
	notes addNotes
	yield func(Item, error) bool
}

func (w *diskWalk) names(names []string) {
	for _, name := range names {
		if !w.name(name) {
			return
		}
	}
}

func (w *diskWalk) name(name string) bool {
	if name == "" { // filepath.Abs takes it for the working directory
		return w.fail(status.Errorf(status.BadRequest, "the empty path names nothing; write . for the working directory"))
	}
	abs, err := filepath.Abs(name) // "." has no base name of its own
	if err != nil {
		return w.fail(err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return w.fail(diskError(err))
	}
	info, err := os.Lstat(real)
	if err != nil {
		return w.fail(diskError(err))
	}
	base := filepath.Base(abs)
	if base == string(filepath.Separator) {
		base = "root"
	}
	base = manifest.Normal(strings.ToValidUTF8(base, "\ufffd")) // no directory has this name
	return w.entry(w.tree.entry(&diskDir{file: real, path: base, shown: name}, "", "", info))
}

func (w *diskWalk) fail(err error) bool {
	w.yield(Item{}, err)
	return false
}

// diskDir is where a directory, or an argument, is.
type diskDir struct {
	file  string // on disk
	path  string // in the tree
	shown string // for people
}

// diskEntry is a file, directory or link that was listed. It is small, as Check
// keeps many.
type diskEntry struct {
	dir   *diskDir // that it is in; an argument itself, whose names are empty
	raw   string   // its name on disk
	name  string   // its name in the tree
	mode  fs.FileMode
	mine  bool // its mode lets the process read it
	state diskFile
}

// entry returns the entry of that name, which info describes.
func (d *Disk) entry(dir *diskDir, raw, name string, info fs.FileInfo) diskEntry {
	e := diskEntry{dir: dir, raw: raw, name: name, mode: info.Mode()}
	if e.mode.IsRegular() {
		e.state.size = info.Size()
		e.state.stamp, _ = addcache.StampOf(info)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	e.mine = ok && e.mode&0o400 != 0 && int(st.Uid) == d.user
	return e
}

// file is where e is on disk.
func (e diskEntry) file() string { return filepath.Join(e.dir.file, e.raw) }

// path is where e is in the tree.
func (e diskEntry) path() string {
	if e.name == "" {
		return e.dir.path
	}
	return e.dir.path + "/" + e.name
}

// shown is what e is called for people.
func (e diskEntry) shown() string {
	if e.raw == "" {
		return e.dir.shown
	}
	return filepath.Join(e.dir.shown, e.raw)
}

// inner is the path from the root of the tree; "" is the root itself.
func (e diskEntry) inner() string { return innerPath(e.path()) }

// innerPath is a path without the name of the tree.
func innerPath(path string) string {
	_, below, _ := strings.Cut(path, "/")
	return below
}

// bad leaves e out, or ends the walk.
func (w *diskWalk) bad(e diskEntry, reason string, err error) bool {
	if e.inner() == "" { // an argument
		if err == nil {
			err = status.Errorf(status.BadRequest, "%s: %s", e.shown(), reason)
		}
		return w.fail(diskError(err))
	}
	if err != nil {
		reason = cause(err)
	}
	w.notes.skipped(e.shown(), reason)
	if w.skip {
		return true
	}
	return w.fail(w.notes.refusal(true))
}

// cause is what the operating system says, without the path.
func cause(err error) string {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		err = e.Err
	}
	if errors.Is(err, syscall.ENAMETOOLONG) {
		return err.Error() + "; add a part of the tree from within it"
	}
	return err.Error()
}

// entry yields one entry and, below a directory, its entries in bytewise order.
func (w *diskWalk) entry(e diskEntry) bool {
	it := Item{Path: e.path()}
	mode := e.mode
	if inner := innerPath(it.Path); inner != "" {
		if reason := manifest.PathProblem(inner, kindOfMode(mode)); reason != "" {
			return w.bad(e, reason, nil)
		}
	}
	switch {
	case mode.IsRegular():
		if err := e.readable(); err != nil {
			return w.bad(e, "", &fs.PathError{Op: "open", Path: e.file(), Err: err})
		}
		it.Kind, it.Executable, it.file = manifest.File, mode&0o111 != 0, e.state
		it.Open = func() (io.ReadCloser, error) {
			// the file may have been replaced by a link since it was listed
			f, err := os.OpenFile(e.file(), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
			return f, diskError(err)
		}
	case mode.IsDir():
		return w.directory(e)
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(e.file())
		if err != nil {
			return w.bad(e, "", err)
		}
		it.Kind, it.Target = manifest.Link, manifest.Normal(target)
		if reason := manifest.LinkProblem(e.inner(), it.Target); reason != "" {
			return w.bad(e, reason, nil)
		}
		if it.Target != target {
			w.notes.renamed(e.shown(), it.Target)
		}
	default:
		return w.bad(e, "it is a "+modeName(mode)+"; only files, directories and symbolic links can be added", nil)
	}
	return w.yield(it, nil)
}

// readable returns why the process may not read the file. Where the mode says that
// it may, no system call asks.
func (e diskEntry) readable() error {
	if e.mine {
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

func (w *diskWalk) directory(e diskEntry) bool {
	if w.ctx != nil && w.ctx.Err() != nil {
		return w.fail(w.ctx.Err())
	}
	entries, known := w.tree.takeListed(e)
	if !known {
		// The names of one directory are all in RAM: its manifest wants them in order.
		list, err := os.ReadDir(e.file())
		if err != nil {
			return w.bad(e, "", err)
		}
		var ok bool
		if entries, ok = w.children(e, list); !ok {
			return false
		}
	}
	if !w.yield(Item{Path: e.path(), Kind: manifest.Directory}, nil) {
		return false
	}
	for _, c := range entries {
		if !w.entry(c) {
			return false
		}
	}
	return true
}

// children are the entries of a directory, sorted, whose names it can hold.
func (w *diskWalk) children(dir diskEntry, list []fs.DirEntry) ([]diskEntry, bool) {
	entries := make([]diskEntry, 0, len(list))
	at := &diskDir{file: dir.file(), path: dir.path(), shown: dir.shown()}
	sorted := true
	for _, d := range list {
		raw := d.Name()
		name := manifest.Normal(raw)
		c := diskEntry{dir: at, raw: raw, name: name}
		if reason := manifest.NameProblem(name); reason != "" {
			if !w.bad(c, reason, nil) {
				return nil, false
			}
			continue
		}
		info, err := d.Info()
		if err != nil {
			if !w.bad(c, "", err) {
				return nil, false
			}
			continue
		}
		sorted = sorted && name == raw
		entries = append(entries, w.tree.entry(at, raw, name, info))
	}
	if sorted {
		if w.check && len(entries) == len(list) {
			w.tree.keepListed(dir, entries)
		}
		return entries, true
	}
	return w.settle(entries)
}

// settle sorts entries of which some have a new name. Of several with one name
// the one that had it stays, or else the first.
func (w *diskWalk) settle(entries []diskEntry) ([]diskEntry, bool) {
	had := func(e diskEntry) bool { return e.raw == e.name }
	slices.SortStableFunc(entries, func(a, b diskEntry) int {
		if c := cmp.Compare(a.name, b.name); c != 0 || had(a) == had(b) {
			return c
		}
		if had(a) {
			return -1
		}
		return 1
	})
	kept := entries[:0]
	for _, e := range entries {
		if len(kept) > 0 && kept[len(kept)-1].name == e.name {
			if !w.bad(e, oneName, nil) {
				return nil, false
			}
			continue
		}
		if !had(e) {
			w.notes.renamed(e.shown(), e.name)
		}
		kept = append(kept, e)
	}
	return kept, true
}

// modeName is what a file that is none of the kinds is.
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
