package routing

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"go.uber.org/goleak"

	"allium/protocols/kad"
)

// numbers are those of SPEC §2.
var numbers = Config{K: 20, GroupShare: 0.4, StaleAfter: 10 * time.Minute}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const self = peer.ID("self")

// failer is what *testing.T, *testing.B and *rapid.T share.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// world is what the node knows of peers. One that it was told nothing of is
// not connected and has an address of a local network.
type world struct {
	mu        sync.Mutex
	addrs     map[peer.ID][]ma.Multiaddr
	connected map[peer.ID]bool
}

func newWorld() *world {
	return &world{addrs: map[peer.ID][]ma.Multiaddr{}, connected: map[peer.ID]bool{}}
}

func (w *world) place(p peer.ID, addrs ...string) {
	as := []ma.Multiaddr{}
	for _, a := range addrs {
		as = append(as, ma.StringCast(a))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addrs[p] = as
}

func (w *world) connect(p peer.ID, yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.connected[p] = yes
}

func (w *world) deps() Deps {
	local := []ma.Multiaddr{ma.StringCast("/ip4/10.0.0.1/tcp/1")}
	return Deps{
		Self: self,
		Addrs: func(p peer.ID) []ma.Multiaddr {
			w.mu.Lock()
			defer w.mu.Unlock()
			if as, ok := w.addrs[p]; ok {
				return as
			}
			return local
		},
		Connected: func(p peer.ID) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.connected[p]
		},
	}
}

func newTable(t failer, cfg Config, deps Deps) *Table {
	t.Helper()
	table, err := New(cfg, deps)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return table
}

// answer and mute apply an update at that time, as the writer would.
func (t *Table) answer(at time.Duration, p peer.ID) { t.applied(at, update{}, p) }
func (t *Table) mute(at time.Duration, p peer.ID)   { t.applied(at, update{failed: true}, p) }

func (t *Table) applied(at time.Duration, u update, p peer.ID) {
	u.Peer, u.at = kad.Peer[peer.ID]{ID: p, Key: keyOf(p)}, at
	t.apply(t.bucketOf(u.Key), &u)
}

// idsIn are n peers of one bucket. Deep buckets take long to find.
func idsIn(bucket, n int) []peer.ID {
	var ids []peer.ID
	for i := 0; len(ids) < n; i++ {
		p := peer.ID(fmt.Sprintf("peer %d", i))
		if keyOf(self).CommonPrefix(keyOf(p)) == bucket {
			ids = append(ids, p)
		}
	}
	return ids
}

// has reports whether p is in the table.
func (t *Table) has(p peer.ID) bool { return t.bucketOf(keyOf(p)).find(keyOf(p)) != nil }
