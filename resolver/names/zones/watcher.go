package zones

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"allium/internal/env"
	"allium/internal/filewatch"
	"allium/internal/privatefile"
	"allium/protocols/name"
)

// The shortest times between two looks at the petnames and the maps: by the watcher itself, and
// when a name was not found.
const (
	watchEvery = time.Second
	lookAgain  = 100 * time.Millisecond
)

// Watcher reads the petnames and the maps again when they change. Its methods are safe for
// concurrent use.
type Watcher struct {
	zones *Zones
	log   *slog.Logger
	files *filewatch.Files
	now   atomic.Pointer[reading]

	seen    seenMaps // of all readings; only read uses it
	running atomic.Bool
}

// reading is the result of the latest read of the files.
type reading struct {
	names *ShortNames
	err   error // why there are no names; the key of a zone is understood all the same
}

// Watch returns a watcher of the short names, and reads them. Petnames that cannot be read are the
// error of each look-up of a short name, until they can be read.
func (z *Zones) Watch(e env.Env) (*Watcher, error) {
	e.SetDefaults()
	w := &Watcher{zones: z, log: e.Log, seen: seenMaps{}}
	files := []string{z.file(petnamesFile)}
	for _, m := range z.maps {
		files = append(files, m.file)
	}
	w.read()
	if err := w.now.Load().err; err != nil {
		w.failed(err)
	}
	var err error
	w.files, err = filewatch.New(filewatch.Config{
		Files: func() []string { return files }, Every: e.Every(watchEvery), Hurry: lookAgain, Failed: w.failed,
		Read: func() error { w.read(); return nil },
	})
	return w, err
}

// read reads the files. A file that cannot be read any more is an error: its former content does not count.
func (w *Watcher) read() {
	names, err := w.zones.shortNames(w.seen)
	w.now.Store(&reading{names, err})
	if err == nil && w.seen.raise(names.seen()) {
		w.save()
	}
}

// save writes the numbers of the maps, so that none of them goes back after a restart. Before Run the
// home directory is not this process's alone, and nothing is written.
func (w *Watcher) save() {
	if len(w.seen) == 0 || w.zones.amnesia || !w.running.Load() {
		return
	}
	all, err := w.zones.seenMaps()
	if err == nil && all.raise(w.seen) {
		all.trim(w.zones.maps)
		err = privatefile.Replace(w.zones.file(seenName), all.encode())
	}
	if err != nil {
		w.log.Warn("cannot remember the numbers of zone maps: an older map may be taken after a restart", "error", err)
	}
}

func (w *Watcher) failed(err error) {
	w.log.Warn("cannot read the short names of zones: names need the key of their zone until then", "error", err)
}

// Run watches the files until ctx ends.
func (w *Watcher) Run(ctx context.Context, ready func()) error {
	w.running.Store(true)
	w.save()
	return w.files.Run(ctx, ready)
}

// Look makes Run look at the files now, and read them if they have changed, unless it has done so a
// moment ago. It waits for that.
func (w *Watcher) Look(ctx context.Context) error { return w.files.Look(ctx) }

// Reload makes Run read the files now.
func (w *Watcher) Reload(ctx context.Context) error {
	if err := w.files.Reload(ctx); err != nil {
		return err
	}
	return w.now.Load().err
}

// Expand returns the name that text stands for; see [ShortNames.Expand].
func (w *Watcher) Expand(text string, now time.Time) (name.Name, Found, error) {
	if n, err := name.Parse(text); err == nil {
		return n, Found{Zone: n.Zone, Origin: FromKey}, nil
	}
	r := w.now.Load()
	if r.err != nil {
		return name.Name{}, Found{}, r.err
	}
	return r.names.Expand(text, now)
}
