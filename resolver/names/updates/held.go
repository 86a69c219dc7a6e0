package updates

import (
	"cmp"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/name"
)

// Bounds of the records that are held back. A record has at most name.MaxEnvelope bytes.
const (
	maxOwn    = 1024 // of this node
	maxOthers = 512  // of other nodes
	maxOfPeer = 64   // that one peer sent
	maxOfZone = 64   // of one zone, of other nodes
)

// heldRecord is a record that waits to be sent.
type heldRecord struct {
	rec   name.Signed
	via   peer.ID   // who sent it; empty: this node publishes it
	due   time.Time // when it is sent
	until time.Time // when it is dropped if it could not be sent

	learned bool // this node has taken it up
}

// held is the newest record of each name that waits to be sent. It is not safe for concurrent use.
type held struct {
	records map[name.Name]heldRecord
	ofPeer  map[peer.ID]int // how many records of each peer wait; the empty ID stands for this node
	ofZone  map[name.Zone]int
	bytes   int64
	dropped int // records that were not sent in time, or made place for others

	turn   uint64
	served map[peer.ID]uint64 // the latest turn of each peer whose records wait
}

func newHeld() *held {
	return &held{
		records: map[name.Name]heldRecord{}, ofPeer: map[peer.ID]int{}, ofZone: map[name.Zone]int{},
		served: map[peer.ID]uint64{},
	}
}

// seq returns the sequence number of the record of a name that waits, 0 for none.
func (h *held) seq(n name.Name) uint64 { return h.records[n].rec.Seq }

// put holds a record in place of an older one of its name. It returns false if there is no place: this
// node, the peer or the zone has its share already. When all places of other nodes are taken, the peer with
// the most records loses its latest one to a peer with fewer.
func (h *held) put(r heldRecord) bool {
	old, known := h.records[r.rec.Name]
	switch {
	case known && old.rec.Seq >= r.rec.Seq:
		return true
	case known:
		h.remove(old)
		if old.via == "" || !h.fits(r) {
			r.via = old.via
		}
		if old.due.Before(r.due) {
			r.due = old.due
		}
	case !h.fits(r):
		return false
	}
	h.add(r)
	return true
}

// fits reports whether there is a place for a record, and makes one if a peer has more than its share.
func (h *held) fits(r heldRecord) bool {
	if r.via == "" {
		return h.ofPeer[""] < maxOwn
	}
	if h.ofPeer[r.via] >= maxOfPeer || h.ofZone[r.rec.Name.Zone] >= maxOfZone {
		return false
	}
	if len(h.records)-h.ofPeer[""] < maxOthers {
		return true
	}
	var last heldRecord
	for _, other := range h.records {
		more := cmp.Or(cmp.Compare(h.ofPeer[other.via], h.ofPeer[last.via]), other.due.Compare(last.due))
		if other.via != "" && (last.via == "" || more > 0) {
			last = other
		}
	}
	if h.ofPeer[last.via] <= h.ofPeer[r.via]+1 {
		return false
	}
	h.remove(last)
	h.dropped++
	return true
}

func (h *held) add(r heldRecord) {
	h.count(r, 1)
	h.records[r.rec.Name] = r
}

func (h *held) remove(r heldRecord) {
	h.count(r, -1)
	delete(h.records, r.rec.Name)
}

// count adds by times a record to what is counted.
func (h *held) count(r heldRecord, by int) {
	h.bytes += int64(by * len(r.rec.Envelope))
	if h.ofPeer[r.via] += by; h.ofPeer[r.via] == 0 {
		delete(h.ofPeer, r.via)
		delete(h.served, r.via)
	}
	if r.via == "" {
		return
	}
	if h.ofZone[r.rec.Name.Zone] += by; h.ofZone[r.rec.Name.Zone] == 0 {
		delete(h.ofZone, r.rec.Name.Zone)
	}
}

// forget drops the record of a name that waits, unless it is newer than seq.
func (h *held) forget(n name.Name, seq uint64) {
	if r, ok := h.records[n]; ok && r.rec.Seq <= seq {
		h.remove(r)
	}
}

// take removes and returns the records that are due: at most own of this node's and at most others of other nodes', one
// of each peer in turn. It drops records that could not be sent in time. next is the time at which the next one is due,
// zero if none waits.
func (h *held) take(now time.Time, own, others int) (due []heldRecord, next time.Time) {
	ofPeer := map[peer.ID][]heldRecord{}
	for _, r := range h.records {
		switch {
		case now.After(r.until):
			h.remove(r)
			h.dropped++
		case !r.due.After(now):
			ofPeer[r.via] = append(ofPeer[r.via], r)
		case next.IsZero() || r.due.Before(next):
			next = r.due
		}
	}
	type turn struct {
		heldRecord
		n int
	}
	var queue []turn
	for via, records := range ofPeer {
		slices.SortFunc(records, func(a, b heldRecord) int { return a.due.Compare(b.due) })
		if via == "" {
			due = records[:min(own, len(records))]
			continue
		}
		for i, r := range records {
			queue = append(queue, turn{r, i})
		}
	}
	slices.SortFunc(queue, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(h.served[a.via], h.served[b.via]), a.due.Compare(b.due))
	})
	for _, t := range queue[:min(others, len(queue))] {
		due = append(due, t.heldRecord)
		h.turn++
		h.served[t.via] = h.turn
	}
	for _, r := range due {
		h.remove(r)
	}
	if len(queue) > others || len(ofPeer[""]) > own {
		next = now
	}
	return due, next
}
