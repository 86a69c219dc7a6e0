package links

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

var update = flag.Bool("update", false, "write ../oap/testdata/links.txt anew")

const vectorsFile = "../oap/testdata/links.txt"

const vectorsHead = `# The links protocol (SPEC.md, section 10c): requests and answers, byte for byte.
#
#   request  a request, and what it asks; "refused" and the reason if it is not answered
#   answer   an answer to the request before it
`

// decode returns what a request asks, in words.
func decode(p string) (string, error) {
	r := &session.Request{Payload: []byte(p)}
	if err := oap.DecodeJSON(r.Payload, &r.Envelope, true); err != nil {
		return "", err
	}
	if _, err := (&Server{}).Ask(r); err != nil {
		return "", err
	}
	switch r.Op {
	case opOpen:
		var m openRequest
		if err := r.Decode(&m); err != nil {
			return "", err
		}
		o, err := m.offer()
		return fmt.Sprintf("%+v", o), err
	case opRenew, opClose:
		var m linkRequest
		return r.Op + " " + m.ID, r.Decode(&m)
	}
	return "", status.Errorf(status.Unsupported, "no operation")
}

// TestVectors compares the messages with the file, which other implementations test against.
func TestVectors(t *testing.T) {
	root := b3.Sum(nil)
	o := Offer{
		Root: root, File: true, Name: "a.txt", Size: 4096, NotAfter: time.Unix(1767366245, 0), Downloads: 1,
	}
	request, err := json.Marshal(o.fields())
	if err != nil {
		t.Fatal(err)
	}
	with := func(more string) string { return `{"op":"open","root":"` + root.String() + `"` + more + `}` }
	var b strings.Builder
	b.WriteString(vectorsHead)
	for _, v := range []struct {
		request string
		answer  any
	}{
		{`{"op":"open",` + string(request[1:]), opened{"m5", "https://gateway.example/s/k7/"}},
		{with(""), nil},
		{`{"op":"renew","id":"m5","deadline_ms":900}`,
			news{Events: []Event{{Count: 1}, {Whole: true, Count: 1}}, Ended: true}},
		{`{"op":"close","id":"m5"}`, news{}},
		{with(`,"name":"` + strings.Repeat("a", 256) + `"`), nil},
		{with(`,"size":-1`), nil},
		{with(`,"downloads":-1`), nil},
		{with(`,"not_after":253402300800`), nil},
		{with(`,"color":1`), nil},
		{`{"op":"open"}`, nil},
		{`{"op":"renew","root":"` + root.String() + `"}`, nil},
		{`{"op":"dance"}`, nil},
	} {
		asks, err := decode(v.request)
		if err != nil {
			fmt.Fprintf(&b, "\nrequest %s ⇒ refused %s\n", v.request, status.Of(err))
			continue
		}
		fmt.Fprintf(&b, "\nrequest %s ⇒ %s\n", v.request, asks)
		if v.answer != nil {
			p, err := json.Marshal(v.answer)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "answer %s\n", p)
		}
	}
	testkit.Golden(t, vectorsFile, b.String(), *update)
}

// FuzzRequest: a request is refused with an outcome that says why, or all of it is in its bounds.
func FuzzRequest(f *testing.F) {
	root := b3.Sum(nil).String()
	for _, s := range []string{
		`{"op":"open","root":"` + root + `","file":true,"name":"a","size":5,"not_after":9,"downloads":1}`,
		`{"op":"open","root":"b3:"}`, `{"op":"renew","id":"x"}`, `{"op":"close"}`, `{"op":"x"}`, `[]`, ``,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		r := &session.Request{Payload: []byte(p)}
		if oap.DecodeJSON(r.Payload, &r.Envelope, true) != nil {
			return
		}
		if _, err := decode(p); err != nil {
			if o := status.Of(err); o != status.BadRequest && o != status.BadAddress && o != status.Unsupported {
				t.Errorf("%q: %v", p, err)
			}
		}
		var m openRequest
		if r.Op != opOpen || r.Decode(&m) != nil {
			return
		}
		o, err := m.offer()
		if err == nil && (len(o.Name) > maxName || o.Size < 0 || o.Downloads < 0 || o.NotAfter.Year() > 9999) {
			t.Errorf("%q: %+v", p, o)
		}
		if again, err2 := o.fields().offer(); err == nil && (err2 != nil || again != o) {
			t.Errorf("%q: %+v is %+v on the wire (%v)", p, o, again, err2)
		}
	})
}
