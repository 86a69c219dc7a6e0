package gossip

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// TestReports: a peer is reported once an hour, whether it stays connected or not, and the log says it of all peers
// once a minute.
func TestReports(t *testing.T) {
	t.Parallel()
	l, now := newLinks(), time.Unix(1_800_000_000, 0)
	reports, lines := 0, 0
	for i := range 3600 {
		now = now.Add(time.Second)
		if l.ended("a", now) {
			reports++
		}
		for _, id := range []peer.ID{"b", peer.ID(rune(i / 4))} {
			if l.ended(id, now) && l.warn(now) {
				lines++
			}
		}
		l.look(now, nil, nil) // it is not connected
	}
	if reports != 1 || lines < 2 || lines > 60 || l.twins.Len() > maxTwins {
		t.Errorf("%d reports of one peer, %d lines, %d peers", reports, lines, l.twins.Len())
	}
}
