package reach

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"allium/protocols/status"
)

// Bulk opens streams for bulk. A relayed connection is for meeting: Bulk first waits for a direct one, for at
// most bulkWait. Then it takes the relayed one, up to the limit of the relay, and
// no other one to the same peer for bulkAgain.
type Bulk struct {
	host host.Host // set by Attach
	m    *metrics

	mu       sync.Mutex // lock: leaf
	used     *simplelru.LRU[peer.ID, circuit]
	redialed *simplelru.LRU[peer.ID, redialed] // the latest of each peer
}

// circuit is a relayed connection that carried bulk.
type circuit struct {
	id    string // of the connection
	since time.Time
}

// redialed is a relayed connection that was replaced by a new one.
type redialed struct {
	at    time.Time
	until time.Time // for so long a direct connection is waited for
}

func newBulk(m *metrics) (*Bulk, error) {
	used, err := simplelru.NewLRU[peer.ID, circuit](maxBulk, nil)
	if err != nil {
		return nil, err
	}
	latest, err := simplelru.NewLRU[peer.ID, redialed](maxBulk, nil)
	return &Bulk{m: m, used: used, redialed: latest}, err
}

// Bulk returns what opens streams for bulk on the attached host.
func (s *Service) Bulk() *Bulk { return s.bulk }

// NewStream opens a stream to p. It returns status.TransportDown with what to do if only a relay leads to p
// and a circuit was used up.
func (b *Bulk) NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error) {
	end := time.Now().Add(bulkWait)
	limited := b.host.Network().Connectedness(p) == network.Limited
	if !limited {
		// The dial may lead to a relayed connection, for which NewStream would wait.
		if err := b.host.Connect(ctx, peer.AddrInfo{ID: p}); err != nil {
			return nil, err
		}
		limited = b.host.Network().Connectedness(p) == network.Limited
	}
	if !limited {
		return b.host.NewStream(ctx, p, ids...)
	}
	waited, spent := b.state(p, time.Now())
	if !waited {
		s, err := b.waitDirect(ctx, p, spent, end, ids)
		switch {
		case err == nil:
			b.m.bulk.WithLabelValues("direct").Inc()
			return s, nil
		case ctx.Err() != nil, b.host.Network().Connectedness(p) == network.NotConnected:
			return nil, err
		}
	}
	s, err := b.host.NewStream(network.WithAllowLimitedConn(ctx, "allium bulk"), p, ids...)
	if err != nil || !s.Conn().Stat().Limited {
		return s, err
	}
	if !b.admit(p, s.Conn().ID(), time.Now()) {
		_ = s.Reset()
		b.m.bulk.WithLabelValues("refused").Inc()
		return nil, errUsedUp
	}
	b.m.bulk.WithLabelValues("relayed").Inc()
	return s, nil
}

// waitDirect waits until end for a direct connection to p, and opens a stream on it. If the relayed one is not
// worth the wait, because its circuit is spent and a hole was just tried, it does not wait.
func (b *Bulk) waitDirect(
	ctx context.Context, p peer.ID, spent bool, end time.Time, ids []protocol.ID,
) (network.Stream, error) {
	if spent && b.justRedialed(p, time.Now()) {
		return nil, errUsedUp
	}
	s, err := b.direct(ctx, p, min(firstWait-b.age(p), time.Until(end)), ids)
	if err != nil && b.redial(ctx, p, end) {
		s, err = b.direct(ctx, p, time.Until(end), ids)
	}
	return s, err
}

// direct waits for a direct connection to p, at most for d, and opens a stream on it.
func (b *Bulk) direct(ctx context.Context, p peer.ID, d time.Duration, ids []protocol.ID) (network.Stream, error) {
	ctx, cancel := context.WithTimeout(network.WithNoDial(ctx, "allium bulk"), d)
	defer cancel()
	return b.host.NewStream(ctx, p, ids...)
}

// age returns how long there has been a connection to p.
func (b *Bulk) age(p peer.ID) (oldest time.Duration) {
	for _, c := range b.host.Network().ConnsToPeer(p) {
		oldest = max(oldest, time.Since(c.Stat().Opened))
	}
	return oldest
}

// redial replaces the relayed connection to p by a new one, at most once in redialGap, and reports whether it
// did. The caller waits for a direct one until end. The library tries to punch a hole only when a relayed
// connection begins. That is too early for a node that has just started: it does not know yet how others see it.
func (b *Bulk) redial(ctx context.Context, p peer.ID, end time.Time) bool {
	now := time.Now()
	b.mu.Lock()
	last, ok := b.redialed.Get(p)
	due := !ok || now.Sub(last.at) >= redialGap
	if due {
		b.redialed.Add(p, redialed{now, end})
	}
	b.mu.Unlock()
	switch {
	case due:
		for _, c := range b.host.Network().ConnsToPeer(p) {
			if c.Stat().Limited {
				_ = c.Close() // only the relay's stream is closed
			}
		}
	case !now.Before(last.until):
		return false
	} // else another stream has just dialled again, and this one waits too
	return b.host.Connect(network.WithAllowLimitedConn(ctx, "allium bulk"), peer.AddrInfo{ID: p}) == nil
}

// errUsedUp says what to do when only a relay leads to a peer. Waiting does not help: see bulkAgain.
var errUsedUp = &status.Error{
	Outcome: status.TransportDown,
	Message: "only a relay leads to the peer, and the relay's limit is used up: open or forward a port on either " +
		"side (`allium doctor reach` says which), then run the same command again: it resumes",
	Lasting: true,
}

// justRedialed reports whether redial did its work less than redialGap ago, in vain.
func (b *Bulk) justRedialed(p peer.ID, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	last, ok := b.redialed.Peek(p)
	return ok && !now.Before(last.until) && now.Sub(last.at) < redialGap
}

// state reports whether bulk to p already takes the relayed connection that there is (waited), or took another
// one less than bulkAgain ago (spent).
func (b *Bulk) state(p peer.ID, now time.Time) (waited, spent bool) {
	b.mu.Lock()
	c, ok := b.used.Peek(p)
	b.mu.Unlock()
	if !ok {
		return false, false
	}
	for _, conn := range b.host.Network().ConnsToPeer(p) {
		if conn.ID() == c.id {
			return true, false
		}
	}
	return false, now.Sub(c.since) < bulkAgain
}

// admit reports whether bulk to p may take a relayed connection: it is the one that was taken before, or none
// was taken for bulkAgain.
func (b *Bulk) admit(p peer.ID, conn string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := b.used.Get(p); ok && c.id != conn && now.Sub(c.since) < bulkAgain {
		return false
	}
	b.used.Add(p, circuit{conn, now})
	return true
}
