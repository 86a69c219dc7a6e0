package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/node/files/extract"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// MaxEntries bounds the files, links and directories of one version: about 150 MiB of memory.
const MaxEntries = 1 << 19

// maxAside bounds the names that Stats lists.
const maxAside = 100

// Source is the part of [api.Reader] that an update needs.
type Source interface {
	extract.FileReader
	Diff(ctx context.Context, from, to string) iter.Seq2[api.Change, error]
}

// Options are the choices of an update.
type Options struct {
	// MaxBytes bounds a version: the bytes of its files, and of its lists of names.
	MaxBytes int64
	// Mirror removes everything that the version does not have, except what was set aside.
	Mirror bool
	// AllowCaseCollisions allows names in one directory that differ in case or normalisation only.
	AllowCaseCollisions bool
	// Report is told how much of what differs was fetched; nil: nobody is.
	Report api.ProgressFunc
}

// Stats counts what an update did.
type Stats struct {
	Kept    int64 `json:"kept"`    // files and links that were already right
	Written int64 `json:"written"` // files and links that were created or replaced
	Bytes   int64 `json:"bytes"`   // bytes of the written files
	Removed int64 `json:"removed"` // files, links and directories that were removed
	// Left counts files that the version does not have, that an update wrote, and that were edited here.
	Left int64 `json:"left,omitempty"`

	AsideCount int64   `json:"aside_count,omitempty"` // files and directories that were set aside
	Aside      []Aside `json:"aside,omitempty"`       // the first 100 of them
}

// Aside is something that was edited here, and stood where the version has something else.
type Aside struct {
	Path string `json:"path"`
	As   string `json:"as"` // its path now
}

// entry is an entry of a version.
type entry struct {
	path string
	manifest.Entry
}

// update is one update under way.
type update struct {
	d     *Dir
	s     Source
	o     Options
	stats Stats

	entries []entry        // the version, in the order of a walk, without the directory itself
	index   map[string]int // of entries, by path
	dirs    *extract.Directories
	todo    []int          // entries that differ from the disk
	local   map[int]bool   // those of them whose content is on the disk, with the wrong executable bit
	staged  map[string]int // how often the content of each name in the staging is needed
	after   records        // what is there afterwards
}

// Update changes the directory to the version at key, an address or a path below one. It returns an error
// of the outcome body_cap if the version exceeds a bound, bad_request if it breaks the rules of the
// format or is no directory, conflict if two names collide, and that of ctx if it ends before everything
// is fetched; the directory is unchanged then. Once it changes the directory it goes on when ctx ends. An
// error that begins with "the directory is between two versions" says that it did not come to the end;
// the next update of any version does.
func (d *Dir) Update(ctx context.Context, s Source, key string, o Options) (Stats, error) {
	if err := d.check(); err != nil {
		return Stats{}, err
	}
	u := update{
		d: d, s: s, o: o, index: map[string]int{}, dirs: extract.NewDirectories(d.root),
		local: map[int]bool{}, staged: map[string]int{}, after: records{},
	}
	defer u.dirs.Close()
	err := u.run(ctx, key)
	if status.Of(err) == status.NoSpace && d.staged != nil { // it makes room for others
		err = errors.Join(err, d.staged.remove())
		d.staged = nil
	}
	return u.stats, d.failed(err)
}

func (u *update) run(ctx context.Context, key string) error {
	if err := u.list(ctx, key); err != nil {
		return err
	}
	if err := u.compare(ctx); err != nil {
		return err
	}
	if err := u.fetch(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := u.intend(ctx); err != nil {
		return err
	}
	if err := u.apply(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("the directory is between two versions: %w", err)
	}
	return nil
}

// list reads the whole listing of the version, and no file.
func (u *update) list(ctx context.Context, key string) error {
	check := extract.NewListing(u.d.path, u.o.AllowCaseCollisions)
	begun, left := false, u.o.MaxBytes
	for c, err := range u.s.Diff(ctx, "", key) {
		if err != nil {
			return err
		}
		if c.New == nil || (c.Path == "") == begun {
			return status.Errorf(status.Upstream, "the node's listing of %s has %q where it cannot be", key, c.Path)
		}
		e := extract.ManifestEntry(*c.New)
		if !begun && e.Kind != manifest.Directory {
			return status.Errorf(status.BadRequest, "it stands for a %s; a directory is needed", e.Kind)
		}
		if err := check.Check(c.Path, e); err != nil {
			return err
		}
		if e.Size < 0 || e.Size > left {
			return status.Errorf(status.BodyCap, "this version is larger than %s; allow more with --max-bytes",
				limits.Bytes(u.o.MaxBytes).Human())
		}
		left -= e.Size
		if !begun {
			begun = true
			continue
		}
		if c.Path == stagingName {
			return &manifest.EntryError{Entry: c.Path, Outcome: status.BadRequest,
				Reason: "this command needs the name"}
		}
		if _, twice := u.index[c.Path]; twice {
			return &manifest.EntryError{Entry: c.Path, Outcome: status.BadRequest, Reason: "the name is there twice"}
		}
		if len(u.entries) == MaxEntries {
			return status.Errorf(status.BodyCap, "this version has more than %d files and directories", MaxEntries)
		}
		u.index[c.Path] = len(u.entries)
		u.entries = append(u.entries, entry{c.Path, e})
	}
	if !begun {
		return status.Errorf(status.Upstream, "the node's listing of %s is empty", key)
	}
	return nil
}

// fetch fetches the files that differ to the staging.
func (u *update) fetch(ctx context.Context) (err error) {
	total := int64(0)
	for _, i := range u.todo {
		if e := u.entries[i]; e.Kind == manifest.File {
			if u.staged[stagedName(e.Entry)]++; u.staged[stagedName(e.Entry)] == 1 {
				total += e.Size
			}
		}
	}
	if len(u.todo) == 0 {
		return nil
	}
	if u.d.staged == nil {
		if u.d.staged, err = openStaging(u.d.root); err != nil {
			return err
		}
	}
	staged := u.d.staged
	if err := staged.keep(u.staged); err != nil {
		return err
	}
	files := extract.Fetcher{From: u.s}
	files.Write = func(_ string, e manifest.Entry, r io.Reader) error { return staged.put(e, r) }
	if u.o.Report != nil {
		files.Report = func(p api.Progress) {
			p.TotalBytes = total
			u.o.Report(p)
		}
	}
	asked := map[string]bool{}
	for _, i := range u.todo {
		e := u.entries[i]
		if e.Kind != manifest.File || asked[stagedName(e.Entry)] {
			continue
		}
		asked[stagedName(e.Entry)] = true
		if has, err := staged.has(ctx, e.Entry); err != nil {
			return err
		} else if has {
			continue
		}
		if u.local[i] {
			if err := u.copy(e); err != nil {
				return err
			}
			continue
		}
		if err := files.Add(ctx, e.path, e.Entry); err != nil {
			return err
		}
	}
	return files.Flush(ctx)
}

// copy takes the content of an entry from the disk.
func (u *update) copy(e entry) error {
	in, name, err := u.dirs.Of(e.path)
	if err != nil {
		return err
	}
	f, err := in.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return u.d.staged.put(e.Entry, f)
}
