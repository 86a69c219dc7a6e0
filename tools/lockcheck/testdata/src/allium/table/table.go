// Package table has locks for the page.
package table

import (
	"os"
	"sync"
	"time"
)

type settings struct {
	// lock: held across I/O and calls, because one | two.
	mu sync.Mutex // lock: config, before counter.mu
	a  int
	pair

	c    int
	done func()
	now  func() int //lockcheck:computes it is a clock
}

type pair struct{ b, d int }

type counter struct {
	mu   sync.Mutex // guards n, but not m; lock: leaf
	n, m int
	ch   chan time.Time
}

func (s *settings) set(c *counter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	os.Remove("x")
	s.done()
	_ = s.now()
	c.mu.Lock()
	c.n++
	<-c.ch //lockcheck:ignore nobody waits
	c.mu.Unlock()
}
