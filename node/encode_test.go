package node_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/bao"
)

// TestEncodesWhatPeersHave asks a node for verified encodings of an object that
// only peers have: of ranges, of the whole while it arrives, and when it is here.
func TestEncodesWhatPeersHave(t *testing.T) {
	noLeaks(t)
	const size = 5<<20 + 77
	asker, _, key := provided(t, 1, size, "8MB")
	root, err := b3.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	var held []byte
	for _, r := range []b3.Range{{Start: size - 10, End: -1}, {Start: 3 * b3.GroupSize, End: 3*b3.GroupSize + 1},
		{Start: 100, End: 20 * b3.GroupSize}, {End: -1}, {End: -1}, {Start: 1 << 20, End: 2 << 20}} {
		query := "?format=bao"
		if r.Start > 0 || r.End >= 0 {
			query += fmt.Sprintf("&range=%d-", r.Start)
		}
		if r.End >= 0 {
			query += fmt.Sprint(r.End - 1)
		}
		resp := get(t, asker.ID().Gateway+"/o/"+key+query)
		d := bao.NewDecoder(root, r, resp.Body)
		got, err := io.ReadAll(d)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v: %s, %d bytes: %v", r, resp.Status, len(got), err)
		}
		if n, err := bao.Len(size, r); err != nil || resp.ContentLength != n {
			t.Errorf("%v: Content-Length %d, want %d (%v)", r, resp.ContentLength, n, err)
		}
		end := r.End
		if end < 0 {
			end = size
		}
		if int64(len(got)) != end-r.Start {
			t.Errorf("%v: %d bytes", r, len(got))
		}
		if r == (b3.Range{End: -1}) {
			held = got
		} else if held != nil && !bytes.Equal(got, held[r.Start:end]) {
			t.Errorf("%v: other bytes than in the whole", r)
		}
	}
	awaitNoTransfer(t, asker)
}

func get(t *testing.T, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}
