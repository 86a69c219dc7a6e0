package supervise_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"allium/node/supervise"
	"allium/protocols/status"
)

// service records its starts and stops in order.
type service struct {
	name   string
	events *[]string
}

func (s service) run(ctx context.Context, ready func()) error {
	*s.events = append(*s.events, "start "+s.name)
	ready()
	<-ctx.Done()
	*s.events = append(*s.events, "stop "+s.name)
	return nil
}

func TestStartsInOrderStopsInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := supervise.New(supervise.Deps{})
		var events []string
		for _, name := range []string{"a", "b", "c"} {
			if err := g.Start(t.Context(), supervise.Service{Name: name, Run: service{name, &events}.run}); err != nil {
				t.Fatal(err)
			}
		}
		if abandoned := g.Stop(t.Context()); abandoned != nil {
			t.Errorf("abandoned %v", abandoned)
		}
		if want := []string{"start a", "start b", "start c", "stop c", "stop b", "stop a"}; !slices.Equal(events,
			want) {
			t.Errorf("got %v", events)
		}
	})
}

// TestStartTogether: services of one call start at once and stop in reverse; if one of them fails, none runs.
func TestStartTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := supervise.New(supervise.Deps{})
		var events []string
		second := make(chan struct{})
		a := supervise.Service{Name: "a", Run: func(ctx context.Context, ready func()) error {
			<-second // becomes ready only when b is
			return service{"a", &events}.run(ctx, ready)
		}}
		b := supervise.Service{Name: "b", Run: func(ctx context.Context, ready func()) error {
			defer close(second)
			return service{"b", &events}.run(ctx, func() { ready(); second <- struct{}{} })
		}}
		if err := g.Start(t.Context(), a, b); err != nil {
			t.Fatal(err)
		}
		failing := supervise.Service{Name: "d", Run: func(context.Context, func()) error {
			return status.Errorf(status.NoSpace, "full")
		}}
		err := g.Start(t.Context(), supervise.Service{Name: "c", Run: service{"c", &events}.run}, failing)
		if status.Of(err) != status.NoSpace || !strings.Contains(err.Error(), "start d") {
			t.Errorf("got %v", err)
		}
		if want := []string{"start b", "start a", "start c", "stop c"}; !slices.Equal(events, want) {
			t.Errorf("got %v", events)
		}
		g.Stop(t.Context())
		if want := []string{"stop b", "stop a"}; !slices.Equal(events[4:], want) {
			t.Errorf("got %v", events)
		}
	})
}

func TestStartFails(t *testing.T) {
	for _, tc := range []struct {
		name string
		run  func(context.Context, func()) error
		want status.Outcome
	}{
		{"an error before ready", func(context.Context, func()) error { return status.Errorf(status.NoSpace, "full") },
			status.NoSpace},
		{"a panic before ready", func(context.Context, func()) error { panic("boom") }, status.Internal},
		{"a return before ready", func(context.Context, func()) error { return nil }, status.Internal},
		{"never ready", func(ctx context.Context, _ func()) error { <-ctx.Done(); return nil }, status.Timeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := supervise.New(supervise.Deps{})
				err := g.Start(t.Context(), supervise.Service{Name: "x", Run: tc.run})
				if status.Of(err) != tc.want || !strings.Contains(err.Error(), "start x") {
					t.Errorf("got %v, want %s", err, tc.want)
				}
				g.Stop(t.Context())
			})
		})
	}
}

// TestStartThatProgresses: a recovery may take as long as it moves, and no longer
// than the timeout when it does not.
func TestStartThatProgresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := supervise.New(supervise.Deps{})
		var done atomic.Int64
		slow := func(steps int) func(context.Context, func()) error {
			return func(ctx context.Context, ready func()) error {
				for range steps {
					select {
					case <-time.After(20 * time.Second):
						done.Add(1)
					case <-ctx.Done():
						return nil
					}
				}
				if steps == 30 {
					ready()
				}
				<-ctx.Done()
				return nil
			}
		}
		if err := g.Start(t.Context(),
			supervise.Service{Name: "ten minutes", Run: slow(30), Progress: done.Load}); err != nil {
			t.Error(err)
		}
		begun := time.Now()
		err := g.Start(t.Context(), supervise.Service{Name: "stuck", Run: slow(5), Progress: done.Load})
		if status.Of(err) != status.Timeout || time.Since(begun) < 130*time.Second ||
			time.Since(begun) > 140*time.Second {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		g.Stop(t.Context())
	})
}

func TestRestartsFiveTimesInAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := supervise.New(supervise.Deps{})
		var runs atomic.Int64
		start := time.Now()
		err := g.Start(t.Context(), supervise.Service{Name: "x", Run: func(_ context.Context, ready func()) error {
			runs.Add(1)
			ready()
			panic("again")
		}})
		if err != nil {
			t.Fatal(err)
		}
		<-g.Failed()
		if runs.Load() != 6 {
			t.Errorf("ran %d times, want 1 + 5", runs.Load())
		}
		if d := time.Since(start); d < 2*time.Second || d > 6*time.Second {
			t.Errorf("gave up after %s", d)
		}
		if err := g.Err(); err == nil || !strings.Contains(err.Error(), "again") {
			t.Errorf("got %v", err)
		}
		g.Stop(t.Context())
	})
}

func TestRareFailuresNeverAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := supervise.New(supervise.Deps{})
		var runs atomic.Int64
		err := g.Start(t.Context(), supervise.Service{Name: "x", Run: func(ctx context.Context, ready func()) error {
			ready()
			if runs.Add(1) == 20 {
				<-ctx.Done()
				return nil
			}
			time.Sleep(20 * time.Second)
			return errors.New("now and then")
		}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if runs.Load() != 20 || g.Err() != nil {
			t.Errorf("ran %d times, %v", runs.Load(), g.Err())
		}
		g.Stop(t.Context())
	})
}

func TestFatalServiceEndsTheGroupAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := supervise.New(supervise.Deps{})
		fail := make(chan struct{})
		err := g.Start(t.Context(),
			supervise.Service{Name: "store", Fatal: true, Run: func(_ context.Context, ready func()) error {
				ready()
				<-fail
				return status.Errorf(status.Corrupt, "index damaged")
			}})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		close(fail)
		<-g.Failed()
		if time.Since(start) != 0 || status.Of(g.Err()) != status.Corrupt {
			t.Errorf("after %s: %v", time.Since(start), g.Err())
		}
		g.Stop(t.Context())
	})
}

func TestStopReportsWhatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := supervise.New(supervise.Deps{})
		release := make(chan struct{})
		var events []string
		_ = g.Start(t.Context(), supervise.Service{Name: "a", Run: service{"a", &events}.run})
		_ = g.Start(t.Context(), supervise.Service{Name: "stuck", Run: func(_ context.Context, ready func()) error {
			ready()
			<-release
			return nil
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := g.Stop(ctx); !slices.Equal(got, []string{"stuck"}) {
			t.Errorf("abandoned %v", got)
		}
		close(release)
		synctest.Wait()
		if !slices.Contains(events, "stop a") {
			t.Error("a stuck service kept the ones before it running")
		}
	})
}

// TestHeldOnToEndsAfterItsUsers: also after the deadline, what others hold on to
// ends after them, unless one of them is stuck.
func TestHeldOnToEndsAfterItsUsers(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := supervise.New(supervise.Deps{})
			var (
				mu     sync.Mutex
				events []string
			)
			release := make(chan struct{})
			slow := func(name string, takes time.Duration) func(context.Context, func()) error {
				return func(ctx context.Context, ready func()) error {
					ready()
					<-ctx.Done()
					time.Sleep(takes)
					mu.Lock()
					defer mu.Unlock()
					events = append(events, name)
					return nil
				}
			}
			_ = g.Start(t.Context(), supervise.Service{Name: "records", Fatal: true, Run: slow("records", 0)})
			_ = g.Start(t.Context(), supervise.Service{Name: "dht", Run: slow("dht", 300*time.Millisecond)})
			_ = g.Start(t.Context(),
				supervise.Service{Name: "gateway", Run: func(ctx context.Context, ready func()) error {
					ready()
					<-ctx.Done()
					if stuck {
						<-release
					}
					return nil
				}})
			over, cancel := context.WithCancel(t.Context())
			cancel()
			begun := time.Now()
			abandoned := g.Stop(over)
			if took := time.Since(begun); took > time.Second || stuck != slices.Equal(abandoned, []string{"gateway"}) ||
				!stuck && len(abandoned) > 0 {
				t.Errorf("stuck %t: abandoned %v after %s", stuck, abandoned, took)
			}
			close(release)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if want := []string{"dht", "records"}; !slices.Equal(events, want) {
				t.Errorf("stuck %t: they ended as %v, want %v", stuck, events, want)
			}
		})
	}
}

// late is a context that is looked at when all else has come to rest.
type late struct{ context.Context }

func (l late) Done() <-chan struct{} {
	synctest.Wait()
	return l.Context.Done()
}

// TestStartSeesReadyAndFailureAtOnce: Start may take the one or the other, and
// its error says why in both cases.
func TestStartSeesReadyAndFailureAtOnce(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			g := supervise.New(supervise.Deps{})
			err := g.Start(late{t.Context()},
				supervise.Service{Name: "x", Fatal: true, Run: func(_ context.Context, ready func()) error {
					ready()
					return status.Errorf(status.NoSpace, "full")
				}})
			if err != nil && status.Of(err) != status.NoSpace {
				t.Errorf("got %v, want no_space", err)
			}
			g.Stop(t.Context())
			if err := g.Err(); status.Of(err) != status.NoSpace {
				t.Errorf("the group failed with %v, want no_space", err)
			}
		})
	}
}

// TestPanicWhileStopping: a service that panics when it is told to stop keeps no other one running, and the group says
// that it failed.
func TestPanicWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := supervise.New(supervise.Deps{})
		var events []string
		panics := func(ctx context.Context, ready func()) error {
			ready()
			<-ctx.Done()
			panic("in its drain")
		}
		for name, run := range map[string]supervise.Run{"a": service{"a", &events}.run, "b": panics} {
			if err := g.Start(t.Context(), supervise.Service{Name: name, Run: run}); err != nil {
				t.Fatal(err)
			}
		}
		if abandoned := g.Stop(t.Context()); abandoned != nil {
			t.Errorf("abandoned %v", abandoned)
		}
		if err := g.Err(); status.Of(err) != status.Internal || !strings.Contains(err.Error(), "b failed while it stopped") {
			t.Errorf("%v", err)
		}
		if !slices.Contains(events, "stop a") {
			t.Errorf("%v", events)
		}
	})
}
