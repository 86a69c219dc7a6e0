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

	"allium/internal/env"
	"allium/protocols/status"
)

// Deps holds the dependencies of the bootstrapper on the node. Its functions are never called with
// a lock held.
type Deps struct {
	env.Env

	Self   peer.ID // never dialed or remembered
	Dialer Dialer

	// Explain returns why a dial of a seed failed, in words. nil: the text of the error.
	Explain func(seed peer.ID, err error) error
	// Manifest reads the file of Config.SeedManifest. It is called before every round. nil:
	// there is no manifest.
	Manifest func() ([]byte, error)
	// Ask asks a connected seed for the peers it knows near this node. Its context ends
	// after 3 s. nil: seeds are not asked.
	Ask func(ctx context.Context, seed peer.ID) ([]peer.AddrInfo, error)
	// Learned receives the at most 20 peers that a seed named. It is called from several
	// goroutines. nil: not called.
	Learned func(seed peer.ID, peers []peer.AddrInfo)
	// Peers lists the peers of the routing table. The first 64 are remembered. nil: none.
	Peers func() []peer.AddrInfo

	// Datastore keeps the state across restarts. nil: in memory only.
	Datastore datastore.Datastore
	// Replacements returns how often Datastore was replaced by an empty one. nil: never.
	Replacements func() uint64
}

// Source says who named a seed.
type Source string

// The sources of seeds. A seed that both name counts as FromConfig.
const (
	FromConfig   Source = "config"
	FromManifest Source = "manifest"
)

// Info describes a seed and its state.
type Info struct {
	ID          peer.ID
	Addrs       []ma.Multiaddr
	Source      Source
	Connected   bool
	LastSuccess time.Time // of a dial, also before a restart; zero: never
	LastError   string    // of the last dial; empty if it succeeded
	Tries       int       // dials since the last success, also before a restart
	NotAfter    time.Time // end of the manifest, after which it is not dialed; zero for FromConfig
	Gave        []peer.ID // peers of its last response
	GaveAt      time.Time // zero: it was not asked, or did not answer
}

// ManifestInfo describes the manifest in force, or the last one that was.
type ManifestInfo struct {
	Seq      uint64    // 0: none was accepted
	Signer   peer.ID   // empty: none was accepted
	NotAfter time.Time // zero: none was accepted
	Err      string    // why the file is refused, or that the manifest has expired; empty: no error
}

// Bootstrapper keeps a node connected to its seeds.
type Bootstrapper struct {
	deps    Deps
	trusted []peer.ID
	m       *metrics
	log     *slog.Logger
	changed chan struct{} // of one: the configuration has other seeds

	// Used only by Run's goroutine.
	stored stored
	mark   mark
	told   ManifestInfo // last logged; the same is not logged twice

	mu sync.Mutex // guards the rest; lock: leaf
	lists
	state    map[peer.ID]seedState
	manifest ManifestInfo
	known    []known // replaced, never changed; sorted by id
}

// lists are the seeds, by where they come from. They are replaced, never changed.
type lists struct {
	configured []peer.AddrInfo
	signed     Manifest // the manifest in force
	list       []seed   // of both
}

// seed is an entry of the list.
type seed struct {
	peer.AddrInfo
	source   Source
	notAfter time.Time // zero: no end
}

// usable reports whether the seed may be dialed.
func (s seed) usable(now time.Time) bool { return s.notAfter.IsZero() || s.notAfter.After(now) }

// seedState is the state of a seed.
type seedState struct {
	lastSuccess time.Time
	lastError   string
	tries       int
	warned      bool // a warning was logged since the last success

	asked   bool // it has answered over the current connection
	askedAt time.Time
	gave    []peer.ID
	gaveAt  time.Time
}

// New returns a Bootstrapper that is not running. It starts nothing.
func New(cfg Config, deps Deps) (*Bootstrapper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Self == "" || deps.Dialer == nil {
		return nil, status.Errorf(status.BadRequest, "the bootstrapper needs the node's ID and a dialer")
	}
	if (cfg.SeedManifest != "") != (deps.Manifest != nil) {
		return nil, status.Errorf(status.BadRequest,
			"dht.seed_manifest and the function that reads it are needed together or not at all")
	}
	deps.Env.SetDefaults()
	b := &Bootstrapper{
		deps: deps, log: deps.Log, stored: stored{in: deps.Datastore, values: map[datastore.Key][]byte{}},
		state: map[peer.ID]seedState{}, changed: make(chan struct{}, 1),
	}
	var err error
	if b.configured, err = cfg.seeds(); err != nil {
		return nil, err
	}
	if b.trusted, err = cfg.authorities(); err != nil {
		return nil, err
	}
	if b.m, err = newMetrics(deps.Metrics); err != nil {
		return nil, fmt.Errorf("register seed metrics: %w", err)
	}
	makeList(b)
	return b, nil
}

// Run keeps the node connected until ctx ends and then returns nil. It calls ready when the
// stored state has been read; Seeds tells whether a seed is connected.
func (b *Bootstrapper) Run(ctx context.Context, ready func()) error {
	b.load(ctx)
	b.reload(ctx) // so that Manifest tells the truth from the start
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
			infos[i].LastError, infos[i].Tries = "", 0 // they belong to an earlier loss
		}
	}
	return infos
}

// Manifest returns the state of the seed manifest, the zero value if none is configured.
func (b *Bootstrapper) Manifest() ManifestInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.manifest
}

// Remembered returns the number of remembered peers, at most 64. They are dialed when no
// seed answers.
func (b *Bootstrapper) Remembered() int { return len(b.remembered()) }

// Reconfigure replaces the seeds of a valid configuration. New ones are dialed at once; connections to others stay.
func (b *Bootstrapper) Reconfigure(cfg Config) {
	infos, err := cfg.seeds()
	if err != nil {
		return // Validate did
	}
	setConfigured(b, infos)
	select {
	case b.changed <- struct{}{}:
	default: // one change is waiting
	}
}

func setConfigured(b *Bootstrapper, infos []peer.AddrInfo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.configured = infos
	makeList(b)
}

func setManifest(b *Bootstrapper, m Manifest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signed = m
	makeList(b)
}

// makeList makes the list from the configuration and the manifest. It deletes the state of all other
// seeds. The caller holds b.mu, unless nobody else has b yet.
func makeList(b *Bootstrapper) {
	m := b.signed
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

	b.list = list
	for id := range b.state {
		if !in[id] {
			delete(b.state, id)
		}
	}
}

// seeds returns the current list. The caller must not change it.
func (b *Bootstrapper) seeds() []seed {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.list
}

// remembered returns the remembered peers. The caller must not change them.
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
