package files

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
	"sync"
	"syscall"

	"allium/gateway/api"
	"allium/node/homefiles"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// Disk lists files and directories of the local file system, each under its own base
// name. An argument that is a symbolic link stands for its target; links below an
// argument are added as links. Names and link targets are written in Unicode normal
// form C. One goroutine walks a Disk.
//
// An entry below an argument is bad when no directory can hold it, or get would refuse it. Its name or link target is
// not UTF-8, or the link leads out of the tree. Or the file cannot be read, or it is a socket, pipe or device. Or its
// normalised name is that of another entry, or it lies too deep. The files that package homefiles knows are bad too: a
// home directory of a node, a part of one, and a private key.
type Disk struct {
	names []string
	skip  bool // skip bad entries
	own   homefiles.Own
	user  int // effective user id of this process

	// listed has the entries that Check found; Items does not read these directories again. It has only directories
	// without bad entries, and at most maxListed entries.
	listed      map[place][]diskEntry
	listedCount int // entries that were ever put in listed

	size  int64 // bytes of the files that Check found
	found int   // entries that Check found
	file  bool  // the last of them is a file

	mu      sync.Mutex      // lock: leaf
	leftOut map[string]bool // paths of the files that leaveOut was called for
	late    addNotes        // those that LeftOut has not returned
}

// place holds the path of a directory on disk and its path in the tree: one directory may be
// added under several names.
type place struct{ file, path string }

// maxListed bounds the entries that Check remembers, of about 120 bytes each.
const maxListed = 1 << 18

// NewDisk returns the tree of names. onBad says whether its items skip bad entries or
// end with an error at the first. own are the files of this machine's home directory.
func NewDisk(names []string, onBad api.OnBadEntry, own homefiles.Own) *Disk {
	return &Disk{names: names, skip: onBad == api.SkipBadEntries, own: own, user: os.Geteuid()}
}

// DiskItems returns the items of names; a bad entry is an error.
func DiskItems(names ...string) Items {
	return NewDisk(names, api.RefuseBadEntries, homefiles.Own{}).Items()
}

// Items yields the tree as it is now.
func (d *Disk) Items() Items {
	return func(yield func(Item, error) bool) {
		w := diskWalk{skip: d.skip, yield: yield, tree: d}
		w.names(d.names)
	}
}

// rememberListed remembers the entries of a directory, unless there are too many.
func (d *Disk) rememberListed(dir diskEntry, entries []diskEntry) {
	if d.listedCount+len(entries) > maxListed {
		return
	}
	if d.listed == nil {
		d.listed = map[place][]diskEntry{}
	}
	d.listedCount += len(entries)
	d.listed[place{dir.file(), dir.path()}] = entries
}

// takeListed returns the remembered entries of a directory and forgets them.
func (d *Disk) takeListed(dir diskEntry) ([]diskEntry, bool) {
	at := place{dir.file(), dir.path()}
	entries, ok := d.listed[at]
	delete(d.listed, at)
	return entries, ok
}

// Check walks the tree and reads no file. It returns the entries that Items will skip
// or rename. Unless bad entries are skipped, they are an error that lists them.
func (d *Disk) Check(ctx context.Context) (*api.AddNotes, error) {
	var failure error
	d.size, d.found = 0, 0
	w := diskWalk{ctx: ctx, skip: true, tree: d, check: true, yield: func(it Item, err error) bool {
		failure = cmp.Or(failure, err)
		d.size += it.file.size
		d.found, d.file = d.found+1, it.Kind == manifest.File
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

// Size returns how many bytes the files have that Check found.
func (d *Disk) Size() int64 { return d.size }

// OneFile reports whether Check found one file and nothing else.
func (d *Disk) OneFile() bool { return d.found == 1 && d.file }

// diskWalk is one walk of the tree. Its methods return false to end the walk.
type diskWalk struct {
	tree  *Disk
	check bool            // Check walks, not Items
	ctx   context.Context // ends the walk; nil: only the consumer ends it
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
	if name == "" { // filepath.Abs would return the working directory
		return w.fail(status.Errorf(status.BadRequest,
			"the empty path names nothing; write . for the working directory"))
	}
	abs, err := filepath.Abs(name) // "." alone has no base name
	if err != nil {
		return w.fail(err)
	}
	real, info, err := resolve(abs, name)
	if err != nil {
		return w.fail(diskError(err))
	}
	if home := w.tree.own.Above(real); home != "" {
		return w.fail(status.Errorf(status.BadRequest, "%s is in %s, the home directory of an allium node, which has "+
			"private keys; copy what others may read to another place", name, home))
	}
	base := filepath.Base(abs)
	if base == string(filepath.Separator) {
		base = "root"
	}
	// The name of an argument is in no directory, so its invalid UTF-8 may be replaced.
	base = manifest.Normal(strings.ToValidUTF8(base, "\ufffd"))
	return w.entry(w.tree.entry(&diskDir{file: real, path: base, shown: name}, "", "", info))
}

// resolve returns the path to which abs leads, and describes what is there. Its errors name the path as shown.
func resolve(abs, shown string) (real string, info fs.FileInfo, err error) {
	if info, err = os.Stat(abs); err == nil { // filepath.EvalSymlinks gives neither paths nor system errors
		real, err = filepath.EvalSymlinks(abs)
	}
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		err = e.Err
	}
	if err != nil {
		return "", nil, &fs.PathError{Op: "open", Path: shown, Err: err}
	}
	return real, info, nil
}

func (w *diskWalk) fail(err error) bool {
	w.yield(Item{}, err)
	return false
}

// bad skips e, or ends the walk with an error.
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

// secret is bad for an entry that has private keys: the notes name it before all others.
func (w *diskWalk) secret(e diskEntry, reason string) bool {
	if e.inner() == "" {
		return w.bad(e, reason, nil)
	}
	w.notes.secret(e.shown(), reason)
	return w.skip || w.fail(w.notes.refusal(true))
}

// The reasons to leave out what has private keys.
const (
	isHome = "it is the home directory of an allium node, which has private keys"
	isPart = "it is a part of this node's home directory, which has private keys"
)

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
	case e.own && !mode.IsDir():
		return w.secret(e, isPart)
	case mode.IsRegular():
		if key := homefiles.Key(e.file(), mode, e.state.size); key != "" {
			return w.secret(e, "it is "+key)
		}
		if err := e.readable(); err != nil {
			return w.bad(e, "", &fs.PathError{Op: "open", Path: e.file(), Err: err})
		}
		if w.tree.isLeftOut(it.Path) {
			return true
		}
		it.Kind, it.Executable, it.file = manifest.File, mode&0o111 != 0, e.state
		it.disk, it.listed = w.tree, it.Path
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

func (w *diskWalk) directory(e diskEntry) bool {
	if w.ctx != nil && w.ctx.Err() != nil {
		return w.fail(w.ctx.Err())
	}
	entries, known := w.tree.takeListed(e)
	if !known {
		// All names of a directory are in RAM, because its manifest needs them sorted.
		list, err := os.ReadDir(e.file())
		if err != nil {
			return w.bad(e, "", err)
		}
		switch home := homefiles.IsHome(e.file(), listed(list)); {
		case home:
			return w.secret(e, isHome)
		case e.own:
			return w.secret(e, isPart)
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

// listed returns a function that reports whether a list that is sorted by name has a name.
func listed(list []fs.DirEntry) func(name string) bool {
	return func(name string) bool {
		_, ok := slices.BinarySearchFunc(list, name, func(e fs.DirEntry, name string) int {
			return cmp.Compare(e.Name(), name)
		})
		return ok
	}
}

// children returns the sorted entries of a directory, without bad ones.
func (w *diskWalk) children(dir diskEntry, list []fs.DirEntry) ([]diskEntry, bool) {
	all, errs := w.tree.stat(&diskDir{file: dir.file(), path: dir.path(), shown: dir.shown()}, list)
	entries := all[:0]
	sorted := true
	for i, c := range all {
		switch reason := manifest.NameProblem(c.name); {
		case reason != "":
			if !w.bad(c, reason, nil) {
				return nil, false
			}
		case errs[i] != nil:
			if !w.bad(c, "", errs[i]) {
				return nil, false
			}
		default:
			sorted = sorted && c.name == c.raw
			entries = append(entries, c)
		}
	}
	if sorted {
		if w.check && len(entries) == len(list) {
			w.tree.rememberListed(dir, entries)
		}
		return entries, true
	}
	return w.sortRenamed(entries)
}

// sortRenamed sorts entries after some were renamed. Of several with one name it keeps
// the entry that had the name before, or else the first.
func (w *diskWalk) sortRenamed(entries []diskEntry) ([]diskEntry, bool) {
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
