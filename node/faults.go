package node

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/client"
	"allium/node/config"
	"allium/node/p2p"
	"allium/protocols/status"
	"allium/store"
)

// faults is what a node of a testnet does wrong on purpose. Where it is nil, in
// every other profile, nothing of the node is wrapped and nothing can be set.
//
// Each fault sits where the real one would come from, so that the node meets it
// on its usual path: below the transports, under the store's file system,
// behind the object server's streams, in front of the clock. None shows in
// /readyz but by what it does.
type faults struct {
	log    *slog.Logger
	inRAM  bool
	poke   func() // the store looks at its disk again
	active *prometheus.GaugeVec
	links  *p2p.Faults

	corrupt  atomic.Bool
	fullDisk atomic.Bool
	skew     atomic.Int64 // nanoseconds

	mu    sync.Mutex // of one change after the other
	state client.Faults
}

// faultKinds are the values of the label kind.
var faultKinds = []string{"cut", "delay", "loss", "rate", "corrupt", "full_disk", "clock_skew"}

// newFaults is nil unless the node is one of a testnet.
func newFaults(cfg config.Config, log *slog.Logger, reg prometheus.Registerer) *faults {
	if cfg.Node.Profile != p2p.Testnet {
		return nil
	}
	f := &faults{
		links: p2p.NewFaults(reg),
		log:   log, inRAM: cfg.Store.Backend == store.BackendMemory, poke: func() {},
		active: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fault_active", Help: "Faults that a node of a testnet was told to have: links that are cut, delayed or lossy; 1 for rate, corrupt, full_disk, clock_skew. In other profiles there is no such metric.",
		}, []string{"kind"}),
	}
	reg.MustRegister(f.active)
	for _, kind := range faultKinds {
		f.active.WithLabelValues(kind).Set(0)
	}
	return f
}

// errNoFaults is the answer of a node that is not one of a testnet.
var errNoFaults = status.Errorf(status.Unsupported, "faults are set on a node of a testnet alone (node.profile = %q); this one does nothing wrong on purpose", p2p.Testnet)

// get says what holds. A node that cannot be told to do wrong does nothing wrong.
func (f *faults) get() client.Faults {
	if f == nil {
		return client.Faults{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// set replaces what holds, or changes nothing.
func (f *faults) set(_ context.Context, v client.Faults) (client.Faults, error) {
	if f == nil {
		return client.Faults{}, errNoFaults
	}
	if err := v.Validate(); err != nil {
		return client.Faults{}, err
	}
	if v.FullDisk && f.inRAM {
		return client.Faults{}, status.Errorf(status.Unsupported, "faults: full_disk: this node's store is in RAM (store.backend = %q) and has no disk", store.BackendMemory)
	}
	links, err := linksOf(v.Links)
	if err != nil {
		return client.Faults{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.links.Set(links, v.Rate)
	f.corrupt.Store(v.Corrupt)
	f.skew.Store(int64(v.ClockSkew()))
	if f.fullDisk.Swap(v.FullDisk) != v.FullDisk {
		f.poke()
	}
	f.state = v
	f.tell(v)
	return v, nil
}

// linksOf is links as the host takes them.
func linksOf(links []client.LinkFault) ([]p2p.Link, error) {
	out := make([]p2p.Link, len(links))
	named := map[peer.ID]string{} // one id can be written in two ways
	for i, l := range links {
		id, err := peer.Decode(l.Peer)
		if err != nil {
			return nil, status.Errorf(status.BadRequest, "faults: %q is not a peer id: %w", l.Peer, err)
		}
		if other, twice := named[id]; twice {
			return nil, status.Errorf(status.BadRequest, "faults: %s and %s are one peer; make its two links one", other, l.Peer)
		}
		named[id] = l.Peer
		out[i] = p2p.Link{Peer: id, Cut: l.Cut, Delay: l.Delay(), Jitter: l.Jitter(), Loss: l.Loss}
		for _, s := range l.Addrs {
			a, err := ma.NewMultiaddr(s)
			if err != nil {
				return nil, status.Errorf(status.BadRequest, "faults: %q of the link to %s is not a multiaddr: %w", s, l.Peer, err)
			}
			out[i].Addrs = append(out[i].Addrs, a)
		}
	}
	return out, nil
}

// tell shows what holds.
func (f *faults) tell(v client.Faults) {
	counts := countFaults(v)
	var kinds []string
	for _, kind := range faultKinds {
		f.active.WithLabelValues(kind).Set(float64(counts[kind]))
		if counts[kind] > 0 {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		f.log.Warn("faults are cleared: this node does nothing wrong on purpose any more")
		return
	}
	f.log.Warn("faults are set: this node does wrong on purpose", "faults", strings.Join(kinds, ","), "links", len(v.Links),
		"rate", v.Rate, "clock_skew", v.ClockSkew())
}

// countFaults counts the faults of each kind.
func countFaults(v client.Faults) map[string]int {
	n := map[string]int{}
	add := func(kind string, is bool) {
		if is {
			n[kind]++
		}
	}
	for _, l := range v.Links {
		add("cut", l.Cut)
		add("delay", l.DelayMS > 0 || l.JitterMS > 0)
		add("loss", l.Loss > 0)
	}
	add("rate", v.Rate > 0)
	add("corrupt", v.Corrupt)
	add("full_disk", v.FullDisk)
	add("clock_skew", v.ClockSkewMS != 0)
	return n
}

// now is the time by the clock for what crosses the network with a date: see
// [client.Faults].
func (f *faults) now() time.Time {
	if f == nil {
		return time.Now()
	}
	return time.Now().Add(time.Duration(f.skew.Load()))
}

// disk is the file system of the store; nil is the machine's.
func (f *faults) disk() vfs.FS {
	if f == nil || f.inRAM {
		return nil
	}
	return faultyDisk{vfs.Default, f}
}

// hostLinks are the faults of the host; nil where there are none.
func (f *faults) hostLinks() *p2p.Faults {
	if f == nil {
		return nil
	}
	return f.links
}

// close waits for what the host's faults have left. The host was closed.
func (f *faults) close() {
	if f != nil {
		f.links.Close()
	}
}

// watches names the store whose disk it is.
func (f *faults) watches(st *store.Store) {
	if f != nil {
		f.poke = st.LookAtDisk
	}
}

// faultyDisk is a disk that may be said to be full.
type faultyDisk struct {
	vfs.FS
	faults *faults
}

// Unwrap implements [vfs.FS].
func (d faultyDisk) Unwrap() vfs.FS { return d.FS }

// GetDiskUsage implements [vfs.FS].
func (d faultyDisk) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	u, err := d.FS.GetDiskUsage(path)
	if err == nil && d.faults.fullDisk.Load() {
		u.AvailBytes, u.UsedBytes = 0, u.TotalBytes
	}
	return u, err
}
