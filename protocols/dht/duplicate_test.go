package dht

import (
	"testing"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/b3"
	"allium/protocols/dht/messages"
)

// TestElsewhere: a record of this node's identity counts as another process's
// when its number is of after the start and was not given out here.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	me, other := newIdentity(t), newIdentity(t)
	start := time.UnixMilli(1_700_000_000_000)
	told := 0
	s := &signer{self: me.id, started: start,
		deps: Deps{DuplicateIdentity: func(signed time.Time, addrs []ma.Multiaddr) {
			if told++; len(addrs) == 0 || signed.Before(start) {
				t.Errorf("told of %v, %v", signed, addrs)
			}
		}}}
	later := uint64(start.Add(time.Hour).UnixMilli())
	end := time.Now().Add(time.Hour)
	open := func(i identity, seq uint64) {
		t.Helper()
		made := i.seal(t, b3.Root{1}, seq, end)
		rec, err := messages.Open(made.Envelope, made.PeerRecord, b3.Root{1}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		s.checkDuplicate(rec)
	}
	for _, c := range []struct {
		name   string
		by     identity
		seq    uint64
		issued uint64
		want   int
	}{
		{"another peer's", other, later, 0, 0},
		{"of an earlier run", me, uint64(start.Add(-time.Hour).UnixMilli()), 0, 0},
		{"of a burst of an earlier run", me, uint64(start.Add(time.Minute).UnixMilli()), 0, 0},
		{"made here", me, later, later + 7, 0},
		{"made elsewhere", me, later, 0, 1},
		{"made elsewhere, after ours", me, later, later - 1, 1},
	} {
		told = 0
		s.seq.Store(c.issued)
		if open(c.by, c.seq); told != c.want {
			t.Errorf("%s: told %d times, want %d", c.name, told, c.want)
		}
	}
}
