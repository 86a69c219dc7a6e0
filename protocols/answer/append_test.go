package answer

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"allium/protocols/b3"
)

// TestAppendJSON: what AppendJSON writes means what encoding/json writes, member by
// member and in the same order.
func TestAppendJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) string { return rapid.String().Draw(t, name) }
		r := Resolved{
			Key: text("key"), Target: b3.Sum([]byte(text("target"))), Source: text("source"),
			AgeMS: rapid.Int64().Draw(t, "age"), TTLMS: rapid.Int64().Draw(t, "ttl"),
			Confidence: Confidence(text("confidence")), LookupID: text("id"), Providers: []Provider{},
		}
		for range rapid.IntRange(0, 3).Draw(t, "providers") {
			p := Provider{
				ID: text("peer"), Addrs: rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "addrs"), Region: text("region"),
				RTTMS:  float64(rapid.Int64Range(0, 1e12).Draw(t, "rtt")) / 1000,
				Source: text("from"), Confidence: Confidence(text("sure")),
			}
			if at := rapid.Int64Range(0, 1<<33).Draw(t, "not after"); at > 0 {
				p.NotAfter = time.Unix(at, 0).UTC()
			}
			r.Providers = append(r.Providers, p)
		}
		if rapid.Bool().Draw(t, "of a name") {
			switch rapid.IntRange(0, 5).Draw(t, "member") {
			case 0:
				r.Path = "a/b"
			case 1:
				r.Value = "text"
			case 2:
				r.Chain = []Record{{Name: "blog.k51", Seq: 7}}
			case 3:
				r.Seq = 7
			case 4:
				r.NotAfter = time.Unix(1<<30, 0).UTC()
			case 5:
				r.Stale = true
			}
		}
		same(t, r.AppendJSON(nil), r)
		p := Providers{Key: r.Key, Providers: r.Providers, Source: r.Source, AgeMS: r.AgeMS, LookupID: r.LookupID}
		same(t, p.AppendJSON(nil), p)
	})
}

// same fails unless got is the JSON of v, but for how characters are escaped.
func same[T any](t *rapid.T, got []byte, v T) {
	want, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var back T
	if err := json.Unmarshal(got, &back); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if again, _ := json.Marshal(back); !bytes.Equal(again, want) {
		t.Fatalf("got %s, want %s", again, want)
	}
}
