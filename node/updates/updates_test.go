package updates

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/protocols/name"
	"allium/protocols/status"
)

var at = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

func sign(t testing.TB, label string, seq uint64, value string) name.Signed {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	zone, err := name.ZoneOf(key.GetPublic())
	if err != nil {
		t.Fatal(err)
	}
	l, err := name.ParseLabel(label)
	if err != nil {
		t.Fatal(err)
	}
	v, err := name.ParseValue(value)
	if err != nil {
		t.Fatal(err)
	}
	r, err := name.Sign(key, name.Record{
		Name: name.Name{Label: l, Zone: zone}, Seq: seq, Value: v, NotAfter: at.Add(time.Hour), TTL: time.Minute,
	}, at)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestUpdates: one message of a name is relayed in ten seconds, and none that is not valid.
func TestUpdates(t *testing.T) {
	now := at
	var learned []name.Signed
	u := New(Deps{
		Now: func() time.Time { return now }, Learned: func(r name.Signed) { learned = append(learned, r) },
	})
	u.deps.Publish = func(_ context.Context, data []byte) error { return u.Validate(data) }
	one, two, other := sign(t, "blog", 1, "one"), sign(t, "blog", 2, "two"), sign(t, "photos", 1, "one")
	forged := bytes.Clone(two.Envelope)
	forged[len(forged)-1] ^= 1
	for i, c := range []struct {
		after time.Duration
		data  []byte
		want  status.Outcome
	}{
		{0, one.Envelope, status.OK},
		{0, other.Envelope, status.OK},
		{Gap - time.Second, two.Envelope, status.RateLimit},
		{time.Second, two.Envelope, status.OK},
		{Gap, one.Envelope, status.Stale},
		{0, two.Envelope, status.OK},
		{Gap, forged, status.BadSignature},
		{0, []byte("hello"), status.BadSignature},
		{0, nil, status.BadSignature},
		{0, make([]byte, name.MaxEnvelope+1), status.BodyCap},
		{time.Hour, two.Envelope, status.Stale}, // expired
	} {
		now = now.Add(c.after)
		if err := u.Announce(t.Context(), name.Signed{Envelope: c.data}); status.Of(err) != c.want {
			t.Errorf("message %d: %v, want %s", i, err, c.want)
		}
	}
	u.Handle(two.Envelope)
	u.Handle([]byte("hello"))
	if len(learned) != 1 || learned[0].Record != two.Record {
		t.Errorf("learned %v", learned)
	}
}
