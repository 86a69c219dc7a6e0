package trace

import (
	"context"
	"fmt"
	rt "runtime/trace"
	"time"

	"allium/protocols/status"
)

// Films keep what Go's tracer saw while a lookup was slow.
type Films interface {
	// Arm says that there is a lookup, so that the tracer runs. It never waits, and costs next to nothing.
	Arm()
	// Freeze keeps what the tracer has seen until now, for a lookup that has just ended. It never waits.
	Freeze(id status.LookupID)
	// Filmed reports whether something was kept for a lookup.
	Filmed(id status.LookupID) bool
	// Film returns what was kept for a lookup, or nil.
	Film(id status.LookupID) []byte
}

// Filmed reports whether Film has something of a lookup.
func (r *Ring) Filmed(id status.LookupID) bool {
	return r != nil && r.films != nil && r.films.Filmed(id)
}

// Film returns what Go's tracer saw during a lookup, for `go tool trace`. It is nil unless the lookup
// took far longer than others of its class.
func (r *Ring) Film(id status.LookupID) []byte {
	if r == nil || r.films == nil {
		return nil
	}
	return r.films.Film(id)
}

// judge freezes the film of a lookup that took far longer than others of its class. size is how many
// bytes came from peers, or isHit.
func (r *Ring) judge(id status.LookupID, kind Kind, size int64, took time.Duration) {
	if r.films == nil {
		return
	}
	r.films.Arm()
	if !r.outliers.add(kind, size, took) {
		return
	}
	if r.marks != nil {
		rt.Log(r.marks, markCategory, fmt.Sprintf("%s ended after %s", id, took))
	}
	r.films.Freeze(id)
}

// markCategory is the category of the marks of lookups in Go's tracer.
const markCategory = "lookup"

// mark is a lookup as a task of Go's tracer. The zero mark, of a lookup that began while the tracer was
// off, does nothing.
type mark struct {
	ctx  context.Context
	task *rt.Task
}

// markOf begins the task of a lookup, if Go's tracer runs. A nil ctx marks nothing.
func markOf(ctx context.Context, kind Kind, id status.LookupID) (m mark) {
	if ctx == nil || !rt.IsEnabled() {
		return m
	}
	m.ctx, m.task = rt.NewTask(ctx, "lookup "+string(kind))
	rt.Log(m.ctx, markCategory, id.String())
	return m
}

// step marks a step, or a request to a provider, that ends now.
func (m mark) step(what, how string, took time.Duration) {
	if m.task != nil && rt.IsEnabled() {
		rt.Log(m.ctx, what, how+" after "+took.String())
	}
}

// end ends the task.
func (m mark) end() {
	if m.task != nil {
		m.task.End()
	}
}
