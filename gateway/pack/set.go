package pack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"allium/gateway/pack/tile"
	"allium/gateway/policy"
	"allium/internal/env"
	"allium/internal/jitter"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Found is the object of a key.
type Found struct {
	Root  b3.Root
	TTL   time.Duration // how long the answer may be believed
	Named bool          // a name is on the way, so that the answer may change

	// Allowed returns denied if the operator does not let what leads to Root be served now: the name, or the
	// path below an address. It does no I/O. nil: nothing can be denied but Root.
	Allowed func() error
}

// Keys finds what addresses and names stand for.
type Keys interface {
	// FindObject returns the object of an address or a name, with or without a path below it.
	FindObject(ctx context.Context, key string) (Found, error)
}

// Deps are the parts of a node that a Set uses. All but Env are required.
type Deps struct {
	env.Env

	Objects Objects
	Keys    Keys
	Filter  policy.Filter
}

// Set holds the mounted packs of a node. Its methods may be called from any goroutine.
type Set struct {
	live atomic.Pointer[Config]
	deps Deps
	m    metrics
	open opener

	tiles *tileCache

	mu     sync.Mutex // guards the rest; lock: leaf
	mounts map[string]*mount
	wanted map[string]Mount // of the configuration in force, by name; replaced, never changed
	behind map[string]bool  // names whose mounted pack is not that of wanted; true: no replacement was tried yet
	closed bool             // Run has ended, and nothing is mounted any more
}

// New returns a Set that mounts the packs of cfg in Run.
func New(cfg Config, d Deps) (*Set, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	d.Env.SetDefaults()
	s := &Set{deps: d, mounts: map[string]*mount{}, behind: map[string]bool{}}
	s.open = newOpener(cfg, d)
	var err error
	if s.tiles, err = newTileCache(int64(cfg.PackCache), d.Limits); err != nil {
		return nil, err
	}
	s.m = newMetrics(d.Metrics, func() (served, all int) {
		served, all, _ = s.Shut()
		return served, all
	})
	s.Reconfigure(cfg)
	return s, nil
}

// enter returns the mounted state of a name, which stays open until the caller calls leave.
func (s *Set) enter(name string) (*mount, *state, error) {
	for {
		m, err := s.find(name)
		if err != nil {
			return nil, nil, err
		}
		if now, err := m.enter(); !errors.Is(err, errUnmounted) {
			return m, now, err
		}
	}
}

// all returns the mounts by name.
func (s *Set) all() []*mount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.mounts), func(a, b *mount) int { return cmp.Compare(a.name, b.name) })
}

// find returns the mount of a name.
func (s *Set) find(name string) (*mount, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.mounts[name]; m != nil {
		return m, nil
	}
	return nil, status.Errorf(status.NotFound, "there is no pack %.80q. `allium pack ls` lists the packs of a node",
		name)
}

// Run mounts the packs of the configuration, and again those whose files or names have changed, until
// ctx ends. It calls ready when it has looked at the files, or after firstLook: Shut says which packs are
// not served yet.
func (s *Set) Run(ctx context.Context, ready func()) error {
	defer s.close()
	isFile := func(m *mount) bool { return m.of.File != "" }
	var loops sync.WaitGroup
	looked := make(chan struct{})
	loops.Go(func() { s.watch(ctx, isFile, func() { close(looked) }) })
	loops.Go(func() { s.watch(ctx, func(m *mount) bool { return !isFile(m) }, nil) })
	late := time.NewTimer(firstLook)
	defer late.Stop()
	select {
	case <-looked:
	case <-late.C:
	case <-ctx.Done():
	}
	ready()
	loops.Wait()
	return nil
}

// watch mounts those packs that are due, again and again until ctx ends. A pack whose bytes peers take
// long to send takes one of maxMounting places, and keeps no other pack waiting. If looked is not nil, it is
// called once, after the first packs were verified.
func (s *Set) watch(ctx context.Context, those func(*mount) bool, looked func()) {
	var g errgroup.Group
	g.SetLimit(maxMounting)
	defer g.Wait() //nolint:errcheck // the mounts keep their errors
	tick := time.NewTimer(jitter.Gather(lookEvery))
	defer tick.Stop()
	s.look(ctx, &g, those, false)
	if looked != nil {
		_ = g.Wait() // the mounts keep their errors
		looked()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			tick.Reset(jitter.Gather(lookEvery))
			if looked != nil {
				_ = replaceOutdated(ctx, s, false) // it has logged why
			}
			s.look(ctx, &g, those, false)
		}
	}
}

// look begins to mount in g those packs that are due. If now is true, the pause after a failure does not
// count. It does not either for a file that was changed since.
func (s *Set) look(ctx context.Context, g *errgroup.Group, those func(*mount) bool, now bool) {
	for _, m := range s.all() {
		if those(m) && (m.due(time.Now(), now) || s.open.mended(m)) {
			g.Go(func() error {
				s.refresh(ctx, m, now)
				return nil
			})
		}
	}
}

// refresh verifies a pack if its file or its name may have changed, and mounts the new state. If the pack is being
// verified, it waits for that and begins then, or returns at once if wait is false.
func (s *Set) refresh(ctx context.Context, m *mount, wait bool) {
	if !m.begin(ctx, wait) {
		return
	}
	defer m.end()
	file := s.open.factsOf(m.of)
	now, changed, err := s.open.refresh(ctx, m, fetchLogger(s, m.name))
	if ctx.Err() != nil {
		if now != nil {
			now.leave()
		}
		return
	}
	if err != nil {
		s.fail(m, file, err)
		return
	}
	s.settle(m, now, changed)
}

// fail notes why a pack cannot be mounted. file was seen before the attempt.
func (s *Set) fail(m *mount, file fileFacts, err error) {
	s.m.mounts.WithLabelValues(mountFailed).Inc()
	if m.failed(err, file) {
		s.deps.Log.Warn("a pack cannot be mounted",
			"pack", m.name, "of", m.of.String(), "served", m.serves(), "err", err)
	}
}

// settle notes that an attempt to mount ended well.
func (s *Set) settle(m *mount, now *state, changed bool) {
	if !changed {
		m.confirmed()
		return
	}
	s.m.mounts.WithLabelValues(mountMounted).Inc()
	logMounted(s.deps.Log, m.name, now.archive.Info())
	m.replace(now)
}

// logMounted logs a pack that is mounted, and what is odd about it.
func logMounted(log *slog.Logger, name string, info *tile.Info) {
	log.Info("a pack is mounted", "pack", name, "format", info.Format, "tiles", info.Type.Ext(),
		"zooms", fmt.Sprintf("%d-%d", info.MinZoom, info.MaxZoom))
	for _, warning := range info.Warnings {
		log.Warn("a pack is odd", "pack", name, "why", warning)
	}
}

// fetchLogger returns a ProgressFunc that logs how much of a pack was fetched.
func fetchLogger(s *Set, name string) ProgressFunc {
	next := time.Now().Add(progressEvery)
	return func(done, total int64) {
		if now := time.Now(); now.After(next) {
			next = now.Add(progressEvery)
			s.deps.Log.Info("a pack is being fetched", "pack", name, "bytes", done, "of", total)
		}
	}
}

// Mount verifies a pack and mounts it under a name, in place of the pack that has it. It returns why
// the pack cannot be mounted; what was mounted before stays then. progress may be nil.
func (s *Set) Mount(ctx context.Context, name string, of Mount, progress ProgressFunc) (Mounted, error) {
	if err := of.validate(name); err != nil {
		return Mounted{}, err
	}
	if err := s.mayMount(name); err != nil {
		return Mounted{}, err
	}
	m := newMount(name, of)
	now, _, err := s.open.refresh(ctx, m, progress)
	if err != nil {
		s.m.mounts.WithLabelValues(mountFailed).Inc()
		return Mounted{}, err
	}
	s.settle(m, now, true)
	old, err := s.insert(m)
	if err != nil {
		m.close()
		return Mounted{}, err
	}
	mounted := m.status()
	if old != nil {
		old.close()
	}
	return mounted, nil
}

// insert mounts m in place of the pack that has its name, which it returns.
func (s *Set) insert(m *mount) (old *mount, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refuses(m.name); err != nil {
		return nil, err
	}
	old, s.mounts[m.name] = s.mounts[m.name], m
	return old, nil
}

// mayMount returns why no pack can be mounted under a name.
func (s *Set) mayMount(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refuses(name)
}

// refuses is mayMount for a caller that holds mu.
func (s *Set) refuses(name string) error {
	switch {
	case s.closed:
		return status.Errorf(status.NotReady, "the node is shutting down. Mount the pack when it runs again")
	case s.mounts[name] == nil && len(s.mounts) >= MaxPacks:
		return status.Errorf(status.Busy, "%d packs are mounted, which is the most. Unmount one with "+
			"`allium pack unmount NAME`", MaxPacks)
	}
	return nil
}

// Unmount ends the mount of a name. Requests that read the pack finish.
func (s *Set) Unmount(name string) error {
	m, err := s.find(name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.mounts[name] == m {
		delete(s.mounts, name)
	}
	s.mu.Unlock()
	m.close()
	return nil
}

// List returns the packs by name.
func (s *Set) List() []Mounted {
	list := []Mounted{}
	for _, m := range s.all() {
		list = append(list, m.status())
	}
	return list
}

// Reload replaces packs as the latest Reconfigure says, verifies every pack again whose file or name has changed, and
// returns why packs cannot be mounted.
func (s *Set) Reload(ctx context.Context) error {
	behind := replaceOutdated(ctx, s, true)
	var g errgroup.Group
	g.SetLimit(maxMounting)
	s.look(ctx, &g, func(*mount) bool { return true }, true)
	_ = g.Wait() // the mounts keep their errors
	errs := []error{behind}
	for _, m := range s.all() {
		if err := m.failure(); err != nil {
			errs = append(errs, fmt.Errorf("pack %s: %w", m.name, err))
		}
	}
	return errors.Join(errs...)
}

// Shut returns how many packs are served, how many should be, and why the first of the others is not.
// It does no I/O.
func (s *Set) Shut() (have, need int, why string) {
	var parts []string
	for _, m := range s.all() {
		need++
		if m.serves() {
			have++
			continue
		}
		text := m.name + " is being verified"
		if err := m.failure(); err != nil {
			text = fmt.Sprintf("%s (%s): %v", m.name, m.of, err)
		}
		parts = append(parts, text)
	}
	if len(parts) > maxNamed {
		parts = append(parts[:maxNamed], fmt.Sprintf("and %d more", len(parts)-maxNamed))
	}
	return have, need, strings.Join(parts, "; ")
}

// maxNamed bounds the packs that Shut names.
const maxNamed = 3

// close ends every mount. Requests that read a pack have finished.
func (s *Set) close() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.mounts))
	clear(s.mounts)
	s.closed = true
	s.mu.Unlock()
	for _, m := range all {
		m.close()
	}
	if err := s.open.databases.Close(); err != nil {
		s.deps.Log.Warn("a pack could not be closed", "err", err)
	}
}
