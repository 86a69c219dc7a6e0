// Package dates gives answers below names their Last-Modified.
package dates

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/internal/limits"
	"allium/protocols/b3"
)

// maxNames bounds the names whose last date is remembered, about 250 bytes each. A new one replaces the least
// recently used.
const maxNames = 4096

// shown holds the root and path that a name stood for, and the date that was told.
type shown struct {
	root b3.Root
	path string
	at   time.Time // in whole seconds
}

// Value holds the value of a name, and when it was signed; zero for unknown.
type Value struct {
	Root   b3.Root
	Path   string
	Signed time.Time
}

// Dates gives answers below a name their Last-Modified: the time of its record. A date has only seconds, and the
// records of a chain of names come from several clocks. So it remembers what it told: a date never goes back, and other
// content has a later one. Otherwise a client that knows only dates would keep what it has for good. It is safe for
// concurrent use.
type Dates struct {
	mu  sync.Mutex // lock: leaf
	lru *simplelru.LRU[string, shown]
}

// New returns Dates that remember nothing.
func New(registry *limits.Registry) (*Dates, error) {
	lru, err := simplelru.NewLRU[string, shown](maxNames, nil)
	if err != nil {
		return nil, fmt.Errorf("create the dates of names: %w", err)
	}
	d := &Dates{lru: lru}
	registry.NewUsage(limits.Spec{
		Name: "gateway.name_dates", Path: "answers below names → their dates",
		Policy: "the least recently used is dropped",
	}, maxNames, func() int64 {
		d.mu.Lock()
		defer d.mu.Unlock()
		return int64(d.lru.Len())
	})
	return d, nil
}

// Of returns the Last-Modified of what a name stands for, or zero if there is none to tell: the record has no time,
// or the date would lie in the future, which RFC 9110 §8.8.2.1 forbids.
func (d *Dates) Of(name string, n Value, now time.Time) time.Time {
	if n.Signed.IsZero() {
		return time.Time{}
	}
	at := n.Signed.Truncate(time.Second)
	d.mu.Lock()
	defer d.mu.Unlock()
	if told, ok := d.lru.Get(name); ok {
		if told.root != n.Root || told.path != n.Path {
			told.at = told.at.Add(time.Second)
		}
		if at.Before(told.at) {
			at = told.at
		}
	}
	d.lru.Add(name, shown{n.Root, n.Path, at})
	if at.After(now) {
		return time.Time{}
	}
	return at
}
