package namewatch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/protocols/status"
)

var errDown = errors.New("no node is running")

// fakeNode answers about names, and streams the events that a test sends.
type fakeNode struct {
	mu     sync.Mutex
	down   bool
	values map[string]api.Resolved
	asked  int
	opened [][]string // the names of each stream
	sinks  map[chan api.Event]context.CancelFunc
}

func (n *fakeNode) Resolve(_ context.Context, key string, _ api.Query) (api.Resolved, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	if n.down {
		return api.Resolved{}, errDown
	}
	v, ok := n.values[key]
	if !ok {
		return v, status.Errorf(status.NotFound, "no record of %s", key)
	}
	return v, nil
}

func (n *fakeNode) Events(ctx context.Context, o client.EventOptions) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		n.mu.Lock()
		if n.down {
			n.mu.Unlock()
			yield(api.Event{}, errDown)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		sink := make(chan api.Event, 16)
		n.opened = append(n.opened, o.Names)
		n.sinks[sink] = cancel
		n.mu.Unlock()
		o.Begun()
		for {
			select {
			case e := <-sink:
				if !yield(e, nil) {
					return
				}
			case <-ctx.Done():
				n.mu.Lock()
				delete(n.sinks, sink)
				n.mu.Unlock()
				yield(api.Event{}, ctx.Err())
				return
			}
		}
	}
}

// set changes what a key stands for, and tells so unless quiet is set.
func (n *fakeNode) set(key string, quiet bool, chain ...api.Record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.values[key] = api.Resolved{Key: key, Chain: chain, Seq: chain[0].Seq, TTLMS: 60_000}
	for sink := range n.sinks {
		if !quiet {
			last := chain[len(chain)-1]
			sink <- api.Event{Topic: api.TopicNames, Name: &last}
		}
	}
}

// setDown stops or starts the node. A node that stops ends its streams.
func (n *fakeNode) setDown(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
	for _, cancel := range n.sinks {
		if down {
			cancel()
		}
	}
}

// collector keeps what a Watch yields.
type collector struct {
	mu  sync.Mutex
	all []string
}

func (c *collector) take() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, c.all = c.all, nil
	return all
}

// run runs a Watch until the test ends. Each update is a line: its key, and number or error.
func run(t *testing.T, n *fakeNode, keys ...string) *collector {
	t.Helper()
	c := &collector{}
	seq, err := Watch(t.Context(), n, keys)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for u := range seq {
			line := fmt.Sprintf("%s %d", u.Key, u.Answer.Seq)
			switch {
			case u.Lost > 0:
				line = fmt.Sprintf("lost %d", u.Lost)
			case u.Err != nil:
				line = u.Key + " " + status.Of(u.Err).String()
			}
			c.mu.Lock()
			if len(c.all) == 0 || c.all[len(c.all)-1] != line {
				c.all = append(c.all, line)
			}
			c.mu.Unlock()
		}
	}()
	return c
}

func newNode() *fakeNode {
	return &fakeNode{values: map[string]api.Resolved{}, sinks: map[chan api.Event]context.CancelFunc{}}
}

func (c *collector) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := c.take(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWatch: a change is known at once by an event, and at the TTL without one; a name that nobody
// published is asked for again; a node that was away is asked when it is back.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		c := run(t, n, "blog.site")
		c.want(t, "blog.site "+status.NotFound.String())
		n.set("blog.site", false, api.Record{Name: "blog.k51", Seq: 1}) // the full name is not known yet
		c.want(t, "blog.site 1")
		n.set("blog.site", false, api.Record{Name: "blog.k51", Seq: 2})
		c.want(t, "blog.site 2")
		n.set("blog.site", true, api.Record{Name: "blog.k51", Seq: 3})
		time.Sleep(59 * time.Second)
		c.want(t)
		time.Sleep(2 * time.Second)
		c.want(t, "blog.site 3")

		n.setDown(true)
		c.want(t, "blog.site "+status.Of(errDown).String())
		n.set("blog.site", true, api.Record{Name: "blog.k51", Seq: 4})
		time.Sleep(2 * time.Minute)
		c.want(t, "blog.site "+status.Of(errDown).String())
		n.setDown(false)
		time.Sleep(lastRetry * 6 / 5)
		c.want(t, "blog.site 4")
		n.set("blog.site", false, api.Record{Name: "blog.k51", Seq: 5})
		time.Sleep(lastRetry * 6 / 5) // the stream is back by then
		c.want(t, "blog.site 5")
	})
}

// TestWatchChain: a change of a name further down a chain is known at once, too.
func TestWatchChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.set("a.k51", true, api.Record{Name: "a.k51", Seq: 1}, api.Record{Name: "b.k52", Seq: 1})
		c := run(t, n, "a.k51", "x.k51/img")
		synctest.Wait()
		c.take()
		n.mu.Lock()
		if last := n.opened[len(n.opened)-1]; fmt.Sprint(last) != "[a.k51 x.k51 b.k52]" || len(n.opened) > 2 {
			t.Errorf("streams of %v", n.opened)
		}
		before := n.asked
		n.mu.Unlock()
		n.set("a.k51", false, api.Record{Name: "a.k51", Seq: 1}, api.Record{Name: "b.k52", Seq: 2})
		synctest.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.asked != before+1 {
			t.Errorf("%d questions after one change", n.asked-before)
		}
	})
}

// TestWatchLagged: after lost events every name is asked for again, and the caller is told.
func TestWatchLagged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		n.set("blog.k51", true, api.Record{Name: "blog.k51", Seq: 1})
		c := run(t, n, "blog.k51")
		c.want(t, "blog.k51 1")
		n.set("blog.k51", true, api.Record{Name: "blog.k51", Seq: 2})
		n.mu.Lock()
		for sink := range n.sinks {
			sink <- api.Event{Topic: api.TopicLagged, Lost: 7}
		}
		n.mu.Unlock()
		synctest.Wait()
		got := c.take()
		if len(got) != 2 || got[1] != "lost 7" && (got[0] != "lost 7" || got[1] != "blog.k51 2") {
			t.Errorf("got %q", got)
		}
	})
}

// TestWatchStops: a caller that stops leaves no goroutine, and bounds are kept.
func TestWatchStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode()
		seq, err := Watch(t.Context(), n, []string{"a.k51", "b.k51"})
		if err != nil {
			t.Fatal(err)
		}
		for range seq {
			break
		}
		synctest.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.sinks) != 0 {
			t.Errorf("%d streams are left", len(n.sinks))
		}
	})
	for _, many := range []int{0, api.MaxEventNames + 1} {
		if _, err := Watch(t.Context(), newNode(), make([]string, many)); status.Of(err) != status.BadRequest {
			t.Errorf("%d names: %v", many, err)
		}
	}
}

// TestBackoff: waits double up to a minute, give or take a fifth.
func TestBackoff(t *testing.T) {
	t.Parallel()
	for tries, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		want *= time.Second
		if got := Backoff(tries); got < want*8/10 || got > want*12/10 {
			t.Errorf("after %d: %s, want about %s", tries, got, want)
		}
	}
	if got := Backoff(1 << 40); got > lastRetry*12/10 {
		t.Error(got)
	}
}
