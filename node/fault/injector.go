// Package fault injects faults into one node of a testnet: in its links, its disk space,
// its clock and its answers. The packages p2p, store and object each declare an interface
// through which their faults enter.
//
// Invariants: while no fault is set, nothing is dropped, held up or changed. The bytes and
// packets that a fault holds up are bounded. Set applies to connections that exist and to
// new ones.
//
// One fault, step by step: the node builds its host with [Injector.Links] and its store
// with [Injector.Disk]. The local API calls [Injector.Set]. For a delay of a link, Set hands
// the links to [Links.Set]. From then on faultyConn queues the bytes of a TCP connection,
// and faultyPackets the packets of a QUIC socket, until they are due. Set with no fault
// releases them at once.
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
	"allium/internal/env"
	"allium/protocols/status"
)

// Injector holds the faults of a node of a testnet. Each fault is injected where a real one
// would arise, so that the node meets it on its usual path: below the transports, below the
// store's file system, in the object server's streams, and in the clock. /readyz shows the
// effects of a fault, never the fault itself.
type Injector struct {
	log       *slog.Logger
	noDisk    string // why the store has no disk; "" if it has one
	checkDisk func() // makes the store check its disk again
	active    *prometheus.GaugeVec
	links     *Links

	corrupt  atomic.Bool
	fullDisk atomic.Bool
	skew     atomic.Int64 // nanoseconds

	// lock: held across I/O and calls, because faults are set one after the other, in testnets alone
	mu    sync.Mutex // serializes Set, and guards state; lock: config
	state api.Faults
}

// faultKinds are the values of the label kind.
var faultKinds = []string{"cut", "delay", "loss", "rate", "corrupt", "full_disk", "clock_skew"}

// New returns an Injector without a fault. noDisk says why the node's store has no disk; it
// is empty if the store has one.
func New(noDisk string, log *slog.Logger, reg prometheus.Registerer) *Injector {
	f := &Injector{
		links: NewLinks(reg),
		log:   log, noDisk: noDisk, checkDisk: func() {},
		active: env.GaugeVec("fault_active",
			"Faults that a node of a testnet was told to have: links that are cut, delayed or lossy; 1 for rate, "+
				"corrupt, full_disk, clock_skew. In other profiles there is no such metric.", "kind"),
	}
	reg.MustRegister(f.active)
	for _, kind := range faultKinds {
		f.active.WithLabelValues(kind).Set(0)
	}
	return f
}

// Get returns the current faults.
func (f *Injector) Get() api.Faults {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// Set replaces all faults by v and returns v. With an error it changes nothing:
// status.BadRequest for a wrong value, status.Unsupported for a full disk without a disk.
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
		f.checkDisk()
	}
	f.state = v
	f.tell(v)
	return v, nil
}

// linksOf converts links to the form that Links takes. A peer that is named twice, or a
// peer id or address that cannot be read, is status.BadRequest.
func linksOf(links []api.LinkFault) ([]Link, error) {
	out := make([]Link, len(links))
	named := map[peer.ID]string{} // one id can be written in two ways
	for i, l := range links {
		id, err := peer.Decode(l.Peer)
		if err != nil {
			return nil, status.Errorf(status.BadRequest, "faults: %q is not a peer id: %w", l.Peer, err)
		}
		if other, twice := named[id]; twice {
			return nil, status.Errorf(status.BadRequest,
				"faults: %s and %s are one peer; make its two links one", other, l.Peer)
		}
		named[id] = l.Peer
		out[i] = Link{Peer: id, Cut: l.Cut, Delay: l.Delay(), Jitter: l.Jitter(), Loss: l.Loss}
		for _, s := range l.Addrs {
			a, err := ma.NewMultiaddr(s)
			if err != nil {
				return nil, status.Errorf(status.BadRequest,
					"faults: %q of the link to %s is not a multiaddr: %w", s, l.Peer, err)
			}
			out[i].Addrs = append(out[i].Addrs, a)
		}
	}
	return out, nil
}

// tell shows the faults v in the metric and in the log.
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
		f.log.Warn("faults are cleared: this node injects none any more")
		return
	}
	f.log.Warn("faults are set: this node injects them on purpose", "faults", strings.Join(kinds, ","),
		"links", len(v.Links), "rate", v.Rate, "clock_skew", v.ClockSkew())
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

// Now returns the time with the clock skew. The node uses it for dates that it sends to
// peers or gets from them: see [api.Faults].
func (f *Injector) Now() time.Time { return time.Now().Add(time.Duration(f.skew.Load())) }

// Disk returns the file system for the store, nil if the store has no disk.
func (f *Injector) Disk() vfs.FS {
	if f.noDisk != "" {
		return nil
	}
	return faultyDisk{vfs.Default, f}
}

// Links returns the faults of the host's links.
func (f *Injector) Links() *Links { return f.links }

// Close ends what the host's connections have left, and waits for it. The caller closes the
// host first.
func (f *Injector) Close() { f.links.Close() }

// WatchDisk sets the function that Set calls after the disk became full or has space again.
// The caller calls it before Set.
func (f *Injector) WatchDisk(look func()) { f.checkDisk = look }

// faultyDisk is the machine's file system, which reports no free space while fullDisk is
// set.
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
