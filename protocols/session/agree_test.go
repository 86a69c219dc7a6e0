package session

import (
	"fmt"
	"sync"
	"testing"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/network"

	"allium/protocols/oap"
)

// namedConn is a connection that has nothing but an id.
type namedConn struct {
	network.Conn
	id string
}

func (c namedConn) ID() string { return c.id }

// TestAgreeAtOnce: of what the HELLOs of two sessions of a connection agree on at
// the same time the smaller max_frame holds, in whatever order they end.
func TestAgreeAtOnce(t *testing.T) {
	s := &Service{}
	var err error
	if s.maxFrames, err = lru.New[string, uint32](16); err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		c := namedConn{id: fmt.Sprint(i)}
		var wg sync.WaitGroup
		for _, n := range []uint32{oap.MinMaxFrame, 2 * oap.MinMaxFrame, 4 * oap.MinMaxFrame} {
			wg.Go(func() { s.recordMaxFrame(c, n) })
		}
		wg.Wait()
		if got := s.MaxFrame(c); got != oap.MinMaxFrame {
			t.Fatalf("round %d: %d holds, want %d", i, got, oap.MinMaxFrame)
		}
	}
}
