// Package reload changes the configuration of a running node. It holds the configuration in force as an immutable
// snapshot, reads another one, applies its hot keys, and takes them back when a gate of readiness shuts.
//
// Invariants: a reader of [Service.Current] gets one snapshot, old or new, and the snapshots never change; one reload
// runs at a time; a configuration that is not good in all of its parts changes nothing; what the services apply is
// always a snapshot that was in force.
//
// One reload, walked through: an operator runs `allium node reload`. [Service.Reload] waits for the reload that is
// under way, gets a token, and runs its tasks one by one. The first reads the configuration; [config.Loaded.With]
// joins its hot keys with the values of the others that the node runs with, and validates both together. Then the
// snapshot is swapped once, and Deps.Apply passes it to the services. The other tasks read the files beside the
// configuration. If hot keys have changed, [Service.Run] looks at the gates once a second until node.reload_guard has
// passed. A gate that was open before the reload and is shut in two looks in a row brings the old snapshot back.
package reload

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"allium/gateway/api"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/node/config"
	"allium/protocols/status"
)

// Deps are the parts of the node that a reload uses. Read, Events and what Env holds may be nil.
type Deps struct {
	env.Env

	Read   func() (config.Loaded, error) // reads the configuration again; nil: there is none
	Checks func(config.Config) []File    // the checks of a dry run, of the files that a configuration names
	Apply  func(config.Config)           // passes the hot keys to the services; it does not wait or fail
	Gates  func() []api.Gate             // the gates of readiness that something needs
	Events func(api.EventKind, api.ReloadEvent)
}

// Service holds the configuration in force. Its methods may be called from any goroutine.
type Service struct {
	deps    Deps
	metrics metrics
	gate    *limits.Gate // one reload runs
	records records      // of the latest reloads

	current atomic.Pointer[config.Loaded]
	watch   atomic.Pointer[watch] // of the latest reload that changed something; nil: over
	watched chan struct{}         // has an element when watch is set

	life *lifetime

	mu    sync.Mutex // guards files; lock: leaf
	files []File
}

// waiting is the number of reloads that may wait for the one under way. Each of them reads what is there in its turn.
const waiting = 8

// New returns a service with a configuration that is in force.
func New(running config.Loaded, d Deps) *Service {
	d.Env.SetDefaults()
	s := &Service{
		deps: d, metrics: newMetrics(d.Metrics),
		gate: d.Limits.NewGate(limits.Spec{
			Name: "node.reloads", Path: "operator, SIGHUP → reloads of the configuration",
			Policy: "wait; with 8 waiting reject busy",
		}, 1, waiting),
		watched: make(chan struct{}, 1), life: newLifetime(),
	}
	s.current.Store(&running)
	return s
}

// Current returns the configuration in force. The caller does not change it, and takes it once for each operation.
func (s *Service) Current() *config.Loaded { return s.current.Load() }

// Drain ends the guard of the latest reload. From then on nothing changes the configuration, and Reload returns
// draining. It does not wait.
func (s *Service) Drain() { s.life.drain() }

// Run lets reloads begin and guards the latest of them, until ctx is done. Then it waits for the reload under way and
// for tasks that are stuck.
func (s *Service) Run(ctx context.Context, ready func()) error {
	s.life.start()
	ready()
	s.guard(ctx)
	s.life.end()
	return nil
}

// Reload reads the configuration and the files again and applies what changed. A reload that has begun goes to its
// end, whether or not the caller waits for it, unless the node stops. The error says why it did not begin; what failed
// in it is in the tasks.
func (s *Service) Reload(ctx context.Context, r api.ReloadRequest) (api.Reloaded, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return api.Reloaded{}, err
	}
	defer leave()
	defer func() { config.ReturnMemory(s.Current()) }()
	ctx, over := s.life.untilDrain(ctx)
	defer over()
	rec := s.records.begin(newToken(), r.DryRun)
	rec.add(File{Name: "configuration"})
	s.deps.Log.Info("a reload begins", "token", rec.of.Token, "dry_run", r.DryRun)
	next := s.configuration(ctx, rec)
	files := s.added()
	if r.DryRun {
		files = nil
		if s.deps.Checks != nil {
			files = s.deps.Checks(next)
		}
	}
	s.readFiles(ctx, rec, files)
	return rec.get(), nil
}

// enter waits for the reload under way.
func (s *Service) enter(ctx context.Context) (leave func(), err error) {
	if err := s.life.await(ctx); err != nil {
		return nil, err
	}
	free, err := s.gate.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.life.enter(); err != nil {
		free()
		return nil, err
	}
	return func() {
		s.life.work.Done()
		free()
	}, nil
}

// configuration is the first task: it reads the configuration and puts it in force. It returns the one that was read,
// or the running one.
func (s *Service) configuration(ctx context.Context, rec *record) config.Config {
	running := s.Current()
	p, err := run(ctx, s, rec, 0, func(context.Context) (proposal, error) { return propose(running, s.deps.Read) })
	if p.changed == nil { // it is stuck
		p = proposal{next: running.Config, changed: []api.ConfigChange{}, waiting: []api.ConfigChange{}}
	}
	p.result = api.ReloadUnchanged
	if err == nil && p.hot() {
		p.result = api.ReloadApplied
		if !rec.get().DryRun {
			if err = s.swap(running, p, rec); err != nil {
				rec.end(0, err)
			}
		}
	}
	if err != nil {
		p.result = api.ReloadRejected
	}
	rec.set(func(r *api.Reloaded) { r.Result, r.Changed, r.Waiting = p.result, p.changed, p.waiting })
	s.tell(rec.get(), err)
	return p.next
}

// proposal is a configuration that was read, and what it changes.
type proposal struct {
	next             config.Config
	mix              config.Loaded // the hot keys of next, and the others of the running one
	changed, waiting []api.ConfigChange
	result           api.ReloadResult
}

// hot reports whether a reload changes something.
func (p proposal) hot() bool { return len(p.changed) > len(p.waiting) }

// propose reads a configuration and compares it with the running one. With an error, the proposal may still say what
// would change.
func propose(running *config.Loaded, read func() (config.Loaded, error)) (proposal, error) {
	p := proposal{next: running.Config, changed: []api.ConfigChange{}, waiting: []api.ConfigChange{}}
	if read == nil {
		return p, nil
	}
	next, err := read()
	if err != nil {
		return p, err
	}
	if running.File != "" && next.File == "" {
		return p, status.Errorf(status.NotFound, "the configuration file %s is gone. Write it again, or restart the "+
			"node to run without one", running.File)
	}
	p.next = next.Config
	for _, c := range config.Diff(*running, next) {
		p.changed = append(p.changed, api.ConfigChange(c))
		if !c.Hot {
			p.waiting = append(p.waiting, api.ConfigChange(c))
		}
	}
	p.mix, err = running.With(next)
	return p, err
}

// swap puts a snapshot in force and begins its guard.
func (s *Service) swap(old *config.Loaded, p proposal, rec *record) error {
	before := s.deps.Gates()
	if s.life.drains() {
		return errDraining
	}
	s.watch.Store(nil) // of the snapshot that goes
	s.current.Store(&p.mix)
	s.deps.Apply(p.mix.Config)
	if p.mix.Node.ReloadGuard <= 0 {
		return nil
	}
	until := time.Now().Add(p.mix.Node.ReloadGuard)
	rec.set(func(r *api.Reloaded) { r.GuardUntil = until.UTC() })
	s.watch.Store(&watch{looks: newLooks(before), until: until, rec: rec, old: old, applied: &p.mix})
	select {
	case s.watched <- struct{}{}:
	default: // Run has not taken up the one before
	}
	return nil
}

// tell counts, logs and publishes what became of the configuration.
func (s *Service) tell(r api.Reloaded, err error) {
	if !r.DryRun {
		s.metrics.updates.WithLabelValues(string(r.Result)).Inc()
	}
	about := eventOf(r)
	switch {
	case err != nil:
		about.Error = status.ReportOf(err).Message
		s.deps.Log.Warn("the configuration was not reloaded; the one before stays in force", "token", r.Token,
			"dry_run", r.DryRun, "err", about.Error)
		if !r.DryRun {
			s.publish(api.EventRejected, about)
		}
	case r.DryRun:
	case r.Result == api.ReloadApplied:
		s.deps.Log.Info("new values of the configuration are in force", "token", r.Token, "keys", about.Keys,
			"count", about.Count, "guard", s.Current().Node.ReloadGuard)
		s.publish(api.EventApplied, about)
	}
	if n := len(r.Waiting); n > 0 && !r.DryRun {
		s.deps.Log.Warn("new values of the configuration wait for a restart of the node", "token", r.Token,
			"count", n, "first", r.Waiting[0].Key)
	}
}

func (s *Service) publish(kind api.EventKind, about api.ReloadEvent) {
	if s.deps.Events != nil {
		s.deps.Events(kind, about)
	}
}

// eventOf returns a reload as an event has it.
func eventOf(r api.Reloaded) api.ReloadEvent {
	e := api.ReloadEvent{Token: r.Token, Keys: []string{}, Count: len(r.Changed) - len(r.Waiting)}
	for _, c := range r.Changed {
		if c.Hot && len(e.Keys) < api.MaxReloadKeys {
			e.Keys = append(e.Keys, c.Key)
		}
	}
	if r.Gate != nil {
		e.Gate = r.Gate.Name
	}
	return e
}

// Status returns one of the latest reloads.
func (s *Service) Status(token string) (api.Reloaded, error) {
	if rec := s.records.find(token); rec != nil {
		return rec.get(), nil
	}
	return api.Reloaded{}, status.Errorf(status.NotFound, "no reload %.40q: the node keeps the latest %d since its "+
		"start. Its log names them", token, kept)
}

// Reloads returns the latest reloads, the latest first.
func (s *Service) Reloads() []api.Reloaded {
	all := []api.Reloaded{}
	for _, rec := range s.records.list() {
		all = append(all, rec.get())
	}
	return all
}

// Configuration returns the configuration in force.
func (s *Service) Configuration() api.Configuration {
	l := s.Current()
	c := api.Configuration{File: l.File, Values: []api.ConfigValue{}}
	for _, v := range l.Values() {
		c.Values = append(c.Values, api.ConfigValue{
			Key: v.Name, Value: v.Value, Source: string(v.Source), Hot: config.IsHot(v.Name),
		})
	}
	return c
}

// newToken returns the name of a reload.
func newToken() string {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(fmt.Sprintf("no random bytes: %v", err)) // the runtime ends the process before
	}
	return hex.EncodeToString(b[:])
}
