package lookup

import (
	"context"

	"allium/protocols/name"
	"allium/resolver/providers"
	"allium/resolver/trace"
)

// flightKey names a lookup that others may join. A caller that wants a fresh answer joins no
// lookup that counts the records of this node.
type flightKey struct {
	name  name.Name
	fresh bool
}

// flight is one lookup of a name. It goes on without callers: it is short, and its result is remembered for the next
// caller.
type flight struct {
	flightKey
	record *trace.ActiveSearch
	cancel context.CancelFunc
	done   chan struct{}

	found // set before done is closed, as is err
	err   error
}

// reserved bounds a search: it ends 1/reserved of Config.Deadline before the deadline of its callers. Its result so far
// is their answer, which must arrive before that deadline.
const reserved = 20

// join returns the lookup of a name that runs, or a new one that runs as one of tasks. tr, which may
// be nil, records which.
func (n *Names) join(tasks providers.Tasks, what name.Name, fresh bool, tr *trace.Lookup) *flight {
	f, ctx := n.enter(tasks, flightKey{what, fresh}, tr)
	tr.Search(f.record, ctx == nil)
	if ctx == nil {
		n.m.WithLabelValues("joined").Inc()
		return f
	}
	if !tasks.Go(func() { n.run(ctx, f) }) {
		n.finish(f, found{}, providers.ErrDraining)
	}
	return f
}

// enter returns the lookup of a name. ctx is nil unless it is new and the caller must run it.
func (n *Names) enter(tasks providers.Tasks, key flightKey, tr *trace.Lookup) (f *flight, ctx context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f := n.active[key]; f != nil {
		return f, nil
	}
	deadline := n.cfg.Load().Deadline
	ctx, cancel := context.WithTimeout(tr.Context(tasks.Context()), deadline-deadline/reserved)
	record := trace.NewSearch(trace.Key{Name: key.name.String()}, tr)
	f = &flight{flightKey: key, record: record, cancel: cancel, done: make(chan struct{})}
	n.active[key] = f
	return f, ctx
}

func (n *Names) run(ctx context.Context, f *flight) {
	defer f.cancel()
	got, err := n.search(ctx, f.name, f.fresh, f.record)
	n.finish(f, got, err)
}

// finish ends a lookup and wakes its users.
func (n *Names) finish(f *flight, got found, err error) {
	f.record.End(len(got.Versions.Records()), err)
	n.mu.Lock()
	delete(n.active, f.flightKey)
	n.mu.Unlock()
	f.found, f.err = got, err
	close(f.done)
}
