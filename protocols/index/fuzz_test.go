package index

import (
	"encoding/json"
	"strings"
	"testing"

	"allium/protocols/answer"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

// FuzzRequest: a request is refused with an outcome, or it is one that a node can answer.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"op":"resolve","key":"b3:` + strings.Repeat("a", 64) + `","max_stale_ms":5}`,
		`{"op":"resolve","key":"blog.k51qzi5uqu5dgutdk6i1ynyzgkqngpha5xpgia3a5qqp4jsh0u4csozksxel2r"}`,
		`{"op":"providers","key":"b3:` + strings.Repeat("0", 64) + `","limit":5,"deadline_ms":9}`,
		`{"op":"providers","limit":-1}`, `{"op":"x"}`, `{"op":"resolve","op":"providers"}`, ``, `[]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		r := &session.Request{Payload: p}
		if oap.DecodeJSON(p, &r.Envelope, true) != nil {
			return
		}
		q, err := decodeQuestion(r)
		if err != nil {
			if o := status.Of(err); o != status.BadRequest && o != status.BadAddress && o != status.Unsupported {
				t.Errorf("%q: %v", p, err)
			}
			return
		}
		if q.limit < 1 || q.limit > answer.MaxProviders || q.maxStale < 0 || q.maxStale > maxStale {
			t.Errorf("%q: %+v", p, q)
		}
		if q.op == opProviders && !q.name.IsZero() {
			t.Errorf("%q asks for the providers of a name", p)
		}
	})
}

// FuzzAnswer: an answer is refused as upstream, or its records are within their bound and have one
// text.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		`{"key":"k","target":"b3:` + strings.Repeat("a",
			64) + `","providers":[{"id":"x","addrs":[]}],"records":["AAEC"]}`,
		`{"records":[]}`, `{"records":["AAEC="]}`, `{"records":["AAF"]}`, `{"records":null}`, `{"record":[]}`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, op := range []string{opResolve, opProviders} {
			records, err := decodeRecords(op, p)
			if err != nil {
				if status.Of(err) != status.Upstream {
					t.Errorf("%s %q: %v", op, p, err)
				}
				continue
			}
			if len(records) > MaxRecords {
				t.Errorf("%s: %d records", op, len(records))
			}
			for _, r := range records {
				text, _ := json.Marshal(recordText.EncodeToString(r))
				if !strings.Contains(string(p), string(text)) && !strings.Contains(string(p), `\`) {
					t.Errorf("%s %q: a record has another text: %s", op, p, text)
				}
			}
		}
	})
}
