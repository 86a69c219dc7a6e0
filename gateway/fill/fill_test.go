package fill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"allium/gateway/fill/origin"
	"allium/protocols/b3"
	"allium/protocols/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// drawRecord is any record that is written.
func drawRecord(t *rapid.T) *record {
	return &record{
		root: b3.Sum(rapid.SliceOf(rapid.Byte()).Draw(t, "object")), size: rapid.Int64Min(0).Draw(t, "size"),
		etag:         rapid.StringN(-1, -1, maxValidator).Draw(t, "etag"),
		lastModified: rapid.StringN(-1, -1, maxValidator).Draw(t, "modified"),
		fetched:      time.Unix(rapid.Int64().Draw(t, "fetched"), 0),
		freshUntil:   time.Unix(rapid.Int64().Draw(t, "fresh"), 0),
		strict:       rapid.Bool().Draw(t, "strict"),
	}
}

// TestRecord: a record is read as it was written, under its key alone, and no change of a bit goes unnoticed.
func TestRecord(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, key := drawRecord(t), pathKey(b3.Sum([]byte("key")))
		p := r.encode(key)
		if len(p) > maxRecord || !bytes.Equal(p, r.encode(key)) {
			t.Fatalf("%d bytes", len(p))
		}
		got, ok := decodeRecord(key, p)
		if !ok || *got != *r {
			t.Fatalf("%+v became %+v, %t", r, got, ok)
		}
		if _, ok := decodeRecord(pathKey{}, p); ok {
			t.Fatal("it is the record of another key")
		}
		p[rapid.IntRange(0, len(p)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, ok := decodeRecord(key, p); ok {
			t.Fatal("damage was not noticed")
		}
		p = r.encode(key)
		if _, ok := decodeRecord(key, p[:rapid.IntRange(0, len(p)-1).Draw(t, "cut")]); ok {
			t.Fatal("a part was read as a record")
		}
	})
	long := &record{root: b3.Sum(nil), etag: strings.Repeat("a", maxValidator+1)}
	if got, ok := decodeRecord(pathKey{}, long.encode(pathKey{})); !ok || got.etag != "" {
		t.Errorf("%+v, %t", got, ok)
	}
}

// FuzzRecord: any bytes are a record that encodes to them again, or none; reading allocates little.
func FuzzRecord(f *testing.F) {
	key := pathKey(b3.Sum([]byte("key")))
	f.Add((&record{root: b3.Sum(nil), etag: `"a"`}).encode(key))
	f.Add([]byte{recordVersion})
	f.Fuzz(func(t *testing.T, p []byte) {
		r, ok := decodeRecord(key, p)
		if ok && !bytes.Equal(r.encode(key), p) {
			t.Errorf("%x is read as %+v", p, r)
		}
		if n := testing.AllocsPerRun(1, func() { decodeRecord(key, p) }); n > 8 {
			t.Errorf("%v allocations", n)
		}
	})
}

// FuzzParsePath: no escaped path gets through that leads elsewhere.
func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"a/b", "%2e%2e/a", "a%2fb", "..%5ca", "a//b", "%00", "a/", "", "%C3%A9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, escaped string) {
		p, err := parsePath(escaped)
		if err != nil {
			if o := status.Of(err); o != status.BadAddress && o != status.BadRequest {
				t.Errorf("%q: %v", escaped, err)
			}
			return
		}
		for segment := range strings.SplitSeq(strings.TrimSuffix(p, "/"), "/") {
			if p != "" && (segment == "" || segment == "." || segment == ".." || strings.ContainsAny(segment, "\\\x00\n")) {
				t.Errorf("%q became %q", escaped, p)
			}
		}
	})
}

// failingRecords is a database that fails.
type failingRecords struct{}

func (failingRecords) Get(context.Context, string) ([]byte, error) { return nil, errors.New("no disk") }
func (failingRecords) Put(context.Context, string, []byte) error   { return errors.New("no disk") }

// mapRecords is a database in RAM.
type mapRecords map[string][]byte

func (m mapRecords) Get(_ context.Context, key string) ([]byte, error) { return m[key], nil }
func (m mapRecords) Put(_ context.Context, key string, p []byte) error { m[key] = p; return nil }

// TestTable: the database has a bounded number of slots, and the table in RAM a bounded number of records. A record
// that another one overwrote is none, and a database that fails loses nothing that is in RAM.
func TestTable(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	db := mapRecords{}
	table, err := newTable(db, 4, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	one, other := keyOf(b3.Root{}, "a"), pathKey{}
	copy(other[:], one[:2]) // the same slot
	r := &record{root: b3.Sum([]byte("a"))}
	table.put(t.Context(), one, r)
	for i := range 10 {
		table.put(t.Context(), keyOf(b3.Root{}, fmt.Sprint(i)), &record{root: b3.Sum(nil)})
	}
	if got := table.get(t.Context(), one); got == nil || got.root != r.root || table.lru.Len() != 4 {
		t.Errorf("%+v; %d records", got, table.lru.Len())
	}
	table.put(t.Context(), other, &record{root: b3.Sum([]byte("b"))})
	for range 4 {
		table.remember(keyOf(b3.Root{}, "fill"), r)
	}
	table.lru.Purge()
	if got := table.get(t.Context(), one); got != nil {
		t.Errorf("%+v", got)
	}
	for i := range 100 {
		table.put(t.Context(), keyOf(b3.Root{}, fmt.Sprint("missing", i)), &record{}) // only in RAM
	}
	table.put(t.Context(), one, &record{}) // its slot has the record of another path
	table.lru.Purge()
	if got := table.get(t.Context(), other); got == nil || got.root != b3.Sum([]byte("b")) {
		t.Errorf("%+v", got)
	}
	table.put(t.Context(), other, &record{}) // there no more
	if got := table.get(t.Context(), other); got == nil || !got.root.IsZero() {
		t.Errorf("%+v", got)
	}
	table.lru.Purge()
	if got := table.get(t.Context(), other); got != nil || len(db) != 11 {
		t.Errorf("%+v; %d records in the database", got, len(db))
	}
	broken, err := newTable(failingRecords{}, 4, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	broken.put(t.Context(), one, r)
	if broken.get(t.Context(), one) != r || broken.get(t.Context(), other) != nil {
		t.Error("a failing database")
	}
}

// TestFresh: a clock that was set back makes no record fresh for ever.
func TestFresh(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	for _, c := range []struct {
		fetched, until time.Duration
		want           bool
	}{
		{0, time.Second, true}, {-time.Hour, time.Second, true}, {-time.Hour, 0, false}, {30 * time.Second, time.Hour, true},
		{time.Hour, 2 * time.Hour, false},
	} {
		r := &record{fetched: now.Add(c.fetched), freshUntil: now.Add(c.until)}
		if r.fresh(now) != c.want {
			t.Errorf("%+v: fresh is %t", c, !c.want)
		}
	}
}

// TestKeep: what the origin says counts within the bounds of the operator.
func TestKeep(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := DefaultConfig()
		age := time.Duration(rapid.Int64Range(0, 1<<31).Draw(t, "age")) * time.Second
		got := c.keep(&origin.Answer{Caching: origin.Caching{Said: true, MaxAge: age}})
		if got < c.MinFresh || got > c.MaxFresh || age >= c.MinFresh && age <= c.MaxFresh && got != age {
			t.Fatalf("%s is kept for %s", age, got)
		}
	})
}

// TestArrival: readers get what has arrived but the last byte, and Closing waits for those that read.
func TestArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &arrival{changed: func() {}}
		if n := a.arrived(); n != 0 {
			t.Errorf("%d bytes", n)
		}
		if _, err := a.read(make([]byte, 1), 0); !errors.Is(err, errClosed) {
			t.Errorf("before the first group: %v", err)
		}
		slow := &slowFile{release: make(chan struct{})}
		a.Arrived(slow, 100)
		if n := a.arrived(); n != 99 {
			t.Errorf("%d bytes", n)
		}
		var wg sync.WaitGroup
		var got int
		wg.Go(func() { got, _ = a.read(make([]byte, 1000), 90) })
		synctest.Wait()
		closed := false
		wg.Go(func() { a.Closing(); closed = true })
		synctest.Wait()
		if closed {
			t.Error("Closing did not wait for the reader")
		}
		if _, err := a.read(make([]byte, 1), 0); !errors.Is(err, errClosed) {
			t.Errorf("a read after Closing began: %v", err)
		}
		close(slow.release)
		wg.Wait()
		if !closed || got != 9 {
			t.Errorf("closed %t, %d bytes", closed, got)
		}
	})
}

// slowFile fills buffers once it is released.
type slowFile struct{ release chan struct{} }

func (s *slowFile) ReadAt(p []byte, _ int64) (int, error) {
	<-s.release
	return len(p), nil
}

// TestFlight: a flight ends once for all who wait, and what it holds is released once, by the last one to leave.
func TestFlight(t *testing.T) {
	t.Parallel()
	for waiters := range 4 {
		f := (&flight{}).init()
		released := 0
		for range waiters {
			f.join()
		}
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() {
				s, err := f.wait(t.Context(), func(state) bool { return false })
				if err != nil || !s.ended || s.record == nil || s.err != nil {
					t.Errorf("%+v, %v", s, err)
				}
			})
		}
		f.end(&record{}, func() { released++ }, nil)
		f.end(nil, nil, errDraining) // too late
		wg.Wait()
		for i := range waiters {
			if released != 0 {
				t.Errorf("released while %d wait", waiters-i)
			}
			f.leave()
		}
		if released != 1 {
			t.Errorf("%d waiters: released %d times", waiters, released)
		}
	}
	f := (&flight{}).init()
	f.join()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errQueued)
	if _, err := f.wait(ctx, func(state) bool { return false }); !errors.Is(err, errQueued) {
		t.Errorf("%v", err)
	}
}

// noStore is a store that must not be used.
type noStore struct{ t *testing.T }

func (s noStore) Put(context.Context, io.Reader, PutOptions) (Stored, func(), error) {
	s.t.Error("something was stored")
	return Stored{}, nil, status.Errorf(status.Internal, "stored")
}

func (noStore) Hold(context.Context, b3.Root) (func(), bool) { return nil, false }

// TestQueueExpires: a fill that waited too long does not begin, and one that panics ends its flight and no worker.
func TestQueueExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Fills = 1
		s, err := New(cfg, Deps{Store: noStore{t}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() {
			if err := s.Run(ctx, func() {}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		old := (&flight{key: pathKey{1}, source: &source{}, queued: time.Now().Add(-time.Minute)}).init()
		f, err := s.join(old)
		if err != nil {
			t.Fatal(err)
		}
		if now, _ := f.wait(t.Context(), func(state) bool { return false }); status.Of(now.err) != status.Timeout {
			t.Errorf("%v", now.err)
		}
		for range 3 { // the source has no client
			f, err = s.join((&flight{key: pathKey{2}, source: &source{}, queued: time.Now()}).init())
			if err != nil {
				t.Fatal(err)
			}
			if now, _ := f.wait(t.Context(), func(state) bool { return false }); status.Of(now.err) != status.Internal {
				t.Errorf("%v", now.err)
			}
		}
		if len(s.flights) != 0 {
			t.Errorf("%d flights are left", len(s.flights))
		}
		cancel()
		run.Wait()
		if _, err := s.join(old); status.Of(err) != status.Draining {
			t.Errorf("%v", err)
		}
	})
}

// TestQueueFair: when the queue is full, the client with most loses its newest fill to another client.
func TestQueueFair(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	p := DefaultParams()
	p.Waiting = 3
	s, err := New(cfg, Deps{Store: noStore{t}, Params: p})
	if err != nil {
		t.Fatal(err)
	}
	s.setOpen(true) // without workers
	greedy, other := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	var flights []*flight
	for i := range 4 {
		f, err := s.join((&flight{key: pathKey{byte(i)}, client: greedy}).init())
		if err != nil {
			t.Fatal(err)
		}
		flights = append(flights, f)
	}
	mine, err := s.join((&flight{key: pathKey{9}, client: other}).init())
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range append(flights, mine) {
		now, _ := f.now()
		if busy := status.Of(now.err) == status.Busy; busy != (i == 2 || i == 3) {
			t.Errorf("flight %d: %+v", i, now)
		}
	}
	left := s.setOpen(false)
	for _, f := range left {
		f.end(nil, nil, errDraining)
	}
	if len(left) != 3 {
		t.Errorf("%d flights are left, not 3", len(left))
	}
}

// TestNew: a malformed source is refused with its key, and offline no client exists.
func TestNew(t *testing.T) {
	t.Parallel()
	src := DefaultSource()
	src.URL, src.CAFile = "https://example.com", "/no/such/file"
	cfg := DefaultConfig()
	cfg.Sources = map[string]Source{"maps": src}
	_, err := New(cfg, Deps{Store: noStore{t}})
	if err == nil || !strings.Contains(err.Error(), "edge.sources.maps.ca_file") {
		t.Errorf("%v", err)
	}
	cfg.Mode = Offline
	s, err := New(cfg, Deps{Store: noStore{t}})
	if err != nil || s.live.Load().sources["maps"].client != nil {
		t.Errorf("%v", err)
	}
	if _, err := New(cfg, Deps{}); err == nil {
		t.Error("no store")
	}
}
