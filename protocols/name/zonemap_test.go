package name

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/record"
	"allium/protocols/status"
)

// someMap returns a map of two entries.
func someMap(t testing.TB) Map {
	t.Helper()
	_, alice := newKey(t, 1)
	_, bob := newKey(t, 2)
	m, err := NewMap(7, at.Add(24*time.Hour), []Entry{{label(t, "bob"), bob}, {label(t, "alice"), alice}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func signMap(t testing.TB, m Map) ([]byte, peer.ID) {
	t.Helper()
	key, _ := newKey(t, 9)
	signer, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := SignMap(key, m, at)
	if err != nil {
		t.Fatal(err)
	}
	return text, signer
}

func TestMap(t *testing.T) {
	m := someMap(t)
	text, signer := signMap(t, m)
	got, err := openMap(bytes.ReplaceAll(text, []byte("\n"), []byte(" \r\n")), signer, at)
	if err != nil || got.Seq != m.Seq || !got.NotAfter.Equal(m.NotAfter) || len(got.Entries) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if z, ok := got.Lookup(label(t, "bob")); !ok || z != m.Entries[1].Zone {
		t.Errorf("bob is %v, %v", z, ok)
	}
	if z, ok := got.Lookup(label(t, "carol")); ok {
		t.Errorf("carol is %v", z)
	}
	got, err = openMap(text, signer, m.NotAfter)
	if status.Of(err) != status.Stale || len(got.Entries) != 2 {
		t.Errorf("expired: %+v, %v", got, err)
	}
}

// TestLargestMap: the map with the most entries fits while its short names have about 20 bytes.
func TestLargestMap(t *testing.T) {
	var entries []Entry
	for i := range MaxMapEntries + 1 {
		entries = append(entries, Entry{label(t, fmt.Sprintf("x%015b", i*2)), Zone{1, byte(i), byte(i >> 8)}})
	}
	for i := range entries { // binary digits look like letters, so no zeros and ones
		entries[i].Short = label(t, string(bytes.Map(func(r rune) rune {
			return map[rune]rune{'0': 'a', '1': 'b', 'x': 'x'}[r]
		}, []byte(entries[i].Short.String()))))
	}
	m, err := NewMap(1, at.Add(time.Hour), entries[:MaxMapEntries])
	if err != nil {
		t.Fatal(err)
	}
	text, signer := signMap(t, m)
	if len(text) > MaxMapText {
		t.Errorf("the text has %d bytes", len(text))
	}
	if got, err := openMap(text, signer, at); err != nil || len(got.Entries) != MaxMapEntries {
		t.Errorf("%d entries, %v", len(got.Entries), err)
	}
	if _, err := NewMap(1, at.Add(time.Hour), entries); status.Of(err) != status.BadRequest {
		t.Errorf("one more: %v", err)
	}
	for i := range m.Entries {
		m.Entries[i].Short = label(t, m.Entries[i].Short.String()+"cccccccccccccccccccccccccccccccccccccccccccccc")
	}
	key, _ := newKey(t, 9)
	if _, err := SignMap(key, m, at); status.Of(err) != status.BodyCap {
		t.Errorf("long names: %v", err)
	}
}

func TestMapsRefused(t *testing.T) {
	key, zone := newKey(t, 9)
	signer := zone.ID()
	other, _ := newKey(t, 3)
	text, _ := signMap(t, someMap(t))
	raw, err := record.DecodeText(mapBlock, text, MaxMapText)
	if err != nil {
		t.Fatal(err)
	}
	forged := bytes.Clone(raw)
	forged[len(forged)-1] ^= 1
	id := []byte(zone.ID())
	good := wireMap{Seq: 1, NotAfter: uint64(at.Add(time.Hour).Unix()), Entries: []wireEntry{{"alice", id}}}
	block := func(change func(*wireMap)) []byte {
		w := good
		change(&w)
		payload, err := canonicalMap.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		return record.EncodeText(mapBlock, sealed(t, mapKind, key, payload))
	}
	entries := func(all ...wireEntry) []byte { return block(func(w *wireMap) { w.Entries = all }) }
	payload, err := canonicalMap.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		text []byte
		want status.Outcome
	}{
		{"good", block(func(*wireMap) {}), status.OK},
		{"two names of one zone", entries(wireEntry{"alice", id}, wireEntry{"bob", id}), status.OK},
		{"long text", make([]byte, MaxMapText+1), status.BodyCap},
		{"nothing", nil, status.BadFrame},
		{"another block", record.EncodeText("ALLIUM SEEDS", raw), status.BadFrame},
		{"text around", append([]byte("a map:\n"), text...), status.BadFrame},
		{"cut", text[:len(text)-40], status.BadFrame},
		{"large", record.EncodeText(mapBlock, make([]byte, MaxMapEnvelope+1)), status.BodyCap},
		{"no envelope", record.EncodeText(mapBlock, payload), status.BadSignature},
		{"forged", record.EncodeText(mapBlock, forged), status.BadSignature},
		{"another type", record.EncodeText(mapBlock, sealed(t, kind, key, payload)), status.BadSignature},
		{"another signer", record.EncodeText(mapBlock, sealed(t, mapKind, other, payload)), status.BadSignature},
		{
			"not canonical", record.EncodeText(mapBlock, sealed(t, mapKind, key, append(bytes.Clone(payload), 0))),
			status.BadRequest,
		},
		{"no entry", entries(), status.BadRequest},
		{"no label", entries(wireEntry{"", id}), status.BadRequest},
		{"not normal", entries(wireEntry{"Alice", id}), status.BadRequest},
		{"a key as a name", entries(wireEntry{zone.String(), id}), status.BadRequest},
		{"no key", entries(wireEntry{"alice", nil}), status.BadRequest},
		{"twice", entries(wireEntry{"alice", id}, wireEntry{"alice", id}), status.BadRequest},
		{"unsorted", entries(wireEntry{"bob", id}, wireEntry{"alice", id}), status.BadRequest},
		{"look alike", entries(wireEntry{"cocoa", id}, wireEntry{"сосоа", id}), status.Conflict},
		{"never ends", block(func(w *wireMap) { w.NotAfter = 1 << 63 }), status.BadRequest},
		{"ends late", block(func(w *wireMap) { w.NotAfter += 366 * 86400 }), status.BadRequest},
		{"ended", block(func(w *wireMap) { w.NotAfter = uint64(at.Unix()) }), status.Stale},
	} {
		if _, err := openMap(tc.text, signer, at); status.Of(err) != tc.want {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
	}
}

func TestNewMapRefuses(t *testing.T) {
	_, zone := newKey(t, 1)
	_, err := NewMap(1, at, []Entry{{label(t, "modern"), zone}, {label(t, "modem"), zone}})
	var bad *ConfusableError
	if !errors.As(err, &bad) || status.Of(err) != status.Conflict {
		t.Errorf("names that look alike: %v", err)
	}
	for name, entries := range map[string][]Entry{
		"none":    nil,
		"twice":   {{label(t, "a"), zone}, {label(t, "a"), zone}},
		"no name": {{Label{}, zone}},
		"no zone": {{label(t, "a"), Zone{}}},
	} {
		if _, err := NewMap(1, at, entries); status.Of(err) != status.BadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	key, _ := newKey(t, 9)
	m := someMap(t)
	m.NotAfter = at
	if _, err := SignMap(key, m, at); status.Of(err) != status.Stale {
		t.Errorf("expired: %v", err)
	}
}
