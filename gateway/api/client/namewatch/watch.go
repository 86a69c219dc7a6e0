// Package namewatch follows names through a node, over restarts of the node and lost networks.
//
// A [Watch] asks the node what a name stands for: at first, whenever the node tells of a new record
// of a name in the chain, when the node lost events, when a connection to it begins, and when the
// TTL of the answer ends. After an error it asks again, after 1 s at first and after 1 min at most.
//
// Invariants: no change is missed for longer than the TTL of the record before it; at most one
// question about a name is under way; what the caller does with an update delays that name only.
//
// One change: the node's stream of events tells of record 8 of blog.k51…. The goroutine that reads
// the stream wakes the goroutine of that name, which asks the node, and passes the answer to the
// loop of the caller.
package namewatch

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/internal/jitter"
	"allium/internal/limits"
	"allium/protocols/status"
)

const (
	// shortest is the shortest time between two questions about a name that no event causes.
	shortest = 5 * time.Second
	// longest is the longest time between two questions about a name. A TTL can be longer, but the
	// clock of a machine that slept may have stood still.
	longest = 10 * time.Minute
	// firstRetry and lastRetry bound the wait after an error.
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// Node is the part of [client.Client] that a Watch needs.
type Node interface {
	Resolve(ctx context.Context, key string, q api.Query) (api.Resolved, error)
	Events(ctx context.Context, o client.EventOptions) iter.Seq2[api.Event, error]
}

// Update is an answer about a name, or something that a reader of answers should know.
type Update struct {
	Key    string        // as it was given
	Answer api.Resolved  // valid if Err is nil
	Err    error         // why there is no answer
	Retry  time.Duration // beside Err: when the name is asked for again, unless there is news
	// Lost is the number of events that the node could not tell; every name is asked for again.
	// Key is empty then.
	Lost int64
}

// Watch yields updates of the names of keys, LABEL.ZONE[/path], until ctx ends or the caller stops.
// An answer that is the same as the last is yielded, too. There are at most
// [api.MaxEventNames] keys; the error is bad_request otherwise.
func Watch(ctx context.Context, n Node, keys []string) (iter.Seq[Update], error) {
	if len(keys) == 0 || len(keys) > api.MaxEventNames {
		return nil, status.Errorf(status.BadRequest, "%d names cannot be followed at a time; give 1 to %d",
			len(keys), api.MaxEventNames)
	}
	return func(yield func(Update) bool) {
		ctx, cancel := context.WithCancel(ctx)
		w := &watch{
			node: n, updates: make(chan Update), wake: make([]chan struct{}, len(keys)),
			chain: make([][]string, len(keys)),
			grown: make(chan struct{}, 1), // bound: one, that there is a name more
		}
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		for i, key := range keys {
			w.wake[i] = make(chan struct{}, 1) // bound: one, that there is news
			w.chain[i] = []string{nameIn(key)}
		}
		for i, key := range keys {
			running.Go(func() { w.name(ctx, i, key) })
		}
		running.Go(func() { w.events(ctx) })
		for {
			select {
			case u := <-w.updates:
				if !yield(u) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}, nil
}

// nameIn returns the name in a key.
func nameIn(key string) string {
	first, _, _ := strings.Cut(key, "/")
	return first
}

// watch is a running Watch.
type watch struct {
	node    Node
	updates chan Update
	wake    []chan struct{} // for each key
	grown   chan struct{}   // the stream of events does not follow all names of chain

	mu    sync.Mutex // lock: leaf
	chain [][]string // for each key, the name in it, and those of the latest answer's records
}

// send passes an update to the caller, and returns false when ctx ends.
func (w *watch) send(ctx context.Context, u Update) bool {
	select {
	case w.updates <- u:
		return true
	case <-ctx.Done():
		return false
	}
}

// name asks about one key until ctx ends.
func (w *watch) name(ctx context.Context, i int, key string) {
	for tries := 0; ; {
		a, err := w.node.Resolve(ctx, key, api.Query{Limit: 1})
		if ctx.Err() != nil {
			return
		}
		u := Update{Key: key, Answer: a, Err: err}
		wait := min(max(time.Duration(a.TTLMS)*time.Millisecond, shortest), longest)
		if err != nil {
			u.Retry = Backoff(tries)
			wait, tries = u.Retry, tries+1
		} else {
			tries = 0
			w.follow(i, a.Chain)
		}
		if !w.send(ctx, u) {
			return
		}
		select {
		case <-w.wake[i]:
			tries = 0
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// Backoff returns how long to wait after tries+1 failures in a row: 1 s and then twice as long each
// time, up to 1 min, give or take 20 %.
func Backoff(tries int) time.Duration {
	return jitter.Spread(min(firstRetry<<min(tries, 6), lastRetry))
}

// follow takes up the names of the latest chain. The stream of events begins again if one is new.
func (w *watch) follow(i int, chain []api.Record) {
	names := []string{w.chain[i][0]} // only this goroutine changes the chain
	grown := false
	for n, rec := range chain {
		names = append(names, rec.Name)
		grown = grown || n > 0 && !slices.Contains(w.chain[i], rec.Name) // the first is the name in the key
	}
	w.mu.Lock()
	w.chain[i] = names
	w.mu.Unlock()
	if grown {
		notify(w.grown)
	}
}

// notify notes that there is news, if that is not noted already.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// names returns the names to follow: those of the keys, and of their chains as far as the node
// follows so many for one reader. The others are asked for when their TTL ends.
func (w *watch) names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, chain := range w.chain {
		all = append(all, chain[0])
	}
	for _, chain := range w.chain {
		for _, n := range chain[1:] {
			if len(all) < api.MaxEventNames && !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
	}
	return all
}

// events reads the node's stream of events, and begins again when it ends, until ctx does.
func (w *watch) events(ctx context.Context) {
	for tries := 0; ; tries++ {
		begun, grown := w.stream(ctx)
		if begun && !grown {
			tries = 0
			w.wakeAll() // the answer says what is wrong with the node
		}
		if !grown && limits.Sleep(ctx, Backoff(tries)) != nil {
			return
		}
	}
}

// stream reads one stream of events. begun reports that there was one, and grown that it ended
// because there are more names to follow.
func (w *watch) stream(ctx context.Context) (begun, grown bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-w.grown:
			cancel(errGrown)
		case <-ctx.Done():
		}
	})
	w.read(ctx, func() {
		begun = true
		w.wakeAll()
	})
	cancel(nil)
	waiting.Wait()
	return begun, errors.Is(context.Cause(ctx), errGrown)
}

// errGrown ends a stream of events that does not follow all names.
var errGrown = errors.New("there are more names to follow")

// read reads a stream until its end. It calls begun when the stream begins.
func (w *watch) read(ctx context.Context, begun func()) {
	o := client.EventOptions{Topics: []api.Topic{api.TopicNames}, Names: w.names(), Begun: begun}
	for e, err := range w.node.Events(ctx, o) {
		switch {
		case err != nil:
			return
		case e.Topic == api.TopicLagged:
			w.wakeAll()
			if !w.send(ctx, Update{Lost: e.Lost}) {
				return
			}
		case e.Name != nil:
			w.wakeOf(e.Name.Name)
		}
	}
}

// wakeAll has every name asked for again: while there was no stream, one may have changed.
func (w *watch) wakeAll() {
	for _, c := range w.wake {
		notify(c)
	}
}

// wakeOf has the keys asked for again that lead through a name, or all if it is not known which do:
// a short name may never have been resolved.
func (w *watch) wakeOf(full string) {
	w.mu.Lock()
	var of []chan struct{}
	for i, chain := range w.chain {
		if slices.Contains(chain, full) {
			of = append(of, w.wake[i])
		}
	}
	w.mu.Unlock()
	if len(of) == 0 {
		of = w.wake
	}
	for _, c := range of {
		notify(c)
	}
}
