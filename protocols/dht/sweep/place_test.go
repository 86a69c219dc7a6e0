package sweep

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/status"
)

func testPlacer(t *testing.T, put func(context.Context, peer.ID, b3.Root) error, done func(b3.Root)) *placer {
	t.Helper()
	m, err := newMetrics(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return newPlacer(t.Context(), pace, Deps{Put: put}, done, m)
}

// TestPlacerSends: a root goes once to its closest, however often the library
// asks; what failed is tried again after a while.
func TestPlacerSends(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(200, 0)
		done := 0
		p := testPlacer(t, w.put, func(b3.Root) { done++ })
		if err := p.publish(t.Context(), object(1)); status.Of(err) != status.NoBootstrap {
			t.Errorf("without peers: %v", err)
		}
		p.saw(w.peers)
		msg := pb.NewMessage(pb.Message_ADD_PROVIDER, object(2).Multihash(), 0)
		for range 20 {
			if err := (sender{p}).SendMessage(t.Context(), "whoever", msg); err != nil {
				t.Fatal(err)
			}
		}
		want := w.closest(string(object(2).Multihash()), 20)
		if got := p.closest(object(2)); !slices.Equal(got, want) {
			t.Errorf("closest: %v", got)
		}
		if _, acks := w.published(); acks != 20 || done != 1 {
			t.Errorf("%d PUTs, done %d times", acks, done)
		}
		w.set(func() { w.down = true })
		for range 5 {
			if err := p.publish(t.Context(), object(3)); err == nil {
				t.Error("published into a network that is down")
			}
		}
		if got := testutil.ToFloat64(p.m.republish.WithLabelValues("failed")); got != 20 {
			t.Errorf("%v PUTs failed", got)
		}
		w.set(func() { w.down = false })
		time.Sleep(retryAfter)
		if err := p.publish(t.Context(), object(3)); err != nil || done != 2 {
			t.Errorf("afterwards: %v, done %d times", err, done)
		}
		for _, bad := range []*pb.Message{
			pb.NewMessage(pb.Message_FIND_NODE, nil, 0), pb.NewMessage(pb.Message_ADD_PROVIDER, []byte("x"), 0),
		} {
			if (sender{p}).SendMessage(t.Context(), "whoever", bad) == nil {
				t.Errorf("sent %v", bad)
			}
		}
	})
}

// TestPlacerPassesOverTheDead: a peer that fails is replaced by the next
// closest, until a lookup finds it again.
func TestPlacerPassesOverTheDead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(25, 0)
		dead := w.closest(string(object(0).Multihash()), 1)[0]
		w.refuse = func(p peer.ID, _ b3.Root) bool { return p == dead }
		p := testPlacer(t, w.put, func(b3.Root) {})
		p.saw(w.peers)
		for range maxFails {
			if !slices.Contains(p.closest(object(0)), dead) {
				t.Fatal("given up too early")
			}
			p.judge(dead, false)
		}
		if got := p.closest(object(0)); len(got) != 20 || slices.Contains(got, dead) {
			t.Errorf("%d peers, the dead one among them: %v", len(got), slices.Contains(got, dead))
		}
		p.saw(w.peers)
		if !slices.Contains(p.closest(object(0)), dead) {
			t.Error("not taken back")
		}
	})
}

// TestRecent: entries live as long as they should and are never too many.
func TestRecent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := recent[string, int]{most: rapid.IntRange(2, 20).Draw(t, "most"), life: time.Hour}
		now := time.Unix(1_800_000_000, 0)
		put := map[string]time.Time{}
		for i := range rapid.IntRange(0, 100).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "pass")) * time.Minute)
			k := fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "key"))
			if rapid.Bool().Draw(t, "put") {
				r.put(k, i, now)
				put[k] = now
				if v, ok := r.get(k, now); !ok || v != i {
					t.Fatal("not there after it was put")
				}
			}
			_, ok := r.get(k, now)
			if ok && now.Sub(put[k]) >= r.life {
				t.Fatalf("there after %s", now.Sub(put[k]))
			}
			n, fresh := 0, 0
			for k := range r.all() {
				n++
				if now.Sub(put[k]) < r.life/2 {
					fresh++
				}
			}
			want := 0
			for _, at := range put {
				if now.Sub(at) < r.life/2 {
					want++
				}
			}
			if n > r.most || want <= r.most/2 && fresh < want {
				t.Fatalf("%d of %d entries; %d of %d fresh ones", n, r.most, fresh, want)
			}
		}
	})
}

func BenchmarkClosest(b *testing.B) {
	w := newWorld(10_000, 0)
	m, _ := newMetrics(nil, nil)
	p := newPlacer(b.Context(), pace, Deps{Put: w.put}, func(b3.Root) {}, m)
	p.saw(w.peers)
	for i := 0; b.Loop(); i++ {
		p.closest(object(i))
	}
}
