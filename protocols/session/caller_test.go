package session_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/testkit"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// acceptor makes a host whose session streams come to the test.
func acceptor(t testing.TB, net *testkit.Network, id peer.ID) <-chan *wire {
	wires := make(chan *wire, 8)
	net.Host(id).SetStreamHandler(session.ProtocolID, func(s network.Stream) {
		wires <- newWire(t, s.(*testkit.Stream))
	})
	return wires
}

// greet answers HELLO.
func (w *wire) greet(maxInflight int) {
	w.t.Helper()
	f := w.recv()
	if f.Flags != whole || f.CorrID != 0 {
		w.t.Fatalf("first frame %+v", f.Header)
	}
	h, err := oap.DecodeHelloRequest(f.Payload)
	if err != nil || h.UA != "allium/test" {
		w.t.Fatalf("%+v, %v", h, err)
	}
	w.answer(0, 200, fmt.Sprintf(`{"max_frame":262144,"max_inflight":%d,"credit_window":64,`+
		`"flags_supported":255,"versions":[1,2],"transports":[]}`, maxInflight))
}

func (w *wire) answer(corr uint64, code uint16, payload string) {
	w.t.Helper()
	proto := oap.ProtoIndex
	if corr == 0 {
		proto = oap.ProtoControl
	}
	w.send(oap.Header{Flags: oap.FlagResp | oap.FlagEnd, Code: code, Proto: proto, CorrID: corr}, payload)
}

// calls makes Calls in the background.
type calls struct {
	n  *node
	wg sync.WaitGroup
}

// result is what one call gave.
type result struct {
	payload string
	err     error
	took    time.Duration
}

// go1 starts a call to "b"; the result is there after wait.
func (c *calls) go1(ctx context.Context, payload string) *result {
	r := &result{}
	c.wg.Go(func() {
		start := time.Now()
		p, err := c.n.Call(ctx, "b", oap.ProtoIndex, []byte(payload))
		*r = result{string(p), err, time.Since(start)}
	})
	synctest.Wait()
	return r
}

func (r *result) want(t *testing.T, o status.Outcome, in string) {
	t.Helper()
	text := r.payload
	if r.err != nil {
		text = r.err.Error()
	}
	if got := status.Of(r.err); got != o || !strings.Contains(text, in) {
		t.Errorf("got %s: %s; want %s with %q", got, text, o, in)
	}
}
