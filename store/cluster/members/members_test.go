package members

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ds "github.com/ipfs/go-datastore"
	dssync "github.com/ipfs/go-datastore/sync"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/store/cluster/offer"
	"allium/store/cluster/plan"
)

// net is a network in virtual time: gossip among connected nodes, and a DHT.
type net struct {
	mu        sync.Mutex
	nodes     map[peer.ID]*Service
	providers map[b3.Root]map[peer.ID]bool
	connected map[[2]peer.ID]bool
	messages  int
	silent    map[peer.ID]bool // nothing of them arrives
	broken    peer.ID          // whose breaker is open
	records   ds.Datastore     // of the nodes that start next; nil: none
}

// delay is how long a message travels.
const delay = 50 * time.Millisecond

func (w *net) start(t *testing.T, ring offer.Ring, cfg Config) *Service {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	self, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, Deps{
		Env: env.Env{Log: slog.New(slog.DiscardHandler), Now: time.Now},
		Key: key, Ring: ring, Space: func() Space { return Space{Capacity: 1000, Free: 500} },
		Publish: func(_ context.Context, data []byte) error { w.publish(self, data); return nil },
		Provide: func(_ context.Context, root b3.Root) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.providers[root] == nil {
				w.providers[root] = map[peer.ID]bool{}
			}
			w.providers[root][self] = true
			return nil
		},
		Find: func(_ context.Context, root b3.Root) iter.Seq2[record.Provider, error] {
			return func(yield func(record.Provider, error) bool) {
				w.mu.Lock()
				var all []peer.ID
				for id := range w.providers[root] {
					if id != self {
						all = append(all, id)
					}
				}
				w.mu.Unlock()
				for _, id := range all {
					if !yield(record.Provider{AddrInfo: peer.AddrInfo{ID: id}}, nil) {
						return
					}
				}
			}
		},
		Connect: func(_ context.Context, p peer.AddrInfo) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.nodes[p.ID] == nil {
				return errors.New("nobody answers")
			}
			w.connected[[2]peer.ID{self, p.ID}], w.connected[[2]peer.ID{p.ID, self}] = true, true
			return nil
		},
		Network: func(peer.ID) string { return "" }, Broken: func(p peer.ID) bool { return w.broken == p },
		Records: w.records,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.nodes[self] = s
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx, func() {}) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s
}

func (w *net) publish(from peer.ID, data []byte) {
	w.mu.Lock()
	w.messages++
	var to []*Service
	for id, s := range w.nodes {
		if w.connected[[2]peer.ID{from, id}] && !w.silent[from] {
			to = append(to, s)
		}
	}
	w.mu.Unlock()
	time.AfterFunc(delay, func() {
		for _, s := range to {
			if s.Validate(from, data) == nil {
				s.Handle(from, data)
			}
		}
	})
}

func (w *net) sent() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.messages
}

func newNet() *net {
	return &net{
		nodes: map[peer.ID]*Service{}, providers: map[b3.Root]map[peer.ID]bool{}, connected: map[[2]peer.ID]bool{},
		silent: map[peer.ID]bool{},
	}
}

func newRing(t *testing.T, from capability.Ring) capability.Ring {
	t.Helper()
	r, err := from.Rotate(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func present(s *Service) (n int) {
	for _, m := range s.View().Members() {
		if !m.Gone {
			n++
		}
	}
	return n
}

// TestMembersMeet: six nodes that know nothing of each other but the ring, half of them with a
// rotated one, know each other within 5 s. A node with another ring and one without know nobody.
func TestMembersMeet(t *testing.T) {
	for name, cfg := range map[string]Config{
		"node": NewConfig(plan.DefaultParams()), "testnet": NewConfig(plan.TestnetParams()),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newNet()
				old := newRing(t, capability.Ring{})
				rotated := newRing(t, old)
				var all []*Service
				for i := range 6 {
					all = append(all, w.start(t, []capability.Ring{old, rotated}[i%2], cfg))
				}
				stranger, none := w.start(t, newRing(t, capability.Ring{}), cfg), w.start(t, capability.Ring{}, cfg)
				w.mu.Lock()
				for id := range w.nodes { // strangers hear everything
					for _, s := range []*Service{stranger, none} {
						w.connected[[2]peer.ID{id, s.self}] = true
						w.connected[[2]peer.ID{s.self, id}] = true
					}
				}
				w.mu.Unlock()
				time.Sleep(5 * time.Second)
				synctest.Wait()
				for i, s := range all {
					if n := present(s); n != 6 {
						t.Errorf("node %d knows %d members", i, n)
					}
				}
				if n := present(stranger); n != 1 {
					t.Errorf("a node with another ring knows %d members", n)
				}
				if n := present(none); n != 0 {
					t.Errorf("a node without a ring knows %d members", n)
				}
				before := w.sent()
				time.Sleep(10 * cfg.Every)
				synctest.Wait()
				if n := w.sent() - before; n < 7*7 || n > 7*14 {
					t.Errorf("%d offers of 7 nodes in 10 intervals", n)
				}
			})
		})
	}
}

// TestMemberGoes: a member that is silent for the grace is gone; when it is back it is met again.
func TestMemberGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNet()
		ring := newRing(t, capability.Ring{})
		cfg := NewConfig(plan.DefaultParams())
		a, b := w.start(t, ring, cfg), w.start(t, ring, cfg)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		cut := func(on bool) {
			w.mu.Lock()
			w.silent[b.self] = on
			w.mu.Unlock()
		}
		member := func(id peer.ID, want status.Outcome) {
			t.Helper()
			if err := a.Member(id); status.Of(err) != want {
				t.Errorf("%s: %v, want %s", id, err, want)
			}
		}
		member(a.self, status.OK)
		member(b.self, status.OK)
		member(w.start(t, capability.Ring{}, cfg).self, status.Forbidden)
		cut(true)
		time.Sleep(cfg.Durability.Grace - 2*cfg.Every)
		synctest.Wait()
		if n := present(a); n != 2 {
			t.Errorf("before the grace %d are present", n)
		}
		time.Sleep(3 * cfg.Every)
		synctest.Wait()
		if n := present(a); n != 1 {
			t.Errorf("after the grace %d are present", n)
		}
		member(b.self, status.Forbidden)
		cut(false)
		time.Sleep(2 * cfg.Every)
		synctest.Wait()
		if n := present(a); n != 2 {
			t.Errorf("after it is back %d are present", n)
		}
		member(b.self, status.OK)
	})
}

// TestMembersOutlastRestarts: a node knows the members that it knew before a restart, though it hears none: those that
// were present have a grace, and those that were gone stay so. A list that is damaged, or of members that may be none
// any more, is left out. Until a grace has passed without a list the view says that members may be missing.
func TestMembersOutlastRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNet()
		ring := newRing(t, capability.Ring{})
		cfg := NewConfig(plan.DefaultParams())
		records := dssync.MutexWrap(ds.NewMapDatastore())
		w.records = records
		a := w.start(t, ring, cfg)
		if !a.View().Known.After(time.Now()) {
			t.Error("a node that remembers nothing knows all members")
		}
		w.records = nil
		b, gone := w.start(t, ring, cfg), w.start(t, ring, cfg)
		time.Sleep(5 * time.Second)
		w.mu.Lock()
		w.silent[gone.self] = true
		w.mu.Unlock()
		time.Sleep(cfg.Durability.Grace + 10*time.Second)
		synctest.Wait()
		again := func(what string, ring offer.Ring, cfg Config, want int) *Service {
			t.Helper()
			w.records = records
			s := w.start(t, ring, cfg)
			w.mu.Lock()
			delete(w.nodes, s.self) // nothing arrives
			w.mu.Unlock()
			synctest.Wait()
			if n := present(s); n != want {
				t.Errorf("%s: %d members are present, want %d", what, n, want)
			}
			return s
		}
		s := again("after a restart", ring, cfg, 2)
		m, _ := s.View().Member(plan.ID(b.self))
		out, ok := s.View().Member(plan.ID(gone.self))
		if m.Gone || m.Capacity != 1000 || m.Free != 500 || !ok || !out.Gone || s.View().Known.After(time.Now()) {
			t.Errorf("of the members are known %+v and %+v", m, out)
		}
		only := cfg
		only.Only = []peer.ID{gone.self}
		again("not named", ring, only, 1)
		again("without a ring", capability.Ring{}, cfg, 0)
		time.Sleep(cfg.Durability.Grace)
		synctest.Wait()
		if n := present(s); n != 1 {
			t.Errorf("after a grace in silence %d members are present", n)
		}
		if err := records.Put(t.Context(), rememberedKey, []byte{0xff}); err != nil {
			t.Fatal(err)
		}
		again("with a damaged list", ring, cfg, 1)
	})
}

// TestContact: a member that answers is there even if its offers do not arrive, and the view says whose
// breaker is open.
func TestContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNet()
		ring := newRing(t, capability.Ring{})
		cfg := NewConfig(plan.DefaultParams())
		a, b := w.start(t, ring, cfg), w.start(t, ring, cfg)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		w.mu.Lock()
		w.silent[b.self], w.broken = true, b.self
		w.mu.Unlock()
		look := func() plan.Member {
			m, ok := a.View().Member(plan.ID(b.self))
			if !ok {
				t.Fatal("the member is not listed")
			}
			return m
		}
		if !look().Broken {
			t.Error("the breaker is not open")
		}
		w.mu.Lock()
		w.broken = ""
		w.mu.Unlock()
		if look().Broken {
			t.Error("the breaker is still open")
		}
		for range 3 {
			time.Sleep(cfg.Durability.Grace * 2 / 3)
			a.Contact(b.self)
		}
		if look().Gone {
			t.Error("a member that answers is gone")
		}
		time.Sleep(cfg.Durability.Grace)
		if !look().Gone {
			t.Error("a member that is silent is not gone")
		}
	})
}

// TestOnly: with a list of members, no other peer is one, whatever key it has.
func TestOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNet()
		ring := newRing(t, capability.Ring{})
		cfg := NewConfig(plan.DefaultParams())
		a, b := w.start(t, ring, cfg), w.start(t, ring, cfg)
		narrow := cfg
		narrow.Only = []peer.ID{a.self}
		c := w.start(t, ring, narrow)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(c.View().Members()); n != 2 { // and itself
			t.Errorf("it knows %d members", n)
		}
		if a.Member(b.self) != nil || c.Member(a.self) != nil || status.Of(c.Member(b.self)) != status.Forbidden {
			t.Error("the list does not decide who is a member")
		}
	})
}

// TestLies: what no cluster sends counts against its sender, and an author's offers are sent by
// nobody else, and not too often.
func TestLies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNet()
		ring := newRing(t, capability.Ring{})
		cfg := NewConfig(plan.DefaultParams())
		a, b := w.start(t, ring, cfg), w.start(t, ring, cfg)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want := func(what string, err error, outcome status.Outcome) {
			t.Helper()
			if got := status.Of(err); got != outcome {
				t.Errorf("%s: %s (%v), want %s", what, got, err, outcome)
			}
		}
		sealed := func(o offer.Offer, s *Service) []byte {
			envelope, err := o.Sign(s.deps.Key)
			if err != nil {
				t.Fatal(err)
			}
			data, err := offer.Seal(envelope, ring)
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		now := time.Now()
		o := offer.Offer{Peer: b.self, Seq: uint64(now.UnixMilli()),
			NotAfter: now.Add(time.Minute), Capacity: 9, Free: 9}
		good := sealed(o, b)
		want("an offer", a.Validate(b.self, good), status.OK)
		want("one right after it", a.Validate(b.self, good), status.RateLimit)
		want("that of another", a.Validate(a.self, good), status.BadSignature)
		want("no offer", a.Validate(b.self, []byte("offer")), status.BadRequest)
		time.Sleep(2 * time.Minute)
		want("an old one", a.Validate(b.self, good), status.Stale)
		o.NotAfter, o.Seq = time.Now().Add(time.Minute), 1 // a replayed number changes nothing
		a.Handle(b.self, sealed(o, b))
		for _, m := range a.View().Members() {
			if m.Capacity == 9 {
				t.Error("an offer with an old number is taken")
			}
		}
	})
}
