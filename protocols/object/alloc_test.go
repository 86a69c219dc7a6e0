package object

import (
	"testing"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/oap"
)

// drain is a stream that takes everything.
type drain struct{ network.Stream }

func (drain) Write(p []byte) (int, error) { return len(p), nil }

// TestSendAllocs sends objects of few and of many groups: a group costs no
// allocation, a turn, which waits anew for its buffers, a few.
func TestSendAllocs(t *testing.T) {
	const few, many, turns, ofTurn = 8, framesPerFlush - 4, 8, 12
	p := newPair(t, testkit.Options{}, DefaultConfig())
	st, _ := testkit.Pipe(testkit.Options{})
	peer := p.server.peers.enter(clientID)
	defer p.server.peers.leave(clientID)
	in := &served{srv: p.server, out: newOutput(drain{st}, p.server.cfg.Load(), peer.egress, p.server.bounds.egress)}
	in.out.limit(oap.MaxFrame)
	allocs := func(groups int) float64 {
		root := p.store.put(make([]byte, groups*b3.GroupSize))
		req := &request{query: query{op: opGet, objs: []b3.Root{root}}}
		return testing.AllocsPerRun(10, func() {
			if err := in.get(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if err := in.out.flush(); err != nil {
				t.Fatal(err)
			}
		})
	}
	allocs(many)
	short, long := allocs(few), allocs(many)
	// A pool may be emptied on the way, and drops at random under the race detector.
	if long > short+(many-few)/4 {
		t.Errorf("%.0f allocations for %d groups, %.0f for %d", short, few, long, many)
	}
	if all := allocs(turns * framesPerFlush); all > short+turns*ofTurn {
		t.Errorf("%.0f allocations for %d turns, %.0f for %d groups", all, turns, short, few)
	}
}

// TestReceiveAllocs takes the frames of the same object.
func TestReceiveAllocs(t *testing.T) {
	const groups = 128
	data := make([]byte, groups*b3.GroupSize)
	frames := honest(t, 1, nil, false, data)
	req := &GetRequest{Objs: []b3.Root{b3.Sum(data)}}
	allocs := testing.AllocsPerRun(5, func() {
		a := &getAnswer{req: req, sink: &countSink{}, count: func(int) {}}
		for _, f := range frames {
			if _, err := a.frame(f); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs > groups/4 {
		t.Errorf("%.0f allocations for %d frames", allocs, groups)
	}
}
