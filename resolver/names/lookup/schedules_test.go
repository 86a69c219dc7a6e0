package lookup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/internal/testkit"
	"allium/protocols/dht/namestore"
	"allium/protocols/dht/probes"
	"allium/protocols/name"
	"allium/protocols/record"
	"allium/protocols/status"
)

// heldFinder is a Finder whose calls wait until the search of orders lets them on.
type heldFinder struct {
	mu    sync.Mutex
	calls []*heldCall
}

// heldCall is one call, which ends with its context.
type heldCall struct {
	fresh bool
	end   chan name.Versions // what was found; closed without: the call fails
}

// FindName implements Finder.
func (f *heldFinder) FindName(
	ctx context.Context, _ name.Name, fresh bool, _ *probes.Trace,
) (name.Versions, record.Origin, error) {
	c := &heldCall{fresh, make(chan name.Versions)}
	f.mu.Lock()
	f.calls = append(f.calls, c)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.calls = slices.DeleteFunc(f.calls, func(other *heldCall) bool { return other == c })
	}()
	select {
	case v, ok := <-c.end:
		if !ok {
			return v, record.OriginDHT, status.Errorf(status.Upstream, "it failed")
		}
		return v, record.OriginDHT, nil
	case <-ctx.Done():
		return name.Versions{}, record.OriginDHT, ctx.Err()
	}
}

// running returns the calls that have not ended.
func (f *heldFinder) running() []*heldCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// nameRun is one run: callers that ask for one name.
type nameRun struct {
	t        *testing.T
	names    *Names
	finder   *heldFinder
	tasks    *tasks
	stop     context.CancelFunc
	old, new name.Signed
	seen     uint64 // the highest number that a search or gossip has brought; guarded by mu
	gossiped bool
	lapsed   bool     // the TTL of what was remembered has passed once
	is       []string // of each caller: "" before it asks, "waits", "left", its number, or its error
	cancel   []context.CancelFunc
	mu       sync.Mutex // guards seen, is and wrong
	wrong    error      // what a caller got and must not get
	wg       sync.WaitGroup
}

// TestNamesInEveryOrder runs the scenario of resolver/model on the code, in every order, with NAMES. Three
// callers ask for one name, each once, the last one with Fresh, and may give up. A search finds the newest
// record, an old one or none, fails, or runs out of time. The newest record arrives by gossip, the TTL
// passes, and the resolver ends.
//
// One search runs at a time, as there is one place. Nobody waits while none runs. A caller that leaves ends
// no search, and one with Fresh joins no lookup without. Nobody gets an older record than one that the node
// has seen.
func TestNamesInEveryOrder(t *testing.T) {
	ends := map[string]bool{}
	var signedOnce [2]name.Signed
	f, err := testkit.Explore(func(o *testkit.Order) (err error) {
		synctest.Test(t, func(t *testing.T) {
			if signedOnce[0].Seq == 0 { // each bubble begins at the same time
				signedOnce = [2]name.Signed{signed(t, "blog", 1, "old"), signed(t, "blog", 2, "new")}
			}
			err = askNamesInOrder(t, o, ends, signedOnce)
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d orders of up to %d actions, %d states, %d outcomes", f.Orders, f.Longest, f.States, len(ends))
	for _, want := range []string{
		"2 2 2", "1 1 2", "1 1 1", "upstream upstream upstream", "not_found not_found not_found", "left left left",
		"timeout timeout timeout",
	} {
		if !ends[want] {
			t.Errorf("no order ends with %q", want)
		}
	}
}

func askNamesInOrder(t *testing.T, o *testkit.Order, ends map[string]bool, records [2]name.Signed) error {
	const callers = 3
	ctx, stop := context.WithCancel(context.Background())
	r := &nameRun{
		t: t, finder: &heldFinder{}, tasks: &tasks{ctx: ctx}, stop: stop, old: records[0], new: records[1],
		is: make([]string, callers), cancel: make([]context.CancelFunc, callers),
		gossiped: testing.Short(), // 2,371 states take 20 s under the race detector
	}
	r.names = New(Config{
		Deadline: 1200 * time.Millisecond, NegativeTTL: time.Hour, Lookups: 1,
	}, Deps{Finder: r.finder, Seen: namestore.NewSeen(false)})
	defer r.finish()
	for {
		offered := r.offered()
		if len(offered) == 0 {
			break
		}
		action, ok := o.Pick(r.state, offered...)
		if !ok {
			return nil
		}
		r.do(action)
		synctest.Wait()
		if err := r.check(); err != nil {
			return err
		}
	}
	ends[strings.Join(r.is, " ")] = true
	return nil
}

// offered returns what may happen next. Nothing runs.
func (r *nameRun) offered() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := false
	for i, is := range r.is {
		switch {
		case is == "" && (!asked || i == len(r.is)-1): // all but the last are alike
			all, asked = append(all, fmt.Sprint("ask ", i)), true
		case is == "waits":
			all = append(all, fmt.Sprint("leave ", i))
		}
	}
	running := len(r.finder.running()) > 0
	if running {
		all = append(all, "new", "old", "none", "fail", "late")
	}
	if len(all) == 0 {
		return nil
	}
	if !r.gossiped {
		all = append(all, "gossip")
	}
	if f, ok := r.names.seen.Get(r.new.Name); ok && !running && !r.lapsed && f.Serves(time.Now(), 0) {
		all = append(all, "lapse")
	}
	if r.tasks.ctx.Err() == nil {
		all = append(all, "stop")
	}
	return all
}

// do takes one action.
func (r *nameRun) do(action string) {
	verb, who, _ := strings.Cut(action, " ")
	i := 0
	_, _ = fmt.Sscan(who, &i)
	end := func(rec name.Signed) {
		v, _ := name.Versions{}.Add(rec)
		r.see(rec.Seq)
		r.finder.running()[0].end <- v
	}
	switch verb {
	case "ask":
		r.ask(i)
	case "leave":
		r.cancel[i]()
	case "new":
		end(r.new)
	case "old":
		end(r.old)
	case "none":
		r.finder.running()[0].end <- name.Versions{}
	case "fail":
		close(r.finder.running()[0].end)
	case "late":
		time.Sleep(r.names.cfg.Load().Deadline)
	case "lapse":
		r.lapsed = true
		time.Sleep(2 * time.Hour)
	case "gossip":
		r.gossiped = true
		r.see(r.new.Seq)
		r.names.Observe(r.new, false)
	case "stop":
		r.stop()
	}
}

// see notes that the node is about to see a record.
func (r *nameRun) see(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = max(r.seen, seq)
}

// ask lets a caller ask.
func (r *nameRun) ask(i int) {
	ctx, cancel := context.WithCancel(context.Background())
	r.mu.Lock()
	r.is[i], r.cancel[i] = "waits", cancel
	r.mu.Unlock()
	r.wg.Go(func() {
		a, err := r.names.Resolve(ctx, r.tasks, r.new.Name, Options{Fresh: i == len(r.is)-1}, nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case err == nil:
			r.is[i] = fmt.Sprint(a.Chain[0].Seq)
			if a.Chain[0].Seq != r.seen {
				r.wrong = fmt.Errorf("caller %d got the number %d, and %d was seen", i, a.Chain[0].Seq, r.seen)
			}
		case errors.Is(err, context.Canceled) && ctx.Err() != nil:
			r.is[i] = "left"
		default:
			r.is[i] = status.Of(err).String()
			own := []string{"not_found", "upstream", "timeout"} // of the search
			if !slices.Contains(own, r.is[i]) && r.tasks.ctx.Err() == nil {
				r.wrong = fmt.Errorf("caller %d got %w, and nobody has ended its search", i, err)
			}
		}
		if r.is[i] == "not_found" && r.seen > 0 {
			r.wrong = fmt.Errorf("caller %d got %w, and %d was seen", i, err, r.seen)
		}
	})
}

// state describes what the rest of a run depends on.
func (r *nameRun) state() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, ok := r.names.seen.Get(r.new.Name)
	var fresh []bool
	for _, c := range r.finder.running() {
		fresh = append(fresh, c.fresh)
	}
	r.names.mu.Lock()
	defer r.names.mu.Unlock()
	_, plain := r.names.active[flightKey{r.new.Name, false}]
	_, asked := r.names.active[flightKey{r.new.Name, true}]
	return fmt.Sprint(r.is, fresh, plain, asked, r.tasks.ctx.Err(), ok, f.Versions.Seq(), ok && f.Serves(time.Now(), 0),
		r.seen, r.gossiped, r.lapsed)
}

// check finds what must never be, while nothing runs.
func (r *nameRun) check() error {
	running := r.finder.running()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names.mu.Lock()
	active := len(r.names.active)
	fresh := r.names.active[flightKey{r.new.Name, true}] != nil
	r.names.mu.Unlock()
	f, _ := r.names.seen.Get(r.new.Name)
	switch {
	case r.wrong != nil:
		return r.wrong
	case len(running) > 1:
		return fmt.Errorf("%d searches run in one place", len(running))
	case slices.Contains(r.is, "waits") && len(running) == 0:
		return fmt.Errorf("callers wait and nothing runs: %q", r.is)
	case active > 0 != (len(running) > 0):
		return fmt.Errorf("%d lookups are active, and %d searches run", active, len(running))
	case r.is[len(r.is)-1] == "waits" && !fresh:
		return errors.New("a caller with Fresh waits for a lookup without")
	case f.Versions.Seq() != r.seen:
		return fmt.Errorf("the number %d is remembered, and %d was seen", f.Versions.Seq(), r.seen)
	}
	return nil
}

// finish ends what is left of a run. No goroutine outlives it, or the bubble fails.
func (r *nameRun) finish() {
	for _, cancel := range r.cancel {
		if cancel != nil {
			cancel()
		}
	}
	r.stop()
	r.wg.Wait()
	r.tasks.wg.Wait()
}
