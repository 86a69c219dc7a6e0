package transfer

import (
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

// recruit waits for the driver's requests on need and answers each with the next
// candidate.
func (d *driver) recruit() {
	for i := 0; ; {
		select {
		case <-d.need:
		case <-d.work.Done():
			return
		}
		p, ok, err := d.t.src.At(d.work, i)
		if err != nil { // the transfer has ended
			return
		}
		if ok {
			i++
		}
		select {
		case d.found <- found{p, ok}:
		case <-d.work.Done():
			return
		}
	}
}

// addProvider makes a candidate a provider of the transfer.
func (d *driver) addProvider(f found) {
	if !f.ok {
		d.m.NoneFound()
		return
	}
	d.set.pool.AddAddrs(f.peer)
	d.peers = append(d.peers, &provider{id: f.peer.ID, throughput: d.set.pool.Throughput(f.peer.ID)})
	d.m.Found()
}

// A peer answers for a window of the schedule at once; this does not compile if it is larger than it answers for.
const _ = uint(object.MaxGroups - schedule.Window)

// question asks a provider which groups of the window from a group on it has.
func (d *driver) question(id schedule.ProviderID, from int64) {
	by := d.peers[id].id
	d.wg.Go(func() {
		h := heard{by: id}
		h.err = d.set.pool.Guard(d.t.lookupID, func() (err error) {
			h.have, h.groups, err = d.set.pool.Held(d.work, by, d.t.root, from, from+schedule.Window)
			return err
		})
		select {
		case d.heard <- h:
		case <-d.work.Done():
		}
	})
}

// hear takes the answer to a question. A peer that has nothing to offer is not asked again.
func (d *driver) hear(h heard) {
	answer := schedule.Holding{Failed: h.err != nil, Presence: h.have, Groups: h.groups}
	if !d.m.Heard(d.now(), h.by, answer) {
		return
	}
	by := d.peers[h.by].id
	if h.err != nil {
		d.attempts.Note(by, h.err)
	}
	noteHeard(d.t.trace, by, h)
	d.away(h.by, h.err)
	switch {
	case h.err != nil:
	case h.have == b3.Complete: // a holder of a shard lacks the others now
		d.m.Away(h.by)
	default:
		d.t.src.Refuted(by, status.Errorf(status.NotFound, "the provider has no part of the object"))
	}
}
