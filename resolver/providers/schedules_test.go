package providers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/protocols/status"
)

// heldFinder is a finder whose calls wait until the search lets them on.
type heldFinder struct {
	mu    sync.Mutex
	calls []*heldCall
}

// heldCall is one call, which ends with its context.
type heldCall struct {
	ctx  context.Context
	end  chan bool // whether somebody was found
	done bool
}

func (f *heldFinder) FindProviders(ctx context.Context, _ b3.Root, _ FindOptions) iter.Seq2[record.Provider, error] {
	return func(yield func(record.Provider, error) bool) {
		c := &heldCall{ctx: ctx, end: make(chan bool)}
		f.mu.Lock()
		f.calls = append(f.calls, c)
		f.mu.Unlock()
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			c.done = true
		}()
		select {
		case found := <-c.end:
			if found {
				yield(record.Provider{AddrInfo: peer.AddrInfo{ID: "p"}}, nil)
			} else {
				yield(record.Provider{}, status.Errorf(status.Upstream, "it failed"))
			}
		case <-ctx.Done():
		}
	}
}

// wanted returns the call whose lookup somebody wants, and how many there are.
func (f *heldFinder) wanted() (call *heldCall, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if !c.done && c.ctx.Err() == nil {
			call = c
			n++
		}
	}
	return call, n
}

// endingTasks is a resolver that may end: then it admits nothing more.
type endingTasks struct {
	testTasks
	mu    sync.Mutex
	ended bool
}

func (t *endingTasks) Go(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.ended && t.testTasks.Go(f)
}

// askers is one run: callers that ask for one root.
type askers struct {
	pool   *Pool
	finder *heldFinder
	tasks  *endingTasks
	stop   context.CancelFunc
	is     []string // of each caller: "" before it asks, "waits", "left", or how it ended
	cancel []context.CancelFunc
	mu     sync.Mutex // guards is
	wg     sync.WaitGroup
}

// TestLookupsInEveryOrder runs the scenario of resolver/model on the code: three callers ask for one root,
// each once, and give up; the finder finds somebody or fails; and the resolver ends; in every order. One
// search runs at a time. Nobody waits when none runs. Who leaves ends the search of nobody else. In the end
// nothing is left.
func TestLookupsInEveryOrder(t *testing.T) {
	ends := map[string]bool{}
	f, err := testkit.Explore(func(o *testkit.Order) (err error) {
		synctest.Test(t, func(t *testing.T) { err = askInOrder(t, o, ends) })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d orders of up to %d actions, %d states, %d outcomes", f.Orders, f.Longest, f.States, len(ends))
	for _, want := range []string{"ok ok ok", "upstream upstream upstream", "left left left"} {
		if !ends[want] {
			t.Errorf("no order ends with %q", want)
		}
	}
}

func askInOrder(t *testing.T, o *testkit.Order, ends map[string]bool) error {
	const callers = 3
	a := &askers{finder: &heldFinder{}, is: make([]string, callers), cancel: make([]context.CancelFunc, callers)}
	var err error
	if a.pool, err = New(testConfig(), Deps{Finder: a.finder}); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	a.tasks, a.stop = &endingTasks{testTasks: testTasks{ctx: ctx}}, stop
	defer a.finish()
	for {
		var offered []string
		asked := false
		for i, is := range a.is { // nothing runs
			switch {
			case is == "" && !asked: // the callers are alike
				offered, asked = append(offered, fmt.Sprint("ask ", i)), true
			case is == "waits":
				offered = append(offered, fmt.Sprint("leave ", i))
			}
		}
		call, _ := a.finder.wanted()
		if call != nil {
			offered = append(offered, "find", "fail")
		}
		if len(offered) == 0 {
			break
		}
		if !a.tasks.ended {
			offered = append(offered, "stop")
		}
		action, ok := o.Pick(a.state, offered...)
		if !ok {
			return nil
		}
		a.do(action, call)
		synctest.Wait()
		if err := a.check(); err != nil {
			return err
		}
	}
	for i, is := range a.is {
		if is != "ok" && is != "left" && is != "upstream" && !a.tasks.ended {
			return fmt.Errorf("caller %d ended with %s, and nobody has ended its search", i, is)
		}
	}
	ends[strings.Join(a.is, " ")] = true
	return nil
}

// do takes one action.
func (a *askers) do(action string, call *heldCall) {
	verb, who, _ := strings.Cut(action, " ")
	i := 0
	_, _ = fmt.Sscan(who, &i)
	switch verb {
	case "ask":
		ctx, cancel := context.WithCancel(context.Background())
		a.is[i], a.cancel[i] = "waits", cancel
		a.wg.Go(func() {
			_, err := a.pool.Resolve(ctx, a.tasks, rootOf(1), Query{Limit: 1}, nil)
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.is[i] = status.Of(err).String(); errors.Is(err, context.Canceled) && ctx.Err() != nil {
				a.is[i] = "left"
			}
		})
	case "leave":
		a.cancel[i]()
	case "find", "fail":
		call.end <- verb == "find"
	case "stop":
		a.tasks.mu.Lock()
		a.tasks.ended = true
		a.tasks.mu.Unlock()
		a.stop()
	}
}

// state describes what the rest of a run depends on.
func (a *askers) state() string {
	_, n := a.finder.wanted()
	return fmt.Sprint(a.is, n, a.tasks.ended, a.pool.cache.searched(rootOf(1)) != nil)
}

// check finds what must never be, while nothing runs.
func (a *askers) check() error {
	_, running := a.finder.wanted()
	waiting := 0
	for _, is := range a.is {
		if is == "waits" {
			waiting++
		}
	}
	switch {
	case running > 1:
		return fmt.Errorf("%d searches run", running)
	case waiting > 0 && running == 0:
		return fmt.Errorf("%d callers wait and nothing runs: %q", waiting, a.is)
	case waiting == 0 && running > 0:
		return fmt.Errorf("nobody waits, and a search goes on")
	case a.active() > 0 && running == 0:
		return errors.New("a lookup is active, and nothing runs")
	}
	return nil
}

// active returns how many lookups run or wait.
func (a *askers) active() int {
	a.pool.lookups.mu.Lock()
	defer a.pool.lookups.mu.Unlock()
	return len(a.pool.lookups.active)
}

// finish ends what is left of a run.
func (a *askers) finish() {
	for _, cancel := range a.cancel {
		if cancel != nil {
			cancel()
		}
	}
	a.stop()
	a.wg.Wait()
	a.tasks.wg.Wait()
}
