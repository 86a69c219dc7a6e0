package reload

import (
	"context"
	"errors"

	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"allium/gateway/api"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/node/config"
	"allium/node/p2p"
	"allium/protocols/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a service with a configuration, gates and a service of the node that the test sets.
type rig struct {
	*Service
	t        *testing.T
	registry *prometheus.Registry
	stop     func()

	mu      sync.Mutex
	next    config.Loaded
	err     error
	gates   []api.Gate
	applied []config.Config
	events  []api.EventKind
}

// newRig returns a rig whose service runs.
func newRig(t *testing.T, change func(*config.Config)) *rig {
	t.Helper()
	cfg := config.Default(p2p.Testnet)
	if change != nil {
		change(&cfg)
	}
	r := &rig{t: t, registry: prometheus.NewRegistry(), next: config.Unsourced(cfg)}
	r.Service = New(config.Unsourced(cfg), Deps{
		Env: env.Env{Metrics: r.registry},
		Read: func() (config.Loaded, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.next, r.err
		},
		Apply: func(c config.Config) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.applied = append(r.applied, c)
		},
		Gates: func() []api.Gate {
			r.mu.Lock()
			defer r.mu.Unlock()
			return slices.Clone(r.gates)
		},
		Events: func(k api.EventKind, _ api.ReloadEvent) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, k)
		},
		Checks: func(config.Config) []File {
			return []File{{"denylist", func(context.Context) error { return nil }}}
		},
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx, func() {}); err != nil {
			t.Error(err)
		}
	})
	r.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(r.stop)
	return r
}

// set changes the configuration that the next reload reads.
func (r *rig) set(change func(*config.Config)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := config.Unsourced(r.next.Config)
	change(&next.Config)
	r.next = next
}

// gate opens or shuts a gate.
func (r *rig) gate(name string, ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gates = []api.Gate{{Name: name, Ready: ready, Fix: "mend it"}}
}

// reload reloads, and expects a result.
func (r *rig) reload(want api.ReloadResult) api.Reloaded {
	r.t.Helper()
	done, err := r.Reload(r.t.Context(), api.ReloadRequest{})
	if err != nil || done.Result != want {
		r.t.Errorf("%s, %v; want %s: %+v", done.Result, err, want, done)
	}
	return done
}

// counted expects the counts of applied, unchanged, rejected and reverted.
func (r *rig) counted(want ...float64) {
	r.t.Helper()
	var got []float64
	for _, result := range []string{"applied", "unchanged", "rejected", "reverted"} {
		got = append(got, testutil.ToFloat64(r.metrics.updates.WithLabelValues(result)))
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("counted %v, want %v", got, want)
	}
}

// told lists what the services were told.
func (r *rig) told() []config.Config {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.applied)
}

// kinds lists the events.
func (r *rig) kinds() []api.EventKind {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// rate is the rate in force.
func (r *rig) rate() int64 { return int64(r.Current().Node.UploadRate) }

func setRate(n int64) func(*config.Config) {
	return func(c *config.Config) { c.Node.UploadRate = limits.Bytes(n) << 20 }
}

// TestReload: hot keys apply, cold keys wait and keep their running value, and what is bad changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.counted(0, 0, 0, 0)
		r.reload(api.ReloadUnchanged)
		r.set(func(c *config.Config) { setRate(1)(c); c.Node.Region = "eu" })
		done := r.reload(api.ReloadApplied)
		want := []api.ConfigChange{
			{Key: "node.region", Old: "", New: "eu"}, {Key: "node.upload_rate", Old: "0", New: "1MiB", Hot: true},
		}
		if !slices.Equal(done.Changed, want) || !slices.Equal(done.Waiting, want[:1]) {
			t.Errorf("%+v, waiting %+v", done.Changed, done.Waiting)
		}
		if r.rate() != 1<<20 || r.Current().Node.Region != "" || len(r.told()) != 1 || r.told()[0].Node.Region != "" {
			t.Errorf("in force: %+v; applied %+v", r.Current().Node, r.told())
		}
		if done = r.reload(api.ReloadUnchanged); !slices.Equal(done.Waiting, want[:1]) {
			t.Errorf("waiting %+v", done.Waiting)
		}
		before := r.Current()
		r.err = status.Errorf(status.BadRequest, "a typo")
		done = r.reload(api.ReloadRejected)
		if status.Of(done.Failed()) != status.BadRequest || done.Tasks[0].State != api.TaskFailed {
			t.Errorf("%+v", done.Tasks)
		}
		r.err = nil
		r.set(func(c *config.Config) { c.Node.UploadRate = 1 }) // a mix that is not valid
		r.reload(api.ReloadRejected)
		if r.Current() != before || len(r.told()) != 1 {
			t.Error("a bad configuration changed something")
		}
		r.counted(1, 2, 2, 0)
		if !slices.Equal(r.kinds(), []api.EventKind{api.EventApplied, api.EventRejected, api.EventRejected}) {
			t.Errorf("events %v", r.kinds())
		}
		if got, err := r.Status(done.Token); err != nil || got.Result != api.ReloadRejected {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := r.Status("0000"); status.Of(err) != status.NotFound {
			t.Errorf("%v", err)
		}
	})
}

// TestFileGone: a configuration file that is gone is not an empty one.
func TestFileGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setRate(1))
		now := *r.Current()
		now.File = "config.toml"
		r.current.Store(&now)
		r.set(setRate(0))
		if done := r.reload(api.ReloadRejected); status.Of(done.Failed()) != status.NotFound || r.rate() != 1<<20 {
			t.Errorf("%+v, rate %d", done, r.rate())
		}
	})
}

// TestDryRun: a dry run says what a reload would do, checks files and changes nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.Add(File{"denylist", func(context.Context) error { t.Error("read"); return nil }})
		r.set(setRate(1))
		before := r.Current()
		done, err := r.Reload(t.Context(), api.ReloadRequest{DryRun: true})
		if err != nil || done.Result != api.ReloadApplied || len(done.Changed) != 1 || len(done.Tasks) != 2 ||
			done.Tasks[1].State != api.TaskDone || !done.GuardUntil.IsZero() {
			t.Errorf("%+v, %v", done, err)
		}
		if r.Current() != before || len(r.told()) != 0 || len(r.kinds()) != 0 {
			t.Error("a dry run changed something")
		}
		r.counted(0, 0, 0, 0)
	})
}

// TestFiles: every file is read again, also after one failed. One that ends at its deadline failed; one that does not
// is stuck, the reload goes on without it, and no other reload begins it until it has ended.
func TestFiles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		read, end := 0, make(chan struct{})
		r.Add(File{"bad", func(context.Context) error {
			return status.Errorf(status.BadRequest, "line 7 is no address")
		}})
		r.Add(File{"hangs", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }})
		r.Add(File{"stuck", func(context.Context) error { <-end; return nil }})
		r.Add(File{"good", func(context.Context) error { read++; return nil }})
		begun := time.Now()
		done := r.reload(api.ReloadUnchanged)
		if took := time.Since(begun); took != 2*taskDeadline+taskGrace || read != 1 {
			t.Errorf("took %s, read %d times", took, read)
		}
		for i, want := range []api.TaskState{
			api.TaskDone, api.TaskFailed, api.TaskFailed, api.TaskStuck, api.TaskDone,
		} {
			if got := done.Tasks[i]; got.State != want || (got.Error == nil) != (want == api.TaskDone) {
				t.Errorf("%+v, want %s", got, want)
			}
		}
		again := r.reload(api.ReloadUnchanged)
		if got := again.Tasks[3]; got.State != api.TaskFailed || got.Error.Reason != status.Busy.String() {
			t.Errorf("begun again: %+v", got)
		}
		close(end)
		synctest.Wait()
		if now, _ := r.Status(done.Token); now.Tasks[3].State != api.TaskDone || now.Tasks[3].Error != nil {
			t.Errorf("at its end: %+v", now.Tasks[3])
		}
	})
}

// TestStuckConfiguration: a configuration that is read too late is not applied.
func TestStuckConfiguration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.set(setRate(1))
		end, read := make(chan struct{}), r.deps.Read
		r.deps.Read = func() (config.Loaded, error) { <-end; return read() }
		done := r.reload(api.ReloadRejected)
		if done.Tasks[0].State != api.TaskStuck {
			t.Errorf("%+v", done.Tasks[0])
		}
		close(end)
		synctest.Wait()
		if now, _ := r.Status(done.Token); now.Tasks[0].State != api.TaskFailed || r.rate() != 0 {
			t.Errorf("%+v, rate %d", now.Tasks[0], r.rate())
		}
	})
}

// TestOneReloadAtATime: reloads wait for the one under way, a bounded number of them; one that waits may leave.
func TestOneReloadAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		running, end := 0, make(chan struct{})
		r.Add(File{"slow", func(context.Context) error {
			if running++; running != 1 {
				t.Error("two at once")
			}
			<-end
			running--
			return nil
		}})
		var all sync.WaitGroup
		reload := func(ctx context.Context, want status.Outcome) {
			if _, err := r.Reload(ctx, api.ReloadRequest{}); status.Of(err) != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
		for range waiting {
			all.Go(func() { reload(t.Context(), status.OK) })
		}
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		all.Go(func() { reload(ctx, status.Canceled) })
		synctest.Wait()
		reload(t.Context(), status.Busy)
		leave()
		synctest.Wait()
		close(end)
		all.Wait()
	})
}

// TestRing: the latest reloads are kept.
func TestRing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		var tokens []string
		for range kept + 1 {
			tokens = append(tokens, r.reload(api.ReloadUnchanged).Token)
		}
		for i, token := range tokens {
			if _, err := r.Status(token); (err == nil) != (i > 0) {
				t.Errorf("reload %d: %v", i, err)
			}
		}
	})
}

// TestDrain: a reload that is under way when the node drains changes nothing more, and Run waits for it.
func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.set(setRate(1))
		end, read := make(chan struct{}), r.deps.Read
		r.deps.Read = func() (config.Loaded, error) { <-end; return read() }
		r.Add(File{"after", func(context.Context) error { t.Error("read"); return nil }})
		var under sync.WaitGroup
		under.Go(func() {
			done := r.reload(api.ReloadRejected)
			if done.Tasks[1].State != api.TaskKept {
				t.Errorf("%+v", done.Tasks)
			}
		})
		synctest.Wait()
		r.Drain()
		close(end)
		r.stop()
		under.Wait()
		if _, err := r.Reload(t.Context(), api.ReloadRequest{}); status.Of(err) != status.Draining || r.rate() != 0 {
			t.Errorf("%v, rate %d", err, r.rate())
		}
	})
}

// TestBeforeStart: a reload waits for the start, and does not outlive a node that never starts.
func TestBeforeStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(config.Unsourced(config.Default(p2p.Testnet)), Deps{Gates: func() []api.Gate { return nil }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Reload(ctx, api.ReloadRequest{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		s.Drain()
		if _, err := s.Reload(t.Context(), api.ReloadRequest{}); status.Of(err) != status.Draining {
			t.Errorf("%v", err)
		}
	})
}

// TestReadersSeeNoMix: a reader sees the keys of one configuration, however often it changes.
func TestReadersSeeNoMix(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *config.Config) { c.Node.ReloadGuard = 0 })
	stop := make(chan struct{})
	var reading sync.WaitGroup
	var reads atomic.Int64
	for range 4 {
		reading.Go(func() {
			for {
				c := r.Current()
				if c.Node.UploadRate != c.Node.DownloadRate {
					t.Errorf("upload %s, download %s", c.Node.UploadRate, c.Node.DownloadRate)
				}
				reads.Add(1)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := range 30 {
		r.set(func(c *config.Config) {
			setRate(int64(i%7 + 1))(c)
			c.Node.DownloadRate = c.Node.UploadRate
		})
		r.reload(api.ReloadApplied)
	}
	close(stop)
	reading.Wait()
	if reads.Load() == 0 {
		t.Error("nothing was read")
	}
}

// TestSignals: of a thousand signals during a reload one is kept; after failures reloads back off.
func TestSignals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		triggers, end := make(chan int, 1), make(chan error)
		var reloads int
		var following sync.WaitGroup
		following.Go(func() {
			Follow(ctx, triggers, func(context.Context) error { reloads++; return <-end })
		})
		for i := range 1000 {
			select {
			case triggers <- i:
			default: // as signal.Notify does
			}
			synctest.Wait()
		}
		end <- nil
		synctest.Wait()
		end <- nil
		synctest.Wait()
		if reloads != 2 {
			t.Errorf("%d reloads of 1000 signals", reloads)
		}
		for i, want := range []time.Duration{0, 1, 2, 4, 8, 16, 30, 30} {
			begun := time.Now()
			triggers <- i
			end <- errors.New("bad")
			if wait, want := time.Since(begun), want*time.Second; wait < want*8/10 || wait > want*12/10 {
				t.Errorf("reload %d waits %s, want %s", i, wait, want)
			}
		}
		cancel()
		following.Wait()
	})
}
