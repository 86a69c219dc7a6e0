package gossip

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/testkit/simnet"
)

// TestTwinThatIsGone: a node with the identity of another runs for some seconds. Both are told, and within ten
// seconds after it stopped, messages arrive in both directions again.
func TestTwinThatIsGone(t *testing.T) {
	for _, dialer := range []string{"original", "neighbour"} {
		t.Run(dialer+" dialled", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testTwin(t, dialer == "original") })
		})
	}
}

func testTwin(t *testing.T, originalDials bool) {
	sn := simnet.New(t, func(_, _ string) time.Duration { return 10 * time.Millisecond })
	defer sn.Close()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	otherKey, _, otherErr := crypto.GenerateEd25519Key(rand.Reader)
	if err := errors.Join(err, otherErr); err != nil {
		t.Fatal(err)
	}
	original := sn.Add(key, "1.0.0.1")
	neighbour := sn.Add(otherKey, "1.0.0.2")
	copied := sn.Add(key, "1.0.0.3")
	sn.Start()
	a, b := start(t, original, nil), start(t, neighbour, nil)
	defer a.stop()
	defer b.stop()
	var told atomic.Int32
	a.twin = func(peer.ID) { told.Add(1) }
	if originalDials {
		sn.Connect(0, 1)
	} else {
		sn.Connect(1, 0)
	}
	heard := func(from, at *node, data string) bool {
		if err := from.Publish(t.Context(), testTopic, []byte(data)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		_, ok := at.has(data)
		return ok
	}
	time.Sleep(5 * time.Second)
	if !heard(a, b, "before") || !heard(b, a, "before too") {
		t.Fatal("the nodes do not hear each other")
	}
	c := start(t, copied, nil)
	sn.Connect(2, 1)
	for i := range 6 { // each of the two sends, so that their streams end each other
		heard(c, b, fmt.Sprint("twin ", i))
		heard(a, b, fmt.Sprint("original ", i))
	}
	c.stop()
	if err := copied.Close(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
	if !heard(a, b, "after") {
		t.Error("the neighbour does not hear the original")
	}
	if !heard(b, a, "after too") {
		t.Error("the original does not hear the neighbour")
	}
	if told.Load() == 0 {
		t.Error("the original was not told of its twin")
	}
}

// TestSilentPeerIsLeftAlone: gossip with a peer that follows nothing any more is begun anew a few times, and
// again after it followed a topic.
func TestSilentPeerIsLeftAlone(t *testing.T) {
	l, now := newLinks(), time.Unix(0, 0)
	conns, follows := map[peer.ID]int{"p": 1}, map[peer.ID]struct{}{"p": {}}
	for round := range 2 {
		l.look(now, follows, conns)
		tries := 0
		for range 3600 {
			now = now.Add(time.Second)
			tries += len(l.look(now, nil, conns))
		}
		if tries != maxTries {
			t.Errorf("round %d: %d tries, want %d", round, tries, maxTries)
		}
	}
}
