package limits_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"allium/internal/limits"
	"allium/protocols/status"
)

// errOver ends the events of a test.
var errOver = errors.New("over")

// newEvents returns Events with the topics a and b, for at most three subscribers.
func newEvents[T any](r *limits.Registry, each int, log *slog.Logger) *limits.Events[T] {
	return limits.NewEvents[T](r, spec("events"), spec("subscribers"),
		limits.EventsConfig{Topics: []string{"a", "b"}, Each: each, Subscribers: 3, Log: log})
}

// subscribe fails the test if there is no place for a subscription.
func subscribe[T any](t *testing.T, e *limits.Events[T], topics ...string) *limits.Subscription[T] {
	t.Helper()
	s, err := e.Subscribe(topics...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// wantEvent reads the next event.
func wantEvent[T comparable](t *testing.T, s *limits.Subscription[T], want T, wantLagged int64) {
	t.Helper()
	v, lagged, err := s.Next(t.Context())
	if err != nil || v != want || lagged != wantLagged {
		t.Errorf("got %v after %d lost, %v; want %v after %d", v, lagged, err, want, wantLagged)
	}
}

// TestEventsTopics: a subscriber gets the topics that it named, in the order of
// publication, and nothing from before it subscribed or after it closed.
func TestEventsTopics(t *testing.T) {
	t.Parallel()
	e := newEvents[int](nil, 8, nil)
	a, b := e.Topic("a"), e.Topic("b")
	a.Publish(1)
	both, onlyB := subscribe(t, e), subscribe(t, e, "b", "b")
	a.Publish(2)
	b.Publish(3)
	a.Publish(4)
	for _, want := range []int{2, 3, 4} {
		wantEvent(t, both, want, 0)
	}
	wantEvent(t, onlyB, 3, 0)
	if both.Len() != 0 || onlyB.Len() != 0 {
		t.Errorf("%d and %d events are left", both.Len(), onlyB.Len())
	}
	a.Publish(5)
	both.Close()
	both.Close()
	if _, _, err := both.Next(t.Context()); status.Of(err) != status.Canceled {
		t.Errorf("after Close: %v", err)
	}
	if a.Wanted() || !b.Wanted() {
		t.Errorf("a is wanted: %v, b: %v", a.Wanted(), b.Wanted())
	}
	if e.Topic("c") != nil {
		t.Error("there is a topic c")
	}
	if _, err := e.Subscribe("a", "c"); status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), `"c"`) {
		t.Errorf("an unknown topic: %v", err)
	}
}

// TestEventsSubscribers: the gate refuses the fourth subscriber, and a place that was
// given back twice is one place.
func TestEventsSubscribers(t *testing.T) {
	t.Parallel()
	e := newEvents[int](nil, 1, nil)
	first := subscribe(t, e)
	subscribe(t, e)
	subscribe(t, e)
	_, err := e.Subscribe()
	wantLimit(t, err, status.Busy, "subscribers")
	first.Close()
	first.Close()
	subscribe(t, e)
	_, err = e.Subscribe()
	wantLimit(t, err, status.Busy, "subscribers")
}

// TestEventsEnd: after Close a subscriber gets what waits for it, then the error, and
// nobody may subscribe.
func TestEventsEnd(t *testing.T) {
	t.Parallel()
	e := newEvents[int](nil, 4, nil)
	s := subscribe(t, e, "a")
	e.Topic("a").Publish(1)
	e.Close(errOver)
	e.Close(errors.New("another"))
	e.Topic("a").Publish(2)
	wantEvent(t, s, 1, 0)
	for range 2 {
		if _, _, err := s.Next(t.Context()); !errors.Is(err, errOver) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := e.Subscribe("a"); !errors.Is(err, errOver) {
		t.Errorf("a late subscriber: %v", err)
	}
}

// TestEventsNextWaits: Next waits for an event, for the end of its context, for Close
// of the subscription and for the end of all events.
func TestEventsNextWaits(t *testing.T) {
	t.Parallel()
	type events = limits.Events[int]
	type sub = limits.Subscription[int]
	for name, test := range map[string]struct {
		act  func(*events, *sub, context.CancelFunc)
		want func(v int, err error) bool
	}{
		"an event": {
			func(e *events, _ *sub, _ context.CancelFunc) { e.Topic("a").Publish(7) },
			func(v int, err error) bool { return err == nil && v == 7 },
		},
		"the context": {
			func(_ *events, _ *sub, cancel context.CancelFunc) { cancel() },
			func(_ int, err error) bool { return errors.Is(err, context.Canceled) },
		},
		"the end": {
			func(e *events, _ *sub, _ context.CancelFunc) { e.Close(errOver) },
			func(_ int, err error) bool { return errors.Is(err, errOver) },
		},
		"Close": {
			func(_ *events, s *sub, _ context.CancelFunc) { s.Close() },
			func(_ int, err error) bool { return status.Of(err) == status.Canceled },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEvents[int](nil, 4, nil)
				s := subscribe(t, e)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var got int
				var err error
				returned := false
				var wg sync.WaitGroup
				wg.Go(func() {
					got, _, err = s.Next(ctx)
					returned = true
				})
				synctest.Wait()
				if returned {
					t.Error("Next returned before there was anything")
				}
				test.act(e, s, cancel)
				wg.Wait()
				if !test.want(got, err) {
					t.Errorf("got %d, %v", got, err)
				}
			})
		})
	}
}

// TestEventsLagged: a subscriber that stands still loses its oldest events and is told
// how many. It takes nothing from the other, the metrics count by topic, and Run warns
// once in five seconds.
func TestEventsLagged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		r := limits.NewRegistry(reg)
		var out bytes.Buffer
		var mu sync.Mutex
		noTime := func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
		e := newEvents[int](r, 4, slog.New(slog.NewTextHandler(lockedWriter{&mu, &out},
			&slog.HandlerOptions{ReplaceAttr: noTime})))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := e.Run(ctx, func() {}); err != nil {
				t.Error(err)
			}
		})
		still, reader := subscribe(t, e), subscribe(t, e)
		topics := []*limits.Topic[int]{e.Topic("a"), e.Topic("b")}
		for i := range 10 { // the odd ones belong to b
			topics[i%2].Publish(i)
			wantEvent(t, reader, i, 0)
		}
		if err := testutil.GatherAndCompare(reg, strings.NewReader(
			"# HELP bus_lagged_total Events that a subscriber lost because it lagged behind.\n"+
				"# TYPE bus_lagged_total counter\nbus_lagged_total{topic=\"a\"} 3\nbus_lagged_total{topic=\"b\"} 3\n"),
			"bus_lagged_total"); err != nil {
			t.Error(err)
		}
		i := r.Snapshot()[0]
		if i.Name != "events" || i.Kind != limits.KindQueue || i.Current != 4 || i.Peak != 4 || i.Rejected != 6 {
			t.Errorf("%+v", i)
		}
		time.Sleep(12 * time.Second)
		topics[0].Publish(10)
		time.Sleep(12 * time.Second)
		const line = "level=WARN msg=\"readers of events lag behind, and lost the oldest ones\" queue=events lost="
		mu.Lock()
		if want := line + "6\n" + line + "1\n"; out.String() != want {
			t.Errorf("logged %q, want %q", out.String(), want)
		}
		mu.Unlock()
		wantEvent(t, still, 7, 7)
		wantEvent(t, still, 8, 0)
		wantEvent(t, reader, 10, 0)
		cancel()
		wg.Wait()
	})
}

// lockedWriter serializes writes.
type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// TestEventsModel compares subscriptions with a list: no event comes twice, the order
// is kept, and the events lost and delivered are those published.
func TestEventsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type reader struct {
			s    *limits.Subscription[int]
			of   []string
			wait []int
			lost int64
		}
		each := rapid.IntRange(1, 5).Draw(t, "each")
		e := newEvents[int](nil, each, nil)
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		var readers []*reader
		published := 0
		pick := func(t *rapid.T) (int, *reader) {
			if len(readers) == 0 {
				t.Skip("there is no subscriber")
			}
			i := rapid.IntRange(0, len(readers)-1).Draw(t, "reader")
			return i, readers[i]
		}
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(t *rapid.T) {
				topic := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "topic")
				published++
				e.Topic(topic).Publish(published)
				for _, r := range readers {
					if !slices.Contains(r.of, topic) {
						continue
					}
					if r.wait = append(r.wait, published); len(r.wait) > each {
						r.wait = r.wait[1:]
						r.lost++
					}
				}
			},
			"subscribe": func(t *rapid.T) {
				of := rapid.SampledFrom([][]string{{"a"}, {"b"}, {"a", "b"}}).Draw(t, "of")
				s, err := e.Subscribe(of...)
				if (err == nil) != (len(readers) < 3) {
					t.Fatalf("the subscription after %d: %v", len(readers), err)
				}
				if err == nil {
					readers = append(readers, &reader{s: s, of: of})
				}
			},
			"next": func(t *rapid.T) {
				_, r := pick(t)
				v, lagged, err := r.s.Next(ended)
				if len(r.wait) == 0 {
					if !errors.Is(err, context.Canceled) {
						t.Fatalf("got %d, %v of an empty queue", v, err)
					}
					return
				}
				if err != nil || v != r.wait[0] || lagged != r.lost {
					t.Fatalf("got %d after %d lost, %v; want %d after %d", v, lagged, err, r.wait[0], r.lost)
				}
				r.wait, r.lost = r.wait[1:], 0
			},
			"close": func(t *rapid.T) {
				i, r := pick(t)
				r.s.Close()
				readers = slices.Delete(readers, i, i+1)
			},
			"": func(t *rapid.T) {
				for _, r := range readers {
					if r.s.Len() != len(r.wait) {
						t.Fatalf("%d events wait, want %d", r.s.Len(), len(r.wait))
					}
				}
			},
		})
	})
}

// TestEventsConcurrent: with publishers and subscribers of all speeds at once, one of
// which stands still, each subscriber gets the events of each publisher in order, and
// none is neither delivered nor reported as lost.
func TestEventsConcurrent(t *testing.T) {
	t.Parallel()
	const publishers, each = 4, 5000
	type event struct{ by, n int }
	e := newEvents[event](nil, 16, nil)
	subs := []*limits.Subscription[event]{subscribe(t, e), subscribe(t, e), subscribe(t, e)}
	var readers, writers sync.WaitGroup
	results := make([]error, len(subs))
	still := make(chan struct{})
	for i, s := range subs {
		readers.Go(func() {
			if i == 0 {
				<-still
			}
			last, total := map[int]int{}, int64(0)
			for {
				v, lagged, err := s.Next(t.Context())
				if errors.Is(err, errOver) {
					break
				}
				if total += lagged + 1; err != nil || v.n <= last[v.by] {
					results[i] = fmt.Errorf("%d of publisher %d after %d: %w", v.n, v.by, last[v.by], err)
					return
				}
				last[v.by] = v.n
			}
			if total != publishers*each {
				results[i] = fmt.Errorf("%d events were delivered or lost, want %d", total, publishers*each)
			}
		})
	}
	for p := range publishers {
		writers.Go(func() {
			for n := range each {
				e.Topic([]string{"a", "b"}[n%2]).Publish(event{p, n + 1})
			}
		})
	}
	writers.Wait() // although one subscriber stands still
	e.Close(errOver)
	close(still)
	readers.Wait()
	for i, err := range results {
		if err != nil {
			t.Errorf("subscriber %d: %v", i, err)
		}
	}
}

// TestEventsPublishAllocates: publishing allocates nothing, with and without
// subscribers.
func TestEventsPublishAllocates(t *testing.T) {
	e := newEvents[*int](nil, 4, nil)
	v := new(int)
	for _, subscribers := range []int{0, 1, 2} {
		if n := testing.AllocsPerRun(100, func() { e.Topic("a").Publish(v) }); n != 0 {
			t.Errorf("%d subscribers: %v allocations", subscribers, n)
		}
		subscribe(t, e)
	}
}

// BenchmarkEventsPublish: subscribers that stand still are the expensive ones, because
// every event drops another.
func BenchmarkEventsPublish(b *testing.B) {
	for _, subscribers := range []int{0, 1, 64} {
		b.Run(fmt.Sprint(subscribers), func(b *testing.B) {
			e := limits.NewEvents[*int](nil, spec("events"), spec("subscribers"),
				limits.EventsConfig{Topics: []string{"a"}, Each: 1024, Subscribers: 64})
			for range subscribers {
				s, err := e.Subscribe()
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
			}
			t, v := e.Topic("a"), new(int)
			b.ReportAllocs()
			for b.Loop() {
				t.Publish(v)
			}
		})
	}
}
