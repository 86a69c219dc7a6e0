package index

import (
	"bytes"
	"crypto/ed25519"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/internal/testkit"
	"allium/protocols/answer"
	"allium/protocols/b3"
	"allium/protocols/name"
	"allium/protocols/oap"
	"allium/protocols/record"
	"allium/protocols/session"
	"allium/protocols/status"
)

var update = flag.Bool("update", false, "write ../oap/testdata/index.txt anew")

const vectorsFile = "../oap/testdata/index.txt"

const vectorsHead = `# The index protocol (SPEC.md, section 10): requests and answers, byte for byte.
#
#   request  a request, and what it asks; "refused" and the reason if it is not answered
#   answer   an answer to the request before it
#   record   one of its records: of a name, or a provider record or its peer record
#
# The name record was signed at 2026-01-02T15:04:05Z by the Ed25519 key whose seed is 32 bytes 01.
# The records of the provider are placeholders.
`

// TestVectors compares the messages with the file, which other implementations test against.
func TestVectors(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	key, err := crypto.UnmarshalEd25519PrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	n := name.Name{}
	if n.Zone, err = name.ZoneOf(key.GetPublic()); err != nil {
		t.Fatal(err)
	}
	if n.Label, err = name.ParseLabel("blog"); err != nil {
		t.Fatal(err)
	}
	root := b3.Sum(nil)
	value, err := name.ParseValue(root.String())
	if err != nil {
		t.Fatal(err)
	}
	rec, err := name.Sign(key, name.Record{
		Name: n, Seq: name.NextSeq(0, at), Value: value, NotAfter: at.Add(name.DefaultLife), TTL: name.DefaultTTL,
	}, at)
	if err != nil {
		t.Fatal(err)
	}
	a := Answer{
		Resolved: answer.Resolved{
			Key: root.String(), Target: root, Source: "local", Confidence: answer.Signed,
			Providers: []answer.Provider{{
				ID: "12D3KooWExample", Addrs: []string{"/ip4/192.0.2.1/tcp/4001"}, NotAfter: at.Add(time.Hour),
				Source: "local", Confidence: answer.Signed,
			}},
		},
		Proofs: []record.Proof{{Envelope: []byte("provider record"), PeerRecord: []byte("peer record")}},
	}
	named := a
	named.Key, named.Seq, named.NotAfter, named.TTLMS = n.String(), rec.Seq, rec.NotAfter, rec.TTL.Milliseconds()
	named.Chain = []answer.Record{{
		Name: n.String(), Seq: rec.Seq, Value: rec.Value.String(), NotAfter: rec.NotAfter,
		TTLMS: rec.TTL.Milliseconds(),
	}}
	named.Names = [][]byte{rec.Envelope}

	var b strings.Builder
	b.WriteString(vectorsHead)
	for _, v := range []struct {
		request string
		answer  *Answer
	}{
		{`{"op":"providers","key":"` + root.String() + `","limit":5}`, &a},
		{`{"op":"resolve","key":"` + root.String() + `"}`, &a},
		{`{"op":"resolve","key":"` + n.String() + `","max_stale_ms":60000}`, &named},
		{`{"deadline_ms":900,"op":"providers","key":"` + root.String() + `"}`, nil},
		{`{"op":"providers","key":"` + n.String() + `"}`, nil},
		{`{"op":"providers","key":"` + root.String() + `","limit":33}`, nil},
		{`{"op":"resolve","key":"blog"}`, nil},
		{`{"op":"resolve","key":"` + root.String() + `","limit":5}`, nil},
		{`{"op":"resolve","key":"` + root.String() + `","max_stale_ms":-1}`, nil},
		{`{"op":"dance"}`, nil},
	} {
		r := &session.Request{Payload: []byte(v.request)}
		if err := oap.DecodeJSON(r.Payload, &r.Envelope, true); err != nil {
			t.Fatal(err)
		}
		q, err := decodeQuestion(r)
		if err != nil {
			fmt.Fprintf(&b, "\nrequest %s ⇒ refused %s\n", v.request, status.Of(err))
			continue
		}
		fmt.Fprintf(&b, "\nrequest %s ⇒ limit %d, stale %s\n", v.request, q.limit, q.maxStale)
		if v.answer == nil {
			continue
		}
		p, err := v.answer.encode(q.op)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "answer %s\n", p)
		records, err := decodeRecords(q.op, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			fmt.Fprintf(&b, "record %x\n", r)
		}
	}
	testkit.Golden(t, vectorsFile, b.String(), *update)
}
