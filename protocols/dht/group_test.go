package dht

import (
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/dht/allowance"
	"allium/protocols/dht/messages"
)

// TestWhatAGroupIsAnswered: an IP group that has its share of what it asks for is
// refused with the code and the reason that protocols/oap/SPEC.md, §13.14, names.
func TestWhatAGroupIsAnswered(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := newProviderStore(20, 1000, 1000)
	for i := range 20 {
		if err := p.put(from("9.9.0.0/16", fmt.Sprint(i), "x", now, time.Hour), now); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.put(from("8.8.0.0/16", "honest", "x", now, time.Hour), now); err != nil {
		t.Errorf("a group without a record: %v", err)
	}
	b := newBench(t, allowance.DefaultConfig())
	defer b.stop()
	var beyond error
	for i := 0; beyond == nil; i++ {
		release, err := b.server.guard.Admit(t.Context(), peer.ID(fmt.Sprint(i)), "9.9.0.0/16", 1)
		if beyond = err; err == nil {
			defer release()
		}
	}
	for name, c := range map[string]struct {
		err    error
		code   uint64
		reason string
	}{
		"a record for a full key": {p.put(from("9.9.0.0/16", "one more", "x", now, time.Hour), now), 429, "full"},
		"a request":               {beyond, 429, "quota"},
	} {
		if got := messages.ErrorResponse(c.err); got.Code != c.code || got.Reason != c.reason {
			t.Errorf("%s: %d %q (%v), want %d %q", name, got.Code, got.Reason, c.err, c.code, c.reason)
		}
	}
	release, err := b.server.guard.Admit(t.Context(), "stranger", "8.8.0.0/16", 1)
	if err != nil {
		t.Fatalf("another group: %v", err)
	}
	release()
}
