package transfer

import (
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
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
	by   schedule.ProviderID
	have b3.Presence
	err  error
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

// question asks a provider how much of the object it has.
func (d *driver) question(id schedule.ProviderID) {
	by := d.peers[id].id
	d.wg.Go(func() {
		h := heard{by: id}
		h.have, h.err = d.set.pool.Have(d.work, by, d.t.root)
		select {
		case d.heard <- h:
		case <-d.work.Done():
		}
	})
}
