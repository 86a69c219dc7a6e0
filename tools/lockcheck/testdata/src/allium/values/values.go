// Package values calls function values and methods of interfaces.
package values

import (
	"maps"
	"os"
	"slices"
	"sync"
)

type T struct {
	mu sync.Mutex // lock: leaf
	m  map[string]int
}

func io()   { os.Remove("x") }
func pure() {}

// with calls f under the lock. Its callers are here, so they answer for f.
func (t *T) with(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
}

func (t *T) callers(unknown func()) {
	t.with(pure)
	t.with(func() { pure() })
	t.with(io)                // want `T.mu is held across I/O: os.Remove, through \(\*values.T\).with → values.io`
	t.with(func() { io() })   // want `T.mu is held across I/O`
	t.nested(func() { io() }) // want `T.mu is held across I/O`
}

func (t *T) Calls(unknown func()) {
	t.with(unknown) // want `T.mu is held across calls: a call of unknown`
}

// later returns a function that calls f, which is unknown to those that call it.
func (t *T) later(f func()) func() {
	return func() { f() }
}

func (t *T) callsLater() {
	g := t.later(pure)
	t.mu.Lock()
	g() // want `T.mu is held across calls: a call of f`
	t.mu.Unlock()
}

func (t *T) nested(f func()) { t.with(f) }

// valued is used as a value, so others may call it.
func (t *T) valued(f func()) {
	t.mu.Lock()
	f() // want `T.mu is held across calls: a call of f`
	t.mu.Unlock()
}

func (t *T) value() func(func()) { return t.valued }

func (t *T) variables(yes bool) {
	f := pure
	if yes {
		f = func() {}
	}
	t.mu.Lock()
	f()
	t.mu.Unlock()
	if yes {
		f = io
	}
	t.mu.Lock()
	f() // want `T.mu is held across I/O`
	t.mu.Unlock()
	var g func()
	h := func() { g() }
	g = pure
	t.mu.Lock()
	h()
	t.mu.Unlock()
}

var table = sync.OnceValue(func() int { return 1 })
var reading = sync.OnceValue(func() int { io(); return 1 })
var Exported = func() {}

func (t *T) globals() {
	t.mu.Lock()
	_ = table()
	_ = reading() // want `T.mu is held across I/O`
	Exported()    // want `T.mu is held across calls: a call of the variable Exported`
	t.mu.Unlock()
}

func (t *T) Iterators(unknown func(func(string) bool)) {
	t.mu.Lock()
	for range maps.Keys(t.m) {
	}
	_ = slices.Sorted(maps.Keys(t.m))
	for range maps.Keys(t.m) { // want `T.mu is held across I/O`
		io()
	}
	for range t.all() {
	}
	for range t.all() { // want `T.mu is held across I/O`
		io()
	}
	for range unknown { // want `T.mu is held across calls: a call of unknown`
	}
	slices.SortFunc([]int{1}, func(a, b int) int { return a - b })
	slices.SortFunc([]int{1}, func(a, b int) int { io(); return 0 }) // want `T.mu is held across I/O`
	t.mu.Unlock()
}

func (t *T) all() func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range t.m {
			if !yield(k) {
				return
			}
		}
	}
}

type doer interface{ Do() }

type writes struct{}

func (writes) Do() { io() }

type computes struct{}

func (computes) Do() {}

func (t *T) interfaces(d doer) {
	t.mu.Lock()
	doer(computes{}).Do()
	doer(writes{}).Do() // want `T.mu is held across I/O: os.Remove, through \(values.writes\).Do`
	d.Do()              // want `T.mu is held across calls: values.doer.Do, an interface's method`
	f := d.Do
	f() // want `T.mu is held across calls: values.doer.Do`
	g := computes{}.Do
	g()
	t.mu.Unlock()
}

// sealed can only be implemented here.
type sealed interface {
	Do()
	here()
}

func (computes) here() {}

func (t *T) sealed(s sealed) {
	t.mu.Lock()
	s.Do()
	t.mu.Unlock()
}

type list[T any] struct{ items []T }

func (l *list[T]) each(f func(T)) {
	for _, x := range l.items {
		f(x)
	}
}

func (t *T) generic(l *list[int]) {
	t.mu.Lock()
	l.each(func(int) {})
	l.each(func(int) { io() }) // want `T.mu is held across I/O`
	t.mu.Unlock()
}

func constrained[D doer](t *T, d D) {
	t.mu.Lock()
	d.Do() // want `T.mu is held across calls: values.doer.Do`
	t.mu.Unlock()
}
