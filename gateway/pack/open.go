package pack

import (
	"bytes"
	"context"
	"path/filepath"

	"allium/gateway/pack/mbtiles"
	"allium/gateway/pack/pmtiles"
	"allium/gateway/pack/tile"
	"allium/gateway/policy"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// opener opens and verifies packs.
type opener struct {
	dir         string
	objects     Objects
	keys        Keys
	filter      policy.Filter
	directories *pmtiles.Cache
	databases   *mbtiles.Pool
}

// newOpener returns an opener. The caller closes its databases.
func newOpener(cfg Config, d Deps) opener {
	directories := pmtiles.NewCache(int64(cfg.PackCache))
	d.Limits.NewUsage(limits.Spec{
		Name: "gateway.pack_cache", Path: "packs → decoded directories",
		Policy: "the least recently used are dropped",
	}, int64(cfg.PackCache), directories.Used)
	return opener{
		dir: cfg.Dir, objects: d.Objects, keys: d.Keys, filter: d.Filter,
		directories: directories, databases: mbtiles.NewPool(d.Limits),
	}
}

// refresh returns the state of a pack that is to be mounted. changed is false, and the state nil, if the
// mounted one is still the pack. report may be nil.
func (o opener) refresh(
	ctx context.Context, m *mount, report ProgressFunc,
) (now *state, changed bool, err error) {
	m.mu.Lock()
	old := m.current
	m.mu.Unlock()
	if m.of.File != "" {
		if old != nil && !old.file.replaced(o.dir, m.of.File) {
			return nil, false, o.checkBeside(m.of.File, old.archive.Info().Format)
		}
		ctx, cancel := context.WithTimeout(ctx, mountTimeout)
		defer cancel()
		now, err = o.openFile(ctx, m.of.File)
		return now, true, err
	}
	at, err := o.find(ctx, m)
	if err != nil {
		return nil, false, err
	}
	if old != nil && old.root == at.Root {
		return nil, false, nil
	}
	now, err = o.openObject(ctx, at.Root, report)
	if now != nil {
		now.named, now.allowed = at.Named, at.Allowed
	}
	return now, true, err
}

// find returns what the key of a pack stands for.
func (o opener) find(ctx context.Context, m *mount) (Found, error) {
	ctx, cancel := context.WithTimeout(ctx, mountTimeout)
	defer cancel()
	at, err := o.keys.FindObject(ctx, m.of.Key)
	if err == nil {
		err = o.filter.Object(at.Root)
	}
	m.mu.Lock()
	m.ttl = at.TTL
	m.mu.Unlock()
	return at, err
}

// openFile verifies a file below dir.
func (o opener) openFile(ctx context.Context, name string) (*state, error) {
	file, err := openFile(o.dir, name)
	if err != nil {
		return nil, err
	}
	format, err := formatOf(ctx, file)
	if err == nil {
		err = o.checkBeside(name, format)
	}
	var a archive
	if err == nil {
		a, err = o.verify(ctx, file, format)
	}
	if err != nil {
		_ = file.Close() // it was only read
		return nil, err
	}
	return newState(a, b3.Root{}, file, file.size), nil
}

// checkBeside refuses a database below dir that has changes in a file beside it.
func (o opener) checkBeside(name, format string) error {
	if format != mbtiles.Format {
		return nil
	}
	return mbtiles.CheckBeside(filepath.Join(o.dir, name))
}

// openObject verifies an object. One in the format MBTiles is fetched whole.
func (o opener) openObject(ctx context.Context, root b3.Root, report ProgressFunc) (*state, error) {
	open, cancel := context.WithTimeout(ctx, mountTimeout)
	defer cancel()
	src, err := openObject(open, o.objects, root)
	if err != nil {
		return nil, err
	}
	format, err := formatOf(open, src)
	if err != nil {
		return nil, err
	}
	keep := func() {}
	if format == mbtiles.Format {
		keep = o.objects.Keep(root)
		if err := o.fetch(ctx, src, report); err != nil {
			keep()
			return nil, err
		}
	}
	verify, cancel := context.WithTimeout(ctx, mountTimeout)
	defer cancel()
	a, err := o.verify(verify, src, format)
	if err != nil {
		keep()
		return nil, err
	}
	s := newState(a, root, nil, src.size)
	s.keep = keep
	return s, nil
}

// fetch makes an object local and whole.
func (o opener) fetch(ctx context.Context, src *objectSource, report ProgressFunc) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	c, err := o.objects.OpenObject(ctx, src.root, false)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Copy(ctx, &counter{total: src.size, report: report}, 0, src.size)
}

// ProgressFunc receives how many bytes of a pack have arrived. It must return at once.
type ProgressFunc func(done, total int64)

// counter discards what is written to it, and reports how much that was.
type counter struct {
	done, total int64
	report      ProgressFunc // nil: nobody wants to know
}

func (c *counter) Write(b []byte) (int, error) {
	c.done += int64(len(b))
	if c.report != nil {
		c.report(c.done, c.total)
	}
	return len(b), nil
}

// formatOf returns the format of a pack by its first bytes.
func formatOf(ctx context.Context, src tile.Source) (string, error) {
	var first [16]byte
	n := min(src.Size(), int64(len(first)))
	if err := src.ReadAt(ctx, first[:n], 0); err != nil {
		return "", err
	}
	switch {
	case bytes.HasPrefix(first[:n], []byte("PMTiles")):
		return pmtiles.Format, nil
	case mbtiles.IsDatabase(first[:n]):
		return mbtiles.Format, nil
	}
	return "", status.Errorf(status.Corrupt, "it is no pack: it begins as neither PMTiles v3 nor MBTiles does")
}

// archive is an open pack with the checks of its format.
type archive interface {
	tile.Archive
	// Sample proves some of the tiles.
	Sample(ctx context.Context) (n int, err error)
	// Count counts the tiles, and those of different bytes; 0: that takes too long.
	Count(ctx context.Context) (tiles, contents int64, err error)
}

// pmtilesArchive counts as archive says.
type pmtilesArchive struct{ *pmtiles.Archive }

// Count implements archive.
func (a pmtilesArchive) Count(ctx context.Context) (tiles, contents int64, err error) {
	n, err := a.Archive.Count(ctx)
	return n.Tiles, n.Contents, err
}

// open opens a pack of a format.
func (o opener) open(ctx context.Context, src tile.Source, format string) (archive, error) {
	if format == pmtiles.Format {
		a, err := pmtiles.Open(ctx, src, o.directories)
		if err != nil {
			return nil, err
		}
		return pmtilesArchive{a}, nil
	}
	a, err := mbtiles.Open(ctx, src, o.databases)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// verify opens a pack and reads a sample of its tiles.
func (o opener) verify(ctx context.Context, src tile.Source, format string) (archive, error) {
	a, err := o.open(ctx, src, format)
	if err != nil {
		return nil, err
	}
	if _, err := a.Sample(ctx); err != nil {
		_ = a.Close() // it was only read
		return nil, err
	}
	return a, nil
}
