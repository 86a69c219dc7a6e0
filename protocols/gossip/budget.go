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

// peerState is the state of a peer that this package remembers, besides pubsub's score: its budget
// of frames and its offences. An offence is a message that no honest node sends.
type peerState struct {
	frames *limits.Rate

	mu       sync.Mutex // lock: leaf
	offences float64    // as of updated; halves every offenceHalfLife
	updated  time.Time  // of the last offence
}

// offenceHalfLife is the time in which a count of offences halves. pubsub's count of invalid
// messages decays at the same rate.
const offenceHalfLife = 5 * time.Minute

// decayed returns the offences that are left at now. The caller holds mu.
func (p *peerState) decayed(now time.Time) float64 {
	return p.offences * math.Exp2(-now.Sub(p.updated).Seconds()/offenceHalfLife.Seconds())
}

// addOffence counts one offence at now.
func (p *peerState) addOffence(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offences, p.updated = p.decayed(now)+1, now
}

// offencesAt returns the offences that are left at now.
func (p *peerState) offencesAt(now time.Time) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.decayed(now)
}

// peerState returns the state of a peer, which it makes if there is none.
func (s *Service) peerState(id peer.ID) *peerState {
	if p, ok := s.peers.Get(id); ok {
		return p
	}
	p := &peerState{frames: s.rates.buckets.Member()}
	if existing, ok, _ := s.peers.PeekOrAdd(id, p); ok {
		return existing
	}
	return p
}

// inspect removes from rpc the messages that are dropped before their signatures are checked, and
// counts them. It runs on pubsub's loop, before pubsub looks at the messages.
func (s *Service) inspect(ctx context.Context, from peer.ID, rpc *pubsub.RPC) {
	n := len(rpc.GetPublish())
	if n == 0 {
		return
	}
	s.m.rx.Add(float64(n))
	p := s.peerState(from)
	_, graylisted := (*s.graylist.Load())[from]
	if graylisted || p.offencesAt(time.Now()) > maxOffences {
		// pubsub drops these messages too, but only if it has a stream to the peer and so a
		// score. Dropped here, they take nothing from the budget of all peers.
		s.m.drop(dropGraylist, n)
		rpc.Publish = nil
		return
	}
	accepted := rpc.Publish[:0]
	for _, m := range rpc.Publish {
		if reason := s.dropReason(ctx, p, m); reason != "" {
			s.m.drop(reason, 1)
			continue
		}
		accepted = append(accepted, m)
	}
	clear(rpc.Publish[len(accepted):])
	rpc.Publish = accepted
}

// dropReason returns why a message from the peer with state p is dropped, or "" if it is not. It
// takes the message's cost from both budgets and counts offences of the peer.
func (s *Service) dropReason(ctx context.Context, p *peerState, m *pb.Message) string {
	if _, ok := s.topics[m.GetTopic()]; !ok {
		p.addOffence(time.Now())
		return dropTopic
	}
	if string(m.GetFrom()) == string(s.host.ID()) {
		// After a restart, peers still relay messages that this node published before.
		// pubsub would count them as invalid messages of those peers.
		return dropSelf
	}
	size := len(m.GetData())
	if size > MaxMessage {
		p.addOffence(time.Now())
		return dropOversize
	}
	if !takeNow(ctx, p.frames, cost(size)) {
		return dropBurst
	}
	if !takeNow(ctx, s.rates.total, cost(size)) {
		return dropTotal
	}
	return ""
}

// takeNow takes n tokens and returns true, or takes none and returns false. It does not wait.
func takeNow(ctx context.Context, r *limits.Rate, n int) bool {
	return r.Wait(ctx, n, 0) == nil
}
