package p2p

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
)

// failuresEvery is the shortest time between two lines of the log about failed handshakes.
const failuresEvery = time.Minute

// handshakeFailures counts inbound connections that end before the peer has proved who it is. In a
// private network that is how a node with another key, or without one, shows; there the log says so.
type handshakeFailures struct {
	log     *slog.Logger // nil: this is not a private network
	counter prometheus.Counter

	mu     sync.Mutex // guards what follows; lock: leaf
	since  int64      // failures since the last line
	logged time.Time
}

func newHandshakeFailures(d Deps) (*handshakeFailures, error) {
	f := &handshakeFailures{counter: env.Counter("listen_handshakes_failed_total",
		"Inbound connections that ended before the peer had proved who it is. In a private network mostly nodes "+
			"with another key, or none.")}
	if d.PSK != nil {
		f.log = d.Log
	}
	if err := env.Register(d.Metrics, f.counter); err != nil {
		return nil, fmt.Errorf("register the metric of handshakes: %w", err)
	}
	return f, nil
}

// failed counts a failed handshake with from, which may be nil. A nil f counts nothing.
func (f *handshakeFailures) failed(from ma.Multiaddr) {
	if f == nil {
		return
	}
	f.counter.Inc()
	if f.log == nil {
		return
	}
	if n := f.due(time.Now()); n > 0 {
		f.log.Warn(
			"a connection ended in its handshake: mostly that is a node with another key of a private network, or "+
				"none; `allium swarm-key show` prints the same network on nodes that belong together",
			"from", fmt.Sprint(from), "failed_since_last_line", n)
	}
}

// due counts a failure. It returns how many there were since the last line if another line may be
// written now, otherwise 0.
func (f *handshakeFailures) due(now time.Time) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since++
	if !f.logged.IsZero() && now.Sub(f.logged) < failuresEvery {
		return 0
	}
	n := f.since
	f.since, f.logged = 0, now
	return n
}
