package node

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"allium/node/readiness"

	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"
)

// elsewhereFor is how long the gate tells of a record that another process
// signed with this node's key, and how often at most the log does.
const elsewhereFor = time.Hour

// elsewhere notes that another process runs with this node's identity: then
// peers reach now the one and now the other.
type elsewhere struct {
	log  *slog.Logger
	seen prometheus.Counter
	last atomic.Pointer[sighting]
	told atomic.Int64 // when the log was told, in nanoseconds since 1970
}

type sighting struct {
	at    time.Time
	addrs string
}

func newElsewhere(log *slog.Logger, reg prometheus.Registerer) *elsewhere {
	e := &elsewhere{log: log, seen: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "identity_elsewhere_total", Help: "Records seen that another process signed with this node's identity.",
	})}
	reg.MustRegister(e.seen)
	return e
}

// saw implements the DHT's Elsewhere.
func (e *elsewhere) saw(signed time.Time, addrs []ma.Multiaddr) {
	now := time.Now()
	e.seen.Inc()
	at := fmt.Sprint(addrs)
	e.last.Store(&sighting{now, at})
	if told := e.told.Load(); now.UnixNano()-told > int64(elsewhereFor) && e.told.CompareAndSwap(told, now.UnixNano()) {
		e.log.Error("another process runs with this node's identity: peers reach either of the two, and neither is found reliably. Stop one, or give it an identity of its own: move its identity.key away and run `allium init`", "signed", signed.UTC(), "addrs", at)
	}
}

// gate tells of what was seen within the hour; it holds nothing back.
func (e *elsewhere) gate() readiness.Reading {
	s := e.last.Load()
	r := readiness.YesNo(s == nil || time.Since(s.at) > elsewhereFor, "")
	if !r.Ready() {
		r.Fix = fmt.Sprintf("another process runs with this node's identity, at %s; stop one of the two, or move its identity.key away and run `allium init`", s.addrs)
		r.RetryAfter = time.Minute
	}
	return r
}
