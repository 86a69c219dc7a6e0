package node_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/protocols/status"
)

// TestWhyShowsTheLiar: the record of a fetch has both providers, what each sent, and why the
// one that lied was given up.
func TestWhyShowsTheLiar(t *testing.T) {
	noLeaks(t)
	seed := start(t, nil)
	liar, honest, asker := start(t, joining(seed)), start(t, joining(seed)), start(t, joining(seed))
	root, _ := addBytes(t, liar, 9, 4_000_000)
	addBytes(t, honest, 9, 4_000_000)
	set(t, liar, api.Faults{Corrupt: true})
	set(t, honest, api.Faults{Rate: 4_000_000}) // so that both are asked
	ids := []string{liar.ID().ID, honest.ID().ID}
	testkit.Eventually(t, "both are found", func() bool {
		found := ""
		fresh := api.FindOptions{Query: api.Query{Limit: 2, Fresh: true}}
		for p, err := range asker.api.FindProviders(t.Context(), root.String(), fresh) {
			if err == nil {
				found += p.ID
			}
		}
		return strings.Contains(found, ids[0]) && strings.Contains(found, ids[1])
	})
	if _, err := asker.api.Fetch(t.Context(), root.String(), nil); err != nil {
		t.Fatal(err)
	}
	w, err := asker.api.Why(t.Context(), root.String())
	if err != nil {
		t.Fatal(err)
	}
	all := append([]api.LookupHead{w.Lookup.LookupHead}, w.Others...)
	probed := 0
	asked, gaveUp := map[string]int64{}, map[string]string{}
	for _, h := range all { // the fetch, and the transfer of the object
		w, err := asker.api.Why(t.Context(), h.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range w.Lookup.Searches {
			if s.Trace != nil {
				probed += len(s.Trace.Steps)
			}
		}
		for _, p := range w.Lookup.Providers {
			asked[p.ID] += p.Bytes
			if p.GaveUp != nil {
				gaveUp[p.ID] = p.GaveUp.Outcome
			}
		}
	}
	if asked[ids[1]] < 3_000_000 || gaveUp[ids[0]] != status.Corrupt.String() || gaveUp[ids[1]] != "" {
		t.Errorf("they sent %v, given up is %v", asked, gaveUp)
	}

	if probed == 0 {
		t.Error("no probe of the DHT is recorded")
	}

	// The page of the admin listener is the same record, and the gateway logs a hit.
	resp, err := http.Get(asker.ID().Admin + "/why/" + w.Lookup.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var page api.Why
	if err := json.Unmarshal(body, &page); err != nil || page.Lookup.ID != w.Lookup.ID || page.Others != nil {
		t.Errorf("the page is %s, %v", body, err)
	}
	for range 2 { // from the store or from RAM
		got, err := http.Get(asker.ID().Gateway + "/o/" + root.String())
		if err != nil || got.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", got, err)
		}
		_, _ = io.Copy(io.Discard, got.Body)
		got.Body.Close()
	}
	hit, err := asker.api.Why(t.Context(), root.String())
	if err != nil || hit.Lookup.ID != w.Lookup.ID || len(hit.Others) != len(all)+1 || hit.Others[0].Kind != "open" {
		t.Errorf("the lookups are %+v, %v", hit, err)
	}
}
