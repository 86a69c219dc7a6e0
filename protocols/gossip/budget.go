package gossip

import (
	"context"
	"math"
	"sync"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/limits"
)

// account is what is known of a peer beside what pubsub knows.
type account struct {
	frames *limits.Rate

	mu       sync.Mutex
	offences float64 // at the time at, halved every offenceHalfLife
	at       time.Time
}

// offenceHalfLife is how fast offences are forgotten, like the invalid messages
// that pubsub counts.
const offenceHalfLife = 5 * time.Minute

func (a *account) decayed(now time.Time) float64 {
	return a.offences * math.Exp2(-now.Sub(a.at).Seconds()/offenceHalfLife.Seconds())
}

// offend notes a message that no honest node sends.
func (a *account) offend(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.offences, a.at = a.decayed(now)+1, now
}

// count is how many offences are not forgotten.
func (a *account) count(now time.Time) float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.decayed(now)
}

func (s *Service) account(p peer.ID) *account {
	if a, ok := s.peers.Get(p); ok {
		return a
	}
	a := &account{frames: s.buckets.Bucket()}
	if old, ok, _ := s.peers.PeekOrAdd(p, a); ok {
		return old
	}
	return a
}

// inspect cuts from what a peer sent the messages that are not looked at any
// further. It runs on pubsub's loop, before anything else does.
func (s *Service) inspect(ctx context.Context, from peer.ID, rpc *pubsub.RPC) {
	n := len(rpc.GetPublish())
	if n == 0 {
		return
	}
	s.m.rx.Add(float64(n))
	a := s.account(from)
	_, low := (*s.graylist.Load())[from]
	if low || a.count(time.Now()) > tolerated {
		// pubsub would drop them too, unless it has no stream to the peer and so no
		// score of it; and here they do not use up the budget of all.
		s.m.drop(dropGraylist, n)
		rpc.Publish = nil
		return
	}
	kept := rpc.Publish[:0]
	for _, m := range rpc.Publish {
		if reason := s.cut(ctx, a, m); reason != "" {
			s.m.drop(reason, 1)
			continue
		}
		kept = append(kept, m)
	}
	clear(rpc.Publish[len(kept):])
	rpc.Publish = kept
}

// cut is why a message is dropped unseen, or empty.
func (s *Service) cut(ctx context.Context, a *account, m *pb.Message) string {
	if _, ok := s.topics[m.GetTopic()]; !ok {
		a.offend(time.Now())
		return dropTopic
	}
	if string(m.GetFrom()) == string(s.host.ID()) {
		// After a restart peers still bring what this node said before. pubsub would
		// count that as lies of theirs.
		return dropSelf
	}
	size := len(m.GetData())
	if size > MaxMessage {
		a.offend(time.Now())
		return dropOversize
	}
	if !take(ctx, a.frames, cost(size)) {
		return dropBurst
	}
	if !take(ctx, s.total, cost(size)) {
		return dropTotal
	}
	return ""
}

// take takes n tokens if they are there now; it does not wait.
func take(ctx context.Context, r *limits.Rate, n int) bool {
	return r.Wait(ctx, n, 0) == nil
}
