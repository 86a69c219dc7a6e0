package dht

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/dht/allowance"
	"allium/protocols/dht/dialback"
	"allium/protocols/dht/messages"
)

// from is a record of provider for key that came from group and lives for life.
func from(group string, provider, key string, now time.Time, life time.Duration) sourced {
	s := plain(peer.ID(provider), root(key), 1, now.Add(life))
	s.group = group
	return s
}

// holders is the providers that the store names for key.
func holders(p *providerStore, key string, now time.Time) map[string]bool {
	ids := map[string]bool{}
	for _, s := range p.get(root(key), messages.MaxProviders, now) {
		ids[string(s.Provider)] = true
	}
	return ids
}

// TestFreeIdentities: identities of one network, however many and however long
// their records claim to live, neither push a record out of a key nor keep one
// from it, in whichever order they come.
func TestFreeIdentities(t *testing.T) {
	t.Parallel()
	for _, honestFirst := range []bool{true, false} {
		now := time.Unix(1_800_000_000, 0)
		p := newProviderStore(20, 1000, 1000)
		honest := func() {
			if err := p.put(from("8.8.0.0/16", "honest", "x", now, time.Hour), now); err != nil {
				t.Errorf("honest first %t: %v", honestFirst, err)
			}
		}
		if honestFirst {
			honest()
		}
		for i := range 60 {
			_ = p.put(from("9.9.0.0/16", fmt.Sprint("sybil", i), "x", now, messages.MaxLifetime+messages.ClockSkew),
				now)
		}
		if !honestFirst {
			honest()
		}
		for i := range 60 {
			_ = p.put(from("9.9.0.0/16", fmt.Sprint("late", i), "x", now, messages.MaxLifetime+messages.ClockSkew), now)
		}
		got := holders(p, "x", now)
		if !got["honest"] || len(got) != 20 || !got["sybil0"] {
			t.Errorf("honest first %t: %v", honestFirst, got)
		}
	}
}

// TestIncumbentsStay: of groups that have equally many records of a key none
// gives way to another.
func TestIncumbentsStay(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	p := newProviderStore(20, 1000, 1000)
	for i := range 40 {
		err := p.put(
			from(fmt.Sprintf("9.%d.0.0/16", i), fmt.Sprint(i), "x", now, time.Hour+time.Duration(i)*time.Minute),
			now,
		)
		if (err == nil) != (i < 20) {
			t.Fatalf("%d: %v", i, err)
		}
	}
	for i := range 20 {
		if !holders(p, "x", now)[fmt.Sprint(i)] {
			t.Errorf("%d is gone", i)
		}
	}
	// An expired record is no incumbent.
	now = now.Add(time.Hour + 30*time.Second)
	if err := p.put(from("7.7.0.0/16", "new", "x", now, time.Hour), now); err != nil {
		t.Error(err)
	}
}

// TestReachedProviderHasAPlace: in a key full of providers of as many groups, the
// first that was dialled back finds room and keeps it; the next does not.
func TestReachedProviderHasAPlace(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	p := newProviderStore(20, 1000, 1000)
	for i := range 20 {
		_ = p.put(from(fmt.Sprintf("9.%d.0.0/16", i), fmt.Sprint(i), "x", now, time.Hour), now)
	}
	for i, provider := range []string{"reached", "too"} {
		rec := from("8.8.0.0/16", provider, "x", now, time.Hour)
		rec.reached = true
		if err := p.put(rec, now); (err == nil) != (i == 0) {
			t.Errorf("%s: %v", provider, err)
		}
	}
	if got := holders(p, "x", now); !got["reached"] || got["19"] || len(got) != 20 {
		t.Errorf("held: %v", got)
	}
}

// TestLifeIsClamped: no record counts for longer than a day from when it came.
func TestLifeIsClamped(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	p := newProviderStore(20, 1000, 1000)
	if err := p.put(from("9.9.0.0/16", "a", "x", now, messages.MaxLifetime+messages.ClockSkew), now); err != nil {
		t.Fatal(err)
	}
	end := now.Add(messages.MaxLifetime)
	if got := p.get(root("x"), 1, end); len(got) != 1 || !got[0].NotAfter.Equal(end) {
		t.Errorf("got %+v", got)
	}
	if got := p.get(root("x"), 1, end.Add(time.Second)); len(got) != 0 {
		t.Error("it counts for longer")
	}
}

// TestFreeIdentitiesFillNoStore: a store full of one network's records has room
// for another's, until both have as many; this node's own always have room.
func TestFreeIdentitiesFillNoStore(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	p := newProviderStore(20, 10, 100)
	for i := range 100 {
		if err := p.put(from("9.9.0.0/16", fmt.Sprint("sybil", i/10), fmt.Sprint(i), now, time.Hour), now); err != nil {
			t.Fatal(err)
		}
	}
	in := 0
	for i := range 100 {
		if p.put(from("8.8.0.0/16", fmt.Sprint("honest", i/10), fmt.Sprint("h", i), now, time.Minute), now) == nil {
			in++
		}
	}
	if in != 50 || p.len() != 100 {
		t.Errorf("%d of 100 got in, %d are held", in, p.len())
	}
	if err := p.put(from("", "self", "mine", now, time.Hour), now); err != nil {
		t.Error(err)
	}
}

// TestLongRecordsCrowdNobodyOut: of an answer that cannot hold all records, those
// of each group get as many bytes.
func TestLongRecordsCrowdNobodyOut(t *testing.T) {
	t.Parallel()
	for range 50 { // an order of chance in each
		now := time.Unix(1_800_000_000, 0)
		p := newProviderStore(20, 1000, 1000)
		put := func(group, provider string, bytes_ int) {
			rec := from(group, provider, "x", now, time.Hour)
			rec.Envelope, rec.PeerRecord = bytes.Repeat([]byte{1}, 216), bytes.Repeat([]byte{2}, bytes_)
			if err := p.put(rec, now); err != nil {
				t.Fatal(err)
			}
		}
		put("8.8.0.0/16", "long", messages.MaxPeerRecord)
		put("7.7.0.0/16", "short", 200)
		put("9.9.0.0/16", "neighbour", 200)
		for i := range 17 {
			put("9.9.0.0/16", fmt.Sprint(i), messages.MaxPeerRecord)
		}
		r := getResponse(p.get(root("x"), messages.MaxProviders, now), nil)
		got, size := map[int]int{}, 0
		for _, w := range r.Providers {
			got[len(w.PeerRecord)]++
			size += len(w.Envelope) + len(w.PeerRecord)
		}
		if got[200] != 2 || size > messages.MaxMessage*3/4 || size < messages.MaxMessage/2 {
			t.Fatalf("peer records of %v in %d bytes", got, size)
		}
		kept := selectFair(p.get(root("x"), messages.MaxProviders, now), messages.MaxMessage*3/4)
		long := false
		for _, s := range kept {
			long = long || s.Provider == "long"
		}
		if !long {
			t.Fatal("the only one of its group is left out")
		}
	}
}

// TestDialBack: a provider that cannot be reached at the address of its
// connection, or that names another, has no place of its own. One that can has,
// in a key that was full when its record came.
func TestDialBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, allowance.DefaultConfig())
		defer b.stop()
		var dialled []string
		dial := func(_ context.Context, p peer.ID, a ma.Multiaddr) error {
			dialled = append(dialled, a.String())
			if p != b.me.id {
				return errors.New("nobody there")
			}
			return nil
		}
		reg := prometheus.NewPedanticRegistry()
		back, err := dialback.New(dialback.Deps{Env: env.Env{Metrics: reg, Now: time.Now}, Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		b.server.dialback = back
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { _ = back.Run(ctx, func() {}); close(ended) }()
		defer func() { cancel(); <-ended }()

		now := time.Now()
		for i := range 20 {
			rec := from(fmt.Sprintf("9.%d.0.0/16", i), fmt.Sprint(i), "x", now, time.Hour)
			if err := b.server.store.put(rec, now); err != nil {
				t.Fatal(err)
			}
		}
		liar := newIdentity(t) // names an address that it does not come from
		for _, who := range []struct {
			identity
			at string
		}{{b.me, "/ip4/192.0.2.1/tcp/4"}, {liar, "/ip4/66.0.0.1/tcp/4"}} {
			b.net.Place(who.id, ma.StringCast(who.at))
			ask := *b.ask
			calls := *b.ask.rpc
			calls.host, ask.rpc = b.net.Host(who.id), &calls
			err := ask.put(t.Context(), b.at, who.seal(t, root("x"), 1, now.Add(time.Hour)))
			if messages.RefusalOf(err) != messages.Full {
				t.Fatalf("a full key answered %v", err)
			}
			synctest.Wait()
		}
		got := holders(b.server.store, "x", now)
		if !got[string(b.me.id)] || got[string(liar.id)] || len(got) != 20 {
			t.Errorf("held: %v", got)
		}
		if len(dialled) != 1 {
			t.Errorf("dialled %v", dialled)
		}
		if got := dialbacks(t, reg); !maps.Equal(got, map[string]float64{"reached": 1, "unreached": 0, "dropped": 0}) {
			t.Errorf("dial-backs: %v", got)
		}
	})
}

// dialbacks returns the dial-back counters by result.
func dialbacks(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "dht_dialback_total" {
				counts[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return counts
}

// TestSourcesArePersisted: where a record came from is known after a restart. Of
// one that a version wrote that did not keep it, the signed addresses count.
func TestSourcesArePersisted(t *testing.T) {
	d := inMemory()
	p, w := newPersisted(t, d, 100)
	now := time.Now()
	me, other, mine := newIdentity(t), newIdentity(t), newIdentity(t)
	rec := me.own(t, root("x"), 1, now.Add(time.Hour))
	rec.source = source{"8.8.0.0/16", true}
	own := mine.own(t, root("x"), 1, now.Add(time.Hour))
	for _, s := range []sourced{rec, own} {
		if err := p.put(s, now); err != nil {
			t.Fatal(err)
		}
	}
	w.Flush(t.Context())
	bare, err := messages.Seal(
		other.key,
		messages.Record{Root: root("x"), Provider: other.id, Seq: 1,
			NotAfter: now.Add(time.Hour).Truncate(time.Second)},
		peer.PeerRecordFromAddrInfo(peer.AddrInfo{ID: other.id,
			Addrs: []ma.Multiaddr{ma.StringCast("/ip4/9.9.0.1/tcp/1")}}),
	)
	if err != nil {
		t.Fatal(err)
	}
	value, err := storedCodec.Marshal(messages.Provider{Envelope: bare.Envelope, PeerRecord: bare.PeerRecord})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Put(t.Context(), recordKey{root("x"), other.id}.datastoreKey(), value); err != nil {
		t.Fatal(err)
	}
	want := map[peer.ID]source{me.id: {"8.8.0.0/16", true}, other.id: {"9.9.0.0/16", false}, mine.id: {}}
	got := map[peer.ID]source{}
	for _, s := range loadAll(t, d, 100).get(root("x"), messages.MaxProviders, now) {
		got[s.Provider] = s.source
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
