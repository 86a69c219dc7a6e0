package updates

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/name"
)

// recordOf returns a record of a zone, by numbers, that is due at a time.
func recordOf(t *testing.T, zone, label, seq int, via peer.ID, due time.Time) heldRecord {
	t.Helper()
	l, err := name.ParseLabel(fmt.Sprintf("n%d", label))
	if err != nil {
		t.Fatal(err)
	}
	n := name.Name{Label: l}
	binary.BigEndian.PutUint64(n.Zone[:], uint64(zone))
	return heldRecord{
		rec: name.Signed{Record: name.Record{Name: n, Seq: uint64(seq)}, Envelope: make([]byte, 300)},
		via: via, due: due, until: due.Add(time.Minute),
	}
}

// check compares what is counted with what is there.
func (h *held) check(t *testing.T) {
	t.Helper()
	var bytes int64
	ofPeer, ofZone := map[peer.ID]int{}, map[name.Zone]int{}
	for _, r := range h.records {
		bytes += int64(len(r.rec.Envelope))
		ofPeer[r.via]++
		if r.via != "" {
			ofZone[r.rec.Name.Zone]++
		}
	}
	if bytes != h.bytes || fmt.Sprint(ofPeer) != fmt.Sprint(h.ofPeer) || fmt.Sprint(ofZone) != fmt.Sprint(h.ofZone) {
		t.Errorf("%d bytes, %v, %v; counted %d, %v, %v", bytes, ofPeer, ofZone, h.bytes, h.ofPeer, h.ofZone)
	}
	for via := range h.served {
		if h.ofPeer[via] == 0 {
			t.Errorf("%s had a turn and has no records", via)
		}
	}
	if others := len(h.records) - h.ofPeer[""]; others > maxOthers || h.ofPeer[""] > maxOwn {
		t.Errorf("%d of others, %d own", others, h.ofPeer[""])
	}
}

// TestHeldShares: a stranger with many zones has one share, many strangers do not take the place of another
// peer, and neither of them delays its records or those of this node.
func TestHeldShares(t *testing.T) {
	t.Parallel()
	h := newHeld()
	held := 0
	for i := range 1000 {
		if h.put(recordOf(t, i, i, 1, "stranger", at)) {
			held++
		}
	}
	if held != maxOfPeer {
		t.Errorf("a stranger has %d places", held)
	}
	held = 0
	for i := range 1000 { // of one zone, through many peers
		if h.put(recordOf(t, 1<<20, i, 1, peer.ID(fmt.Sprintf("zone %d", i%100)), at)) {
			held++
		}
	}
	if held != maxOfZone {
		t.Errorf("a zone has %d places", held)
	}
	h.check(t)
	for i := range 20 * maxOfPeer {
		h.put(recordOf(t, 1<<30+i, i, 1, peer.ID(fmt.Sprintf("stranger %d", i%20)), at))
	}
	h.check(t)
	honest, own := recordOf(t, 5000, 1, 7, "honest", at.Add(time.Second)),
		recordOf(t, 6000, 1, 7, "", at.Add(time.Second))
	if !h.put(honest) || !h.put(own) {
		t.Error("no place for the records of an honest peer and of this node")
	}
	h.check(t)
	for i := range 2 * maxOwn { // a node with many names
		h.put(recordOf(t, 7000, i, 1, "", at.Add(2*time.Second)))
	}
	h.check(t)
	seen := map[uint64]int{}                              // in which pass the records with number 7 were
	for pass := range 1 + (1+maxOfZone+20)/othersAtOnce { // each peer has its turn once
		due, _ := h.take(at.Add(2*time.Second), ownAtOnce, othersAtOnce)
		if len(due) != ownAtOnce+othersAtOnce {
			t.Errorf("pass %d has %d records", pass, len(due))
		}
		for _, r := range due {
			if r.rec.Seq == 7 {
				seen[uint64(r.rec.Name.Zone[6])<<8|uint64(r.rec.Name.Zone[7])] = pass
			}
		}
	}
	if pass, ok := seen[6000]; !ok || pass > 0 {
		t.Errorf("the record of this node in pass %d, %t", pass, ok)
	}
	if _, ok := seen[5000]; !ok {
		t.Error("the record of an honest peer waits for those of strangers")
	}
	h.check(t)
}

// TestHeldNewest: of one name the newest record is held, by the node that publishes it if it is one of
// several, and for no longer than the first.
func TestHeldNewest(t *testing.T) {
	t.Parallel()
	h := newHeld()
	for _, r := range []heldRecord{
		recordOf(t, 1, 1, 5, "a", at), recordOf(t, 1, 1, 7, "b", at.Add(time.Second)), recordOf(t, 1, 1, 6, "c", at),
	} {
		if !h.put(r) {
			t.Error("refused")
		}
	}
	h.check(t)
	if n := recordOf(t, 1, 1, 0, "", at).rec.Name; h.seq(n) != 7 || len(h.records) != 1 || h.ofPeer["b"] != 1 {
		t.Errorf("%+v", h.records)
	}
	h.put(recordOf(t, 1, 1, 8, "", at))
	h.put(recordOf(t, 1, 1, 9, "a", at))
	due, next := h.take(at, 1, 1)
	if len(due) != 1 || due[0].rec.Seq != 9 || due[0].via != "" || !next.IsZero() {
		t.Errorf("%+v, %s", due, next)
	}
	h.put(recordOf(t, 1, 1, 9, "a", at))
	if due, _ = h.take(at.Add(2*time.Minute), 1, 1); len(due) != 0 || len(h.records) != 0 {
		t.Errorf("kept for ever: %v, %v", due, h.records)
	}
	h.check(t)
}
