package pack

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// recorder is a transport that keeps the answer. It counts the calls after its request has ended.
type recorder struct {
	*httptest.ResponseRecorder
	ended    atomic.Bool
	late     atomic.Int64
	released atomic.Int64
}

func (r *recorder) Unwrap() http.ResponseWriter      { return r.ResponseRecorder }
func (r *recorder) Flush() error                     { return nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }
func (r *recorder) StartTransfer(int) error          { return nil }
func (r *recorder) EvictFetched()                    { r.count() }
func (r *recorder) ReadTimedOut()                    {}
func (r *recorder) PassedFile() *os.File             { return nil }
func (r *recorder) User() string                     { return "" }
func (r *recorder) ReleaseAdmission()                { r.released.Add(1); r.count() }
func (r *recorder) count() {
	if r.ended.Load() {
		r.late.Add(1)
	}
}

// countedPermits grants every request a permit.
type countedPermits struct{ out, granted atomic.Int64 }

func (p *countedPermits) AcquireFetch(_ context.Context, w *exchange.Response) (leave func(), err error) {
	w.EvictFetched()
	p.granted.Add(1)
	p.out.Add(1)
	return func() { p.out.Add(-1) }, nil
}

// get asks h for a path below /edge/packs/.
func get(ctx context.Context, h *Handlers, path string, headers ...string) (*recorder, error) {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/edge/packs/"+path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	to := &recorder{ResponseRecorder: httptest.NewRecorder()}
	w := &exchange.Response{}
	w.Begin(to)
	err := h.serve(w, r, exchange.Input{Rest: path})
	to.ended.Store(true)
	return to, err
}

// heldObjects are objects whose opening waits while they are held.
type heldObjects struct {
	*fakeObjects
	mu      sync.Mutex
	held    chan struct{} // nil: not held
	opens   atomic.Int64
	waiting atomic.Int64
}

func (o *heldObjects) hold() (let func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	held := make(chan struct{})
	o.held = held
	return func() { close(held) }
}

func (o *heldObjects) OpenObject(ctx context.Context, root b3.Root, local bool) (b3.Content, error) {
	o.opens.Add(1)
	o.mu.Lock()
	held := o.held
	o.mu.Unlock()
	if held != nil {
		o.waiting.Add(1)
		defer o.waiting.Add(-1)
		select {
		case <-held:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return o.fakeObjects.OpenObject(ctx, root, local)
}

// awaySet is a set with the pack "world", which peers have, and its handlers.
func awaySet(t *testing.T) (*testSet, *heldObjects, *Handlers, *countedPermits) {
	t.Helper()
	s := startSet(t, nil, nil)
	p := archiveOf(4, "x")
	s.objects.away[b3.Sum(p)] = p
	objects := &heldObjects{fakeObjects: s.objects}
	s.open.objects = objects
	if _, err := s.Mount(t.Context(), "world", Mount{Key: b3.Sum(p).String()}, nil); err != nil {
		t.Fatal(err)
	}
	permits := &countedPermits{}
	return s, objects, NewHandlers(s.Set, permits), permits
}

// until waits for a condition that other goroutines bring about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for !ok() {
		if t.Context().Err() != nil {
			t.Fatal(what)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestRequestLeavesASharedDirectory: a directory that two requests wait for is read to its end when the first
// has gone, and nothing of the first is used then.
func TestRequestLeavesASharedDirectory(t *testing.T) {
	t.Parallel()
	_, objects, h, permits := awaySet(t)
	let := objects.hold()
	ctx, cancel := context.WithCancel(t.Context())
	var requests sync.WaitGroup
	var first *recorder
	gone := make(chan struct{})
	requests.Go(func() {
		defer close(gone)
		var err error
		if first, err = get(ctx, h, "world/4/9/9.png"); !errors.Is(err, context.Canceled) {
			t.Errorf("the first request: %v", err)
		}
	})
	until(t, "the first request reads", func() bool { return objects.waiting.Load() == 1 })
	requests.Go(func() {
		if a, err := get(t.Context(), h, "world/4/9/9.png"); err != nil || a.Code != http.StatusOK {
			t.Errorf("the second request: %d, %v", a.Code, err)
		}
	})
	time.Sleep(20 * time.Millisecond) // the second joins; if it does not, it reads for itself, and nothing is proved
	cancel()
	<-gone
	let()
	requests.Wait()
	if n := first.late.Load(); n != 0 {
		t.Errorf("the first request was used %d times after its end", n)
	}
	if out, granted := permits.out.Load(), permits.granted.Load(); out != 0 || granted != 1 {
		t.Errorf("%d permits of %d are out", out, granted)
	}
}

// TestPermitOfATile: a tile that peers have takes one permit, and one that is here takes none.
func TestPermitOfATile(t *testing.T) {
	t.Parallel()
	s, _, h, permits := awaySet(t)
	a, err := get(t.Context(), h, "world/4/3/3.png")
	if err != nil || permits.granted.Load() != 1 || permits.out.Load() != 0 || a.released.Load() != 1 {
		t.Errorf("away: %v, %d permits", err, permits.granted.Load())
	}
	p := archiveOf(4, "x")
	s.objects.mu.Lock()
	s.objects.here[b3.Sum(p)] = p
	s.objects.mu.Unlock()
	a, err = get(t.Context(), h, "world/4/12/3.png")
	if err != nil || permits.granted.Load() != 1 || a.released.Load() != 0 {
		t.Errorf("here: %v, %d permits", err, permits.granted.Load())
	}
}

// TestOnlyIfCached: a request that forbids fetching gets precondition for what is away.
func TestOnlyIfCached(t *testing.T) {
	t.Parallel()
	s, _, h, permits := awaySet(t)
	s.objects.mu.Lock()
	asked := s.objects.opened
	s.objects.mu.Unlock()
	_, err := get(t.Context(), h, "world/4/3/3.png", "Cache-Control", "only-if-cached")
	if status.Of(err) != status.Precondition {
		t.Errorf("%v", err)
	}
	s.objects.mu.Lock()
	defer s.objects.mu.Unlock()
	if s.objects.opened != asked || permits.granted.Load() != 0 {
		t.Errorf("peers were asked")
	}
}

// TestDeniedWhileMounted: what the operator denies later is not served, in any form.
func TestDeniedWhileMounted(t *testing.T) {
	t.Parallel()
	s, _, h, _ := awaySet(t)
	_, now, err := s.Set.enter("world")
	if err != nil {
		t.Fatal(err)
	}
	var denied atomic.Bool
	now.allowed = func() error {
		if denied.Load() {
			return status.Errorf(status.Denied, "denied")
		}
		return nil
	}
	now.leave()
	for _, deny := range []bool{false, true} {
		denied.Store(deny)
		for _, path := range []string{"world.json", "world/", "world/0/0/0.png"} {
			if _, err := get(t.Context(), h, path); (status.Of(err) == status.Denied) != deny {
				t.Errorf("%s, denied %v: %v", path, deny, err)
			}
		}
	}
}

// TestFileCutWhileRead: a file that became shorter is no corrupt pack but one that changes.
func TestFileCutWhileRead(t *testing.T) {
	t.Parallel()
	s := startSet(t, map[string]Mount{"a": {File: "a"}}, map[string][]byte{"a": archiveOf(4, "a")})
	h := NewHandlers(s.Set, &countedPermits{})
	m, now, err := s.Set.enter("a")
	if err != nil {
		t.Fatal(err)
	}
	defer now.leave()
	path := s.dir + "/a"
	if err := os.Truncate(path, 200); err != nil { // after the first check of a request
		t.Fatal(err)
	}
	w := &exchange.Response{}
	w.Begin(&recorder{ResponseRecorder: httptest.NewRecorder()})
	at, err := parse("a/4/9/9.png")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.tile(w, httptest.NewRequest(http.MethodGet, "/", nil), m, now, at); status.Of(err) != status.NotReady {
		t.Errorf("%v", err)
	}
}

// TestDescriptionIsAskedForAgain: another pack may get the name, so no cache keeps a description for ever.
func TestDescriptionIsAskedForAgain(t *testing.T) {
	t.Parallel()
	_, _, h, _ := awaySet(t)
	a, err := get(t.Context(), h, "world.json")
	if err != nil || a.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("%v, %v", err, a.Header())
	}
}
