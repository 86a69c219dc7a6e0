// Package fault makes one node of a testnet do wrong on purpose. p2p, the store
// and the object server each declare the place where a fault of theirs fits.
package fault

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/api"
	"allium/protocols/status"
)

// Injector is what a node of a testnet does wrong on purpose: its links, its
// disk's space, its clock and its answers. Each fault sits where the real one
// would come from, so that the node meets it on its usual path: below the
// transports, under the store's file system, behind the object server's streams,
// in front of the clock. None shows in /readyz but by what it does.
type Injector struct {
	log    *slog.Logger
	noDisk string // why there is no disk, "" when there is one
	look   func() // the store looks at its disk again
	active *prometheus.GaugeVec
	links  *Links

	corrupt  atomic.Bool
	fullDisk atomic.Bool
	skew     atomic.Int64 // nanoseconds

	mu    sync.Mutex // of one change after the other
	state api.Faults
}

// faultKinds are the values of the label kind.
var faultKinds = []string{"cut", "delay", "loss", "rate", "corrupt", "full_disk", "clock_skew"}

// New returns the faults of a node, which has none yet. noDisk says why its store
// has no disk, "" when it has one.
func New(noDisk string, log *slog.Logger, reg prometheus.Registerer) *Injector {
	f := &Injector{
		links: NewLinks(reg),
		log:   log, noDisk: noDisk, look: func() {},
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

// Get returns what holds.
func (f *Injector) Get() api.Faults {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// Set replaces what holds, or changes nothing.
func (f *Injector) Set(v api.Faults) (api.Faults, error) {
	if err := v.Validate(); err != nil {
		return api.Faults{}, err
	}
	if v.FullDisk && f.noDisk != "" {
		return api.Faults{}, status.Errorf(status.Unsupported, "faults: full_disk: %s and has no disk", f.noDisk)
	}
	links, err := linksOf(v.Links)
	if err != nil {
		return api.Faults{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.links.Set(links, v.Rate)
	f.corrupt.Store(v.Corrupt)
	f.skew.Store(int64(v.ClockSkew()))
	if f.fullDisk.Swap(v.FullDisk) != v.FullDisk {
		f.look()
	}
	f.state = v
	f.tell(v)
	return v, nil
}

// linksOf is links as the host takes them.
func linksOf(links []api.LinkFault) ([]Link, error) {
	out := make([]Link, len(links))
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
		out[i] = Link{Peer: id, Cut: l.Cut, Delay: l.Delay(), Jitter: l.Jitter(), Loss: l.Loss}
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
func (f *Injector) tell(v api.Faults) {
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
func countFaults(v api.Faults) map[string]int {
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

// Now is the time by the clock for what crosses the network with a date: see
// [api.Faults].
func (f *Injector) Now() time.Time { return time.Now().Add(time.Duration(f.skew.Load())) }

// Disk is the file system of the store; nil where it has none.
func (f *Injector) Disk() vfs.FS {
	if f.noDisk != "" {
		return nil
	}
	return faultyDisk{vfs.Default, f}
}

// Links are the faults of the host.
func (f *Injector) Links() *Links { return f.links }

// Close waits for what the host's faults have left. The host was closed.
func (f *Injector) Close() { f.links.Close() }

// WatchDisk names what is called after the disk became full, or is no longer.
func (f *Injector) WatchDisk(look func()) { f.look = look }

// faultyDisk is a disk that may be said to be full.
type faultyDisk struct {
	vfs.FS
	faults *Injector
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
