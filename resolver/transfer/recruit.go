package transfer

import (
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/schedule"
)

// provider is a peer that may have the object.
type provider struct {
	id         peer.ID
	number     schedule.ProviderID
	throughput *providers.Throughput
}

// found is the answer to a search for one more candidate. ok is false when there is
// no other.
type found struct {
	peer peer.AddrInfo
	ok   bool
}

// heard is a provider's answer to the question of how much of the object it has.
type heard struct {
	by     schedule.ProviderID
	have   b3.Presence
	groups []byte
	err    error
}

// supply is the providers of a transfer, and the search for others.
type supply struct {
	*drive
	peers  []*provider // by schedule.ProviderID
	need   chan struct{}
	found  chan found
	heard  chan heard
	looked chan struct{}
}

// recruit waits for the driver's requests on need and answers each with the next
// candidate.
func (s *supply) recruit() {
	for i := 0; ; {
		select {
		case <-s.need:
		case <-s.work.Done():
			return
		}
		p, ok, err := s.t.src.At(s.work, i)
		if err != nil { // the transfer has ended
			return
		}
		if ok {
			i++
		}
		if !send(s.work, s.found, found{p, ok}) {
			return
		}
	}
}

// addProvider makes a candidate a provider of the transfer.
func (s *supply) addProvider(f found) {
	if !f.ok {
		s.m.NoneFound()
		return
	}
	s.set.pool.AddAddrs(f.peer)
	s.peers = append(s.peers, &provider{
		id: f.peer.ID, number: schedule.ProviderID(len(s.peers)), throughput: s.set.pool.Throughput(f.peer.ID),
	})
	s.m.Found()
}

// renew lets the search begin again, and the connections to the providers.
func (s *supply) renew() {
	s.t.src.Renew()
	for _, p := range s.peers {
		s.set.pool.Redial(p.id)
	}
}

// look looks for the object among connected peers.
func (s *supply) look() {
	s.wg.Go(func() {
		s.t.src.Look(s.work)
		send(s.work, s.looked, struct{}{})
	})
}

// returned tells the machine which providers have connected.
func (s *supply) returned(connected []peer.ID) {
	for _, id := range connected {
		if i := slices.IndexFunc(s.peers, func(p *provider) bool { return p.id == id }); i >= 0 {
			s.m.Returned(s.now(), schedule.ProviderID(i))
		}
	}
}

// measured tells the machine the throughput of the providers.
func (s *supply) measured() {
	for _, p := range s.peers {
		rate, rtt := p.throughput.Measured()
		s.m.Measured(p.number, rate, rtt)
	}
}

// A peer answers for a window of the schedule at once; this does not compile if it is larger than it answers for.
const _ = uint(object.MaxGroups - schedule.Window)

// question asks a provider which groups of the window from a group on it has.
func (s *supply) question(id schedule.ProviderID, from int64) {
	by := s.peers[id].id
	s.wg.Go(func() {
		h := heard{by: id}
		h.err = s.set.pool.Guard(s.t.trace.ID().String(), func() (err error) {
			h.have, h.groups, err = s.set.pool.Held(s.work, by, s.t.root, from, from+schedule.Window)
			return err
		})
		send(s.work, s.heard, h)
	})
}

// hear takes the answer to a question. A peer that has nothing to offer is not asked again.
func (s *supply) hear(h heard) {
	answer := schedule.Holding{Failed: h.err != nil, Presence: h.have, Groups: h.groups}
	if !s.m.Heard(s.now(), h.by, answer) {
		return
	}
	by := s.peers[h.by].id
	if h.err != nil {
		s.attempts.Note(by, h.err)
	}
	noteHeard(s.t.trace, by, h)
	s.away(h.by, h.err)
	switch {
	case h.err != nil:
	case h.have == b3.Complete: // a holder of a shard lacks the others now
		s.m.Away(h.by)
	default:
		s.t.src.Refuted(by, status.Errorf(status.NotFound, "the provider has no part of the object"))
	}
}
