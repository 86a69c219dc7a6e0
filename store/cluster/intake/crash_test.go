package intake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/policy"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/object"
	"allium/store"
	"allium/store/cluster/wire"
	"allium/store/meta"
	"allium/store/storetest"
)

// origin is the label of the targets of the member that puts.
var origin = meta.OriginLabel("member")

// conn is the connection with that member.
type conn struct{ network.Conn }

func (conn) RemotePeer() peer.ID { return "member" }

// acknowledged has the objects that the member was told are there. It implements storetest.Ledger.
type acknowledged struct {
	mu     *sync.Mutex // lock: leaf
	bodies map[b3.Root][]byte
	looked *[2]atomic.Int64 // crashes before anything was acknowledged, and after
}

func (a acknowledged) add(root b3.Root, body []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bodies[root] = body
}

func (a acknowledged) Copy() acknowledged {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := acknowledged{new(sync.Mutex), map[b3.Root][]byte{}, a.looked}
	for root, body := range a.bodies {
		now.bodies[root] = body
	}
	return now
}

// Check opens what a crash left. Each object that was acknowledged is there, with its pin for the quota and its target.
func (a acknowledged) Check(t testing.TB, disk vfs.FS) error {
	s, stop, err := storetest.Try(t, crashConfig(), store.Deps{FS: disk})
	if err != nil {
		return err
	}
	a.looked[min(len(a.bodies), 1)].Add(1)
	for root, body := range a.bodies {
		got, e := storetest.Get(t, s, root)
		if e == nil && !bytes.Equal(got, body) {
			e = fmt.Errorf("%s has other bytes", root)
		}
		found := 0
		for p, e := range s.PinsOf(t.Context(), root) {
			if e == nil && (p.Label == meta.ClusterLabel || p.Label == origin && p.Target.Copies == 3) {
				found++
			}
		}
		if found != 2 {
			e = errors.Join(e, fmt.Errorf("%s has %d pins", root, found))
		}
		err = errors.Join(err, e)
	}
	return errors.Join(err, stop())
}

func crashConfig() store.Config {
	cfg := store.DefaultConfig()
	cfg.Dir = "/store"
	return cfg
}

// TestAcknowledgedCopiesOutlastCrashes puts small objects with their targets and takes the power away everywhere: what
// was acknowledged is there after it, pinned and with its target.
func TestAcknowledgedCopiesOutlastCrashes(t *testing.T) {
	l := acknowledged{new(sync.Mutex), map[b3.Root][]byte{}, new([2]atomic.Int64)}
	storetest.CrashEverywhere(t, crashConfig(), rand.New(rand.NewPCG(1, 2)), l, func(s *store.Store) {
		for n := range 3 {
			bodies := make([][]byte, 20)
			for i := range bodies {
				bodies[i] = bytes.Repeat([]byte{byte(n), byte(i)}, 1+i*300)
			}
			for i := range putCopies(t, s, bodies) {
				l.add(b3.Sum(bodies[i]), bodies[i])
			}
		}
	})
	before, after := l.looked[0].Load(), l.looked[1].Load()
	t.Logf("%d crashes before a put was acknowledged, %d after", before, after)
	if !testing.Short() && (before < 5 || after < 5) {
		t.Error("the script met too few crash points to mean anything")
	}
}

// putCopies puts objects as a member does, and returns those that were acknowledged with a reply.
func putCopies(t *testing.T, s *store.Store, bodies [][]byte) map[int]bool {
	ctx := t.Context()
	offer := &object.Offer{From: conn{}, Many: true}
	var about []wire.Copy
	for _, body := range bodies {
		offer.Objs, offer.Sizes = append(offer.Objs, b3.Sum(body)), append(offer.Sizes, int64(len(body)))
		var c wire.Copy
		c.Root = b3.Sum(body)
		about = append(about, c)
	}
	in := &intake{
		deps: &Deps{
			Store: s, Filter: policy.AllowAll{}, Shut: func() error { return nil },
			Pinned: func(context.Context, b3.Root, string) {},
			Copies: func(ctx context.Context, _ peer.ID, copies []wire.Copy) [][]byte {
				var pins []store.Pinning
				for _, c := range copies {
					opt := store.PinOptions{Label: origin, Target: meta.Target{Copies: 3, Seq: 1}}
					pins = append(pins, store.Pinning{Root: c.Root, Options: opt})
				}
				replies := make([][]byte, len(copies))
				for i, err := range s.PinAll(ctx, pins) {
					if err == nil {
						replies[i] = []byte("told")
					}
				}
				return replies
			},
		},
		offer: offer, objs: offer.Objs, about: about, op: capability.Replicate, pin: true, label: meta.ClusterLabel,
	}
	defer in.Close(ctx)
	wishes, err := in.Wishes(ctx)
	if err != nil {
		return nil
	}
	var done []int
	for i, w := range wishes {
		walk, err := b3.NewWalk(offer.Objs[i], offer.Sizes[i], nil)
		if err != nil || w != object.Wanted {
			t.Errorf("object %d: %d, %v", i, w, err)
			return nil
		}
		group, err := walk.Accept(bodies[i])
		if err == nil {
			err = in.Take(ctx, i, group)
		}
		if err == nil {
			done = append(done, i)
		}
	}
	there := map[int]bool{}
	errs, replies := in.Commit(ctx, done)
	for n, i := range done {
		if errs[n] == nil && len(replies) > n && len(replies[n]) > 0 {
			there[i] = true
		}
	}
	return there
}

// TestCopiesAreToldOnceStored: only of objects that are stored and pinned is anything taken over.
func TestCopiesAreToldOnceStored(t *testing.T) {
	t.Parallel()
	cfg := crashConfig()
	cfg.Quotas = []string{meta.ClusterLabel + "=1KiB"}
	s, _ := storetest.Start(t, cfg, store.Deps{FS: vfs.NewMem()})
	bodies := [][]byte{make([]byte, 500), make([]byte, 400), make([]byte, 300), make([]byte, 200)}
	for i := range bodies {
		bodies[i][0] = byte(i)
	}
	there := putCopies(t, s, bodies)
	if len(there) != 2 || !there[0] || !there[1] {
		t.Errorf("told of %v", there)
	}
	for i, body := range bodies {
		var labels []string
		for p, err := range s.PinsOf(t.Context(), b3.Sum(body)) {
			if err != nil {
				t.Fatal(err)
			}
			labels = append(labels, p.Label)
		}
		if want := []string{meta.ClusterLabel, origin}; there[i] != slices.Equal(labels, want) {
			t.Errorf("object %d has the pins %q", i, labels)
		}
	}
}
