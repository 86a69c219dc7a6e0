package seeds

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// fakeSeeds answers what seeds are asked.
type fakeSeeds struct {
	start time.Time

	mu      sync.Mutex
	answer  []peer.AddrInfo
	err     error
	hang    bool
	asked   []time.Duration // since start
	learned [][]peer.AddrInfo
}

func (f *fakeSeeds) ask(ctx context.Context, _ peer.ID) ([]peer.AddrInfo, error) {
	f.mu.Lock()
	f.asked = append(f.asked, time.Since(f.start))
	answer, err, hang := f.answer, f.err, f.hang
	f.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return answer, err
}

func (f *fakeSeeds) learn(_ peer.ID, peers []peer.AddrInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.learned = append(f.learned, peers)
}

func (f *fakeSeeds) set(change func(*fakeSeeds)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeSeeds) times() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

// TestAsk: a seed is asked when it is connected, also when it called us, and
// again over a new connection, at most every ten minutes.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, seeds := newFakeDialer(), peers(t, 0, 1)
		id := seeds[0].ID
		_, self := identity(t, 99)
		answer := peers(t, 1, 40)
		f := &fakeSeeds{start: time.Now(), answer: slices.Concat(
			[]peer.AddrInfo{
				{ID: self, Addrs: answer[0].Addrs},
				seeds[0],
				{ID: "x", Addrs: answer[0].Addrs},
				{ID: answer[30].ID},
				answer[0],
				answer[0],
			},
			answer[1:],
		)}
		b := begin(t, configOf(t, seeds), Deps{Dialer: d, Self: self, Ask: f.ask, Learned: f.learn})
		d.mu.Lock()
		d.conns[id], d.up[id] = true, true // it called us
		d.mu.Unlock()
		time.Sleep(6 * time.Minute)
		if len(f.times()) != 1 || len(f.learned) != 1 || !slices.Equal(idsOf(f.learned[0]), idsOf(answer[:maxGiven])) {
			t.Fatalf("asked at %v, learned %v", f.times(), f.learned)
		}
		if s := b.Seeds()[0]; !slices.Equal(s.Gave, idsOf(answer[:maxGiven])) || s.GaveAt.IsZero() {
			t.Errorf("%+v", s)
		}
		for range 20 { // a new connection every two minutes
			d.set(false, id)
			d.set(true, id)
			time.Sleep(2 * time.Minute)
		}
		asked := f.times()
		if len(asked) < 3 || len(asked) > 5 {
			t.Errorf("asked at %v", asked)
		}
		for i := 1; i < len(asked); i++ {
			if asked[i]-asked[i-1] < askEvery {
				t.Errorf("asked again after %s", asked[i]-asked[i-1])
			}
		}
		last := len(f.times())
		time.Sleep(20 * time.Minute)
		if n := len(f.times()); n > last+1 { // one may have been due for the last of the connections
			t.Errorf("asked %d times over one connection", n-last)
		}
	})
}

// TestAskFails: a seed that does not answer, or knows nobody, is asked again
// later; a hanging one has three seconds.
func TestAskFails(t *testing.T) {
	for name, f := range map[string]*fakeSeeds{
		"error":  {err: errors.New("no")},
		"nobody": {},
		"hangs":  {hang: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, seeds := newFakeDialer(), peers(t, 0, 1)
				d.set(true, seeds[0].ID)
				f.start = time.Now()
				b := begin(t, configOf(t, seeds), Deps{Dialer: d, Ask: f.ask, Learned: f.learn})
				time.Sleep(askTimeout + time.Second)
				if s := b.Seeds()[0]; !s.Connected || len(s.Gave) != 0 || len(f.times()) != 1 {
					t.Errorf("%+v, asked at %v", s, f.times())
				}
				f.set(func(f *fakeSeeds) { f.err, f.hang, f.answer = nil, false, peers(t, 1, 3) })
				time.Sleep(16*time.Minute + 10*time.Second)
				asked := f.times()
				if len(asked) != 2 || asked[1]-asked[0] < askEvery || len(f.learned) != 1 ||
					len(b.Seeds()[0].Gave) != 2 {
					t.Errorf("asked at %v, learned %v", asked, f.learned)
				}
			})
		})
	}
}

func TestGivenBoundsAddresses(t *testing.T) {
	var many []ma.Multiaddr
	for _, p := range peers(t, 0, 30) {
		many = append(many, p.Addrs[0], p.Addrs[0])
	}
	b, err := New(Config{}, Deps{Self: "me", Dialer: newFakeDialer()})
	if err != nil {
		t.Fatal(err)
	}
	got := b.given("seed", []peer.AddrInfo{{ID: peers(t, 0, 1)[0].ID, Addrs: many}})
	if len(got) != 1 || len(got[0].Addrs) != maxSeedAddrs {
		t.Errorf("got %v", got)
	}
}
