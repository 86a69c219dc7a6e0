package seeds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"go.uber.org/goleak"

	"allium/internal/jitter"
	"allium/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// identity is a key with its peer id, the same for the same n.
func identity(t testing.TB, n int) (crypto.PrivKey, peer.ID) {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(fmt.Appendf(nil, "%032d", n)))
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, id
}

// peers is the identities from…to with an address each.
func peers(t testing.TB, from, to int) (infos []peer.AddrInfo) {
	t.Helper()
	for i := from; i < to; i++ {
		_, id := identity(t, i)
		infos = append(
			infos,
			peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{ma.StringCast(fmt.Sprintf("/ip4/192.0.2.1/tcp/%d", i+1))}},
		)
	}
	return infos
}

func idsOf(infos []peer.AddrInfo) []peer.ID {
	ids := make([]peer.ID, len(infos))
	for i, p := range infos {
		ids[i] = p.ID
	}
	return ids
}

// configOf is a configuration with those seeds.
func configOf(t testing.TB, infos []peer.AddrInfo) (c Config) {
	t.Helper()
	for i := range infos {
		addrs, err := peer.AddrInfoToP2pAddrs(&infos[i])
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addrs {
			c.Bootstrap = append(c.Bootstrap, a.String())
		}
	}
	return c
}

// dial is one that was made.
type dial struct {
	id peer.ID
	at time.Duration // since the start
}

// fakeDialer is a network of peers that are up or down.
type fakeDialer struct {
	start time.Time
	takes time.Duration // a dial of a peer that is down

	mu            sync.Mutex
	up, conns     map[peer.ID]bool
	dials         []dial
	running, most int // dials at one time
	lost          func()
}

func newFakeDialer() *fakeDialer {
	return &fakeDialer{start: time.Now(), up: map[peer.ID]bool{}, conns: map[peer.ID]bool{}, lost: func() {}}
}

func (d *fakeDialer) Connect(ctx context.Context, info peer.AddrInfo) error {
	d.mu.Lock()
	d.dials = append(d.dials, dial{info.ID, time.Since(d.start)})
	up := d.up[info.ID]
	d.running++
	d.most = max(d.most, d.running)
	d.mu.Unlock()
	if !up {
		jitter.Sleep(ctx, d.takes)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	d.conns[info.ID] = d.conns[info.ID] || up
	if !up {
		return errors.New("refused")
	}
	return nil
}

func (d *fakeDialer) Connected(p peer.ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conns[p]
}

func (d *fakeDialer) OnLost(f func()) func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = f
	return func() {}
}

// set starts peers, or stops them, which closes their connections.
func (d *fakeDialer) set(up bool, ids ...peer.ID) {
	d.mu.Lock()
	lost := false
	for _, p := range ids {
		d.up[p] = up
		if !up && d.conns[p] {
			d.conns[p], lost = false, true
		}
	}
	f := d.lost
	d.mu.Unlock()
	if lost {
		f()
	}
}

// of returns when p was dialled.
func (d *fakeDialer) of(p peer.ID) (at []time.Duration) {
	for _, c := range d.all() {
		if c.id == p {
			at = append(at, c.at)
		}
	}
	return at
}

func (d *fakeDialer) all() []dial {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.dials)
}

// peak is the most dials there were at one time.
func (d *fakeDialer) peak() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.most
}

// running is a bootstrapper that runs; stop ends it.
type running struct {
	*Bootstrapper
	stop func()
}

// begin runs a bootstrapper until stop is called or the test ends. It must be
// called in a bubble.
func begin(t *testing.T, cfg Config, deps Deps) running {
	t.Helper()
	if deps.Self == "" {
		deps.Self = "me"
	}
	b, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return running{b, testkit.Start(t, b.Run)}
}
