package seeds

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ipfs/go-datastore"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"allium/protocols/status"
)

// Deps is what the bootstrapper needs from the node. None of its functions is
// called with a lock held.
type Deps struct {
	Self   peer.ID // never dialled or remembered
	Dialer Dialer

	// Manifest reads the file of Config.SeedManifest; nil: there is none. It is
	// called before every round.
	Manifest func() ([]byte, error)
	// Ask asks a connected seed for the peers it knows near this node; it has
	// 3 s. nil: seeds are not asked.
	Ask func(ctx context.Context, seed peer.ID) ([]peer.AddrInfo, error)
	// Learned is given what a seed answered, at most 20 peers, from several
	// goroutines; nil: only Seeds shows it.
	Learned func(seed peer.ID, peers []peer.AddrInfo)
	// Peers lists peers that answered lately: the routing table's. The first 64
	// are remembered. nil: none are.
	Peers func() []peer.AddrInfo
	// Now is the clock by which a manifest expires; nil: time.Now.
	Now func() time.Time

	Datastore datastore.Datastore   // keeps what is to outlive the process; nil: in memory only
	Renewed   func() uint64         // how often Datastore was replaced by one without what was written before; nil: never
	Log       *slog.Logger          // nil discards
	Metrics   prometheus.Registerer // nil: not registered
}

// Source says who named a seed.
type Source string

// The sources of seeds. A seed that both name is the configuration's.
const (
	FromConfig   Source = "config"
	FromManifest Source = "manifest"
)

// Info is a seed and how it does.
type Info struct {
	ID          peer.ID
	Addrs       []ma.Multiaddr
	Source      Source
	Connected   bool
	LastSuccess time.Time // of a dial, over restarts; zero: never
	LastError   string    // of the last dial; empty when it succeeded
	Tries       int       // dials since the last success, over restarts
	NotAfter    time.Time // of the manifest; later it is not dialled. Zero for the configuration's
	Gave        []peer.ID // the peers of its last answer
	GaveAt      time.Time // zero: it was not asked, or did not answer
}

// ManifestInfo is the manifest in force, or the one that was last, and what is
// wrong.
type ManifestInfo struct {
	Seq      uint64    // 0: none was accepted
	Signer   peer.ID   // empty: none was accepted
	NotAfter time.Time // zero: none was accepted
	Err      string    // why the file does not count, or that the manifest has expired; empty: all is well
}

// Bootstrapper keeps a node connected to its seeds.
type Bootstrapper struct {
	deps       Deps
	configured []peer.AddrInfo
	trusted    []peer.ID
	m          *metrics
	log        *slog.Logger

	// Of Run's goroutine.
	loaded    bool
	stored    map[datastore.Key][]byte // what the datastore holds
	mark      mark
	unwritten bool         // the last write failed
	renewed   uint64       // of Datastore, when it was written to last
	told      ManifestInfo // what was logged last: the same is not said twice

	mu       sync.Mutex
	list     []seed // replaced, never changed
	state    map[peer.ID]seedState
	manifest ManifestInfo
	known    []known // replaced, never changed; sorted by id
}

// seed is one of the list.
type seed struct {
	peer.AddrInfo
	source   Source
	notAfter time.Time // zero: for ever
}

// usable reports whether the seed may be dialled.
func (s seed) usable(now time.Time) bool { return s.notAfter.IsZero() || s.notAfter.After(now) }

// seedState is how a seed does.
type seedState struct {
	lastSuccess time.Time
	lastError   string
	tries       int
	warned      bool // of its being out of reach, since the last success

	asked   bool // and answered, over the present connection
	askedAt time.Time
	gave    []peer.ID
	gaveAt  time.Time
}

// New checks the configuration and starts nothing.
func New(cfg Config, deps Deps) (*Bootstrapper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Self == "" || deps.Dialer == nil {
		return nil, status.Errorf(status.BadRequest, "seeds: the node's id and a dialer are needed")
	}
	if (cfg.SeedManifest != "") != (deps.Manifest != nil) {
		return nil, status.Errorf(status.BadRequest, "seeds: dht.seed_manifest and the function that reads it are needed together or not at all")
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	b := &Bootstrapper{deps: deps, log: deps.Log, stored: map[datastore.Key][]byte{}, state: map[peer.ID]seedState{}}
	var err error
	if b.configured, err = cfg.seeds(); err != nil {
		return nil, err
	}
	if b.trusted, err = cfg.authorities(); err != nil {
		return nil, err
	}
	if b.m, err = newMetrics(deps.Metrics); err != nil {
		return nil, fmt.Errorf("seeds: metrics: %w", err)
	}
	b.setList(Manifest{})
	return b, nil
}

// Run keeps the node connected until ctx ends. ready is called when what was
// remembered has been read; whether anybody answers is told by Seeds.
func (b *Bootstrapper) Run(ctx context.Context, ready func()) error {
	b.load(ctx)
	ready()
	b.loop(ctx)
	b.remember(time.Now())
	b.store(context.WithoutCancel(ctx))
	return nil
}

// Seeds lists the seeds, the configuration's first.
func (b *Bootstrapper) Seeds() []Info {
	b.mu.Lock()
	infos := make([]Info, len(b.list))
	for i, s := range b.list {
		st := b.state[s.ID]
		infos[i] = Info{
			ID: s.ID, Addrs: s.Addrs, Source: s.source, NotAfter: s.notAfter,
			LastSuccess: st.lastSuccess, LastError: st.lastError, Tries: st.tries, Gave: st.gave, GaveAt: st.gaveAt,
		}
	}
	b.mu.Unlock()
	for i := range infos {
		if infos[i].Connected = b.deps.Dialer.Connected(infos[i].ID); infos[i].Connected {
			infos[i].LastError, infos[i].Tries = "", 0 // of a loss that is over
		}
	}
	return infos
}

// Manifest tells of the seed manifest; the zero value is that none is
// configured.
func (b *Bootstrapper) Manifest() ManifestInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.manifest
}

// Remembered is the number of peers that are dialled when no seed answers, at
// most 64.
func (b *Bootstrapper) Remembered() int { return len(b.remembered()) }

// setList makes the list of the configuration and m, and forgets the state of
// seeds that are in neither.
func (b *Bootstrapper) setList(m Manifest) {
	list := make([]seed, 0, len(b.configured)+len(m.Seeds))
	in := map[peer.ID]bool{b.deps.Self: true}
	add := func(infos []peer.AddrInfo, source Source, notAfter time.Time) {
		for _, s := range infos {
			if !in[s.ID] {
				in[s.ID] = true
				list = append(list, seed{s, source, notAfter})
			}
		}
	}
	add(b.configured, FromConfig, time.Time{})
	add(m.Seeds, FromManifest, m.NotAfter)

	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = list
	for id := range b.state {
		if !in[id] {
			delete(b.state, id)
		}
	}
}

// seeds is the list as it is now. It is not changed.
func (b *Bootstrapper) seeds() []seed {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.list
}

// remembered is the peers remembered as they are now. It is not changed.
func (b *Bootstrapper) remembered() []known {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known
}

// update changes the state of one seed.
func (b *Bootstrapper) update(id peer.ID, change func(*seedState)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.state[id]
	change(&st)
	b.state[id] = st
}
