package object

import (
	"testing"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/streamtest"
)

// drain is a stream that takes everything.
type drain struct{ network.Stream }

func (drain) Write(p []byte) (int, error) { return len(p), nil }

// TestSendAllocs sends an object of many groups: in steady state a frame costs
// no allocation.
func TestSendAllocs(t *testing.T) {
	const groups = 512
	p := newPair(t, streamtest.Options{}, DefaultConfig())
	root := p.store.put(make([]byte, groups*b3.GroupSize))
	st, _ := streamtest.Pipe(streamtest.Options{})
	peer := p.server.peers.enter(clientID)
	defer p.server.peers.leave(clientID)
	in := &inbound{srv: p.server, out: newOutput(drain{st}, p.server.cfg, peer.egress, p.server.egress)}
	in.out.limit(oap.MaxFrame)
	req := &request{query: query{op: opGet, objs: []b3.Root{root}}}
	allocs := testing.AllocsPerRun(5, func() {
		if err := in.get(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if err := in.out.flush(); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > groups/4 {
		t.Errorf("%.0f allocations for %d frames", allocs, groups)
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
