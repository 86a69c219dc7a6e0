// Package far is called by package near.
package far

import (
	"os"
	"sync"
)

type Table struct {
	Mu sync.Mutex // lock: metadata, before Inner.mu
	in Inner
}

type Inner struct {
	mu sync.Mutex // lock: metadata
	up counter
}

type counter struct {
	mu sync.Mutex // lock: leaf
}

func (c *counter) add() {
	c.mu.Lock()
	c.mu.Unlock()
}

func (i *Inner) Count() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.up.add()
}

func (t *Table) Fill() {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.in.Count()
}

// Write does I/O.
func Write() { write() }

func write() { os.Remove("x") }

// Call calls f.
func Call(f func()) { f() }

// Wait waits while the caller's lock is given up.
func (t *Table) Wait(ch chan int) {
	t.Mu.Unlock()
	<-ch
	t.Mu.Lock()
}

// Enter returns with the lock held, and what unlocks it.
func (t *Table) Enter() func() {
	t.Mu.Lock()
	return func() { t.Mu.Unlock() }
}

// Try returns with the lock held if it returns true.
func (t *Table) Try(ok bool) bool {
	if !ok {
		return false
	}
	t.Mu.Lock()
	return true
}

// All returns an iterator that writes.
func All(t *Table) func(func(int) bool) {
	return func(yield func(int) bool) {
		write()
		yield(1)
	}
}

// Clean returns an iterator that only computes.
func Clean(n int) func(func(int) bool) {
	return func(yield func(int) bool) { yield(n) }
}

// Clock is implemented by others.
type Clock interface { //lockcheck:computes it returns the time
	Now() int
}

// Deps are given by others.
type Deps struct {
	Now  func() int //lockcheck:computes it returns the time
	Else func() int
}
