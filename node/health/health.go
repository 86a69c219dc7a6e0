// Package health reports the health of a running node to `allium doctor`: its gates, its clock against that of peers,
// its routing table and its process, and whether a random sample of its store can still be proved.
//
// [Health] reads counters and snapshots and waits for nothing but the sample. One sample is read at a time, so a client
// that asks again and again keeps the disk no busier than one sample does.
package health

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/host"

	"allium/gateway/api"
	"allium/internal/ipgroup"
	"allium/node/readiness/clock"
	"allium/node/readiness/descriptors"
	"allium/protocols/dht/routing"
	"allium/store"
)

// Deps are the parts of the node that Health looks at. All are needed.
type Deps struct {
	Store *store.Store
	Host  host.Host
	Ready func() api.Readiness
	Clock func() clock.State
	Table func() []routing.Entry
	Fill  func() (have, need int, known bool)
	Begun time.Time // of the node

	Profile string // node.profile
	Amnesia bool   // node.amnesia
}

// Health answers for the health of a node. It implements api.Examiner.
type Health struct {
	deps     Deps
	sampling atomic.Bool
}

// New returns what answers for the health of the node with these parts. It starts nothing.
func New(deps Deps) *Health { return &Health{deps: deps} }

// Health implements api.Examiner.
func (h *Health) Health(ctx context.Context, o api.HealthOptions) (api.Health, error) {
	v := api.Health{
		Profile: h.deps.Profile, Amnesia: h.deps.Amnesia, Readiness: h.deps.Ready(),
		Clock: clockOf(h.deps.Clock()), Table: h.table(),
		Process: h.process(),
	}
	if !o.Sample {
		return v, nil
	}
	if !h.sampling.CompareAndSwap(false, true) {
		v.Sample = &api.StoreSample{Busy: true}
		return v, nil
	}
	defer h.sampling.Store(false)
	s, err := Sample(ctx, h.deps.Store)
	v.Sample = &s
	return v, err
}

func clockOf(s clock.State) api.ClockHealth {
	return api.ClockHealth{Known: s.Known, OffsetMS: s.Offset.Milliseconds(), Voices: s.Voices, Need: s.Need}
}

// table counts the peers of the routing table and their networks.
func (h *Health) table() (t api.TableHealth) {
	t.Have, t.Need, t.Known = h.deps.Fill()
	networks := map[ipgroup.Group]int{}
	for _, e := range h.deps.Table() {
		t.Peers++
		if len(e.Groups) > 0 {
			t.Public++
		}
		for _, g := range e.Groups {
			networks[g]++
			t.Largest = max(t.Largest, networks[g])
		}
	}
	t.Networks = len(networks)
	return t
}

// process describes the process, with what the connections of the node have of it.
func (h *Health) process() api.ProcessHealth {
	p := api.ProcessHealth{
		UptimeMS: time.Since(h.deps.Begun).Milliseconds(), Goroutines: runtime.NumGoroutine(),
		OpenFiles: descriptors.Limit(), MemoryBytes: memory(),
	}
	if limit := debug.SetMemoryLimit(-1); limit < noMemoryLimit {
		p.MemoryLimit = limit
	}
	for _, c := range h.deps.Host.Network().Conns() {
		p.Conns++
		p.Streams += c.Stat().NumStreams
	}
	return p
}

// noMemoryLimit is a limit of Go's memory that is none.
const noMemoryLimit = 1 << 60

// memory returns how many bytes Go has from the system.
func memory() int64 {
	read := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(read)
	return int64(read[0].Value.Uint64() - read[1].Value.Uint64()) //nolint:gosec // both are far below 2^63
}
