package server

import (
	"maps"
	"slices"
	"sync"

	"allium/gateway/server/conns"
	"allium/internal/limits"
)

// eventStreams are the streams of events in flight. The methods may be called from any goroutine.
type eventStreams struct {
	gate *limits.Gate // admits them

	mu    sync.Mutex               // lock: leaf
	conns map[*conns.Conn]struct{} // their connections; each carries only its stream
}

// add notes a stream. The caller calls remove with the same connection, which may be nil.
func (e *eventStreams) add(c *conns.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conns[c] = struct{}{}
}

func (e *eventStreams) remove(c *conns.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, c)
}

// cut ends the writes of all streams at once.
func (e *eventStreams) cut() {
	e.mu.Lock()
	all := slices.Collect(maps.Keys(e.conns))
	e.mu.Unlock()
	for _, c := range all {
		if c != nil {
			c.EndWrites()
		}
	}
}
