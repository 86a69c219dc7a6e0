package name

import (
	"bytes"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/status"
)

// at is the time of the tests.
var at = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// newKey returns the key with a seed of 32 bytes b, and its zone.
func newKey(t testing.TB, b byte) (crypto.PrivKey, Zone) {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(bytes.Repeat([]byte{b}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	zone, err := ZoneOf(key.GetPublic())
	if err != nil {
		t.Fatal(err)
	}
	return key, zone
}

func label(t testing.TB, s string) Label {
	t.Helper()
	l, err := ParseLabel(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func value(t testing.TB, s string) Value {
	t.Helper()
	v, err := ParseValue(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// sample returns a record of the zone with the given seq and value.
func sample(t testing.TB, zone Zone, seq uint64, text string) Record {
	t.Helper()
	return Record{
		Name: Name{label(t, "blog"), zone}, Seq: seq, Value: value(t, text),
		NotAfter: at.Add(DefaultLife), TTL: DefaultTTL,
	}
}

func sign(t testing.TB, key crypto.PrivKey, r Record) Signed {
	t.Helper()
	s, err := Sign(key, r, at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openMap is VerifyMap for one signer and at one time. An expired map is returned beside its error.
func openMap(text []byte, signer peer.ID, now time.Time) (Map, error) {
	m, by, err := VerifyMap(text)
	if err != nil {
		return Map{}, err
	}
	if by != signer {
		return Map{}, status.Errorf(status.BadSignature, "the zone map is signed by %s, not by %s", by, signer)
	}
	err = m.CheckLife(now)
	if err != nil && status.Of(err) != status.Stale {
		return Map{}, err
	}
	return m, err
}
