package dht

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/dht/allowance"
	"allium/protocols/dht/messages"
)

// TestOwnRecord: a node names itself for what it has and never published, once
// and in front, and for nothing else.
func TestOwnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, allowance.DefaultConfig())
		defer b.stop()
		me := newIdentity(t)
		b.server.self = me.id
		b.server.ownRecord = func(_ context.Context, r b3.Root) (messages.Sealed, error) {
			if r != root("here") {
				return messages.Sealed{}, errNotStored
			}
			return me.seal(t, r, 1, time.Now().Add(time.Hour)), nil
		}
		if err := b.ask.put(t.Context(), b.at, b.me.seal(t, root("here"), 1, time.Now().Add(time.Hour))); err != nil {
			t.Fatal(err)
		}
		providers := func(r b3.Root) (ids []peer.ID) {
			got, err := b.ask.get(t.Context(), b.at, r)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range got.Providers {
				rec, err := messages.Open(p.Envelope, p.PeerRecord, r, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, rec.Provider)
			}
			return ids
		}
		if got := providers(root("here")); len(got) != 2 || got[0] != me.id || got[1] != b.me.id {
			t.Errorf("providers of what is here: %v", got)
		}
		if err := b.server.store.put(me.own(t, root("here"), 2, time.Now().Add(time.Hour)), time.Now()); err != nil {
			t.Fatal(err)
		}
		if got := providers(root("here")); len(got) != 2 {
			t.Errorf("with a published record: %v", got)
		}
		if got := providers(root("elsewhere")); len(got) != 0 {
			t.Errorf("providers of what is not here: %v", got)
		}
	})
}

// TestRecordsAreSignedOnce: concurrent requests for a record of one object get the same record, so that no peer refuses
// it as stale.
func TestRecordsAreSignedOnce(t *testing.T) {
	x := startNetwork(t, 2)[0]
	const at = 64
	for i := range 50 {
		r := root(fmt.Sprint("object ", i))
		seqs := make([]uint64, at)
		var asking sync.WaitGroup
		for j := range seqs {
			asking.Go(func() {
				rec, err := x.signer.current(r, time.Now())
				if err != nil {
					t.Error(err)
				}
				seqs[j] = rec.Seq
			})
		}
		asking.Wait()
		if slices.Sort(seqs); seqs[0] != seqs[at-1] {
			t.Fatalf("records %d to %d of %s", seqs[0], seqs[at-1], r)
		}
	}
}

// TestSignedRecordsAreForgotten: of the records that a node signed it keeps those for reuse that may still be reused.
func TestSignedRecordsAreForgotten(t *testing.T) {
	x, begun := startNetwork(t, 2)[0], time.Now()
	for i := range 20 {
		for _, after := range []time.Duration{0, recordReuse / 2} { // it is used again, and lasts no longer for that
			if _, err := x.signer.current(root(fmt.Sprint("object ", i)), begun.Add(after)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := x.signer.signed.records.Len(); n != 20 {
		t.Errorf("%d records, want 20", n)
	}
	if _, err := x.signer.current(root("later"), begun.Add(2*recordReuse)); err != nil {
		t.Fatal(err)
	}
	if n := x.signer.signed.records.Len(); n != 1 {
		t.Errorf("%d records, want the last", n)
	}
}

// TestWithdrawnRecordIsForgotten: a node keeps no record of its own for what it provides no longer, and keeps those of
// others and of other objects.
func TestWithdrawnRecordIsForgotten(t *testing.T) {
	nodes := startNetwork(t, 2)
	x, y := nodes[0], nodes[1]
	for i := range 40 {
		r := root(fmt.Sprint("object ", i))
		if _, err := x.signer.current(r, time.Now()); err != nil {
			t.Fatal(err)
		}
		if i >= 10 {
			x.Withdraw(root(fmt.Sprint("object ", i-10)))
		}
	}
	if own, signed := x.store.len(), x.signer.signed.records.Len(); own != 10 || signed != 10 {
		t.Errorf("%d records in the store and %d to be sent again, want 10", own, signed)
	}
	rec, err := y.signer.sign(root("object 39"), time.Now())
	if err == nil {
		err = x.store.put(sourced{rec, source{group: "a"}}, time.Now())
	}
	if err != nil {
		t.Fatal(err)
	}
	x.Withdraw(root("object 39"))
	if got := x.store.get(root("object 39"), 20, time.Now()); len(got) != 1 || got[0].Provider != y.self {
		t.Errorf("records %v, want that of the other node", got)
	}
}
