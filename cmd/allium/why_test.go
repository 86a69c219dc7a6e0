package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"allium/cmd/allium/drawing"
	"allium/gateway/api"
	"allium/protocols/b3"
)

const (
	peerA = "12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp"
	peerB = "12D3KooWSCJAiwTDWsUZtm6BMhJjMVSZ4xvDgRQDZyL8vLLe3Mym"
)

// whys are records of lookups as a node returns them.
func whys() map[string]api.Why {
	root, dir := b3.Sum([]byte("object")), b3.Sum([]byte("directory"))
	start := time.Date(2026, 11, 23, 12, 0, 1, 0, time.Local)
	head := func(kind, outcome string, took, ready float64) api.LookupHead {
		return api.LookupHead{
			ID: "00000000000000a1", Kind: kind, Key: root.String(), Start: start, TookMS: took,
			ReadyMS: ready, Outcome: outcome,
		}
	}
	lie := "group 2 does not match the address: the peer sent false bytes, or its copy is damaged"
	nobody := head("open", "timeout", 1200.4, 0)
	nobody.BudgetMS = 1200
	nobody.Message = root.String() + ": no provider found within 1.2s; try again, or connect to a peer that has it"
	running := head("fetch", "", 3000, 12)
	running.Running, running.Parent = true, "00000000000000a0"
	named := head("name", "ok", 81, 0)
	named.Key = "www.k51qzi"
	return map[string]api.Why{
		"hit": {
			Lookup: api.Lookup{
				LookupHead: head("open", "ok", 0.04, 0), Callers: 1,
				Steps: []api.LookupStep{{Source: "memory", Verdict: "hit", Count: 1}},
			},
			Others: []api.LookupHead{head("fetch", "ok", 812, 40), nobody},
		},
		"nobody": {Lookup: api.Lookup{
			LookupHead: nobody, Callers: 1,
			Steps: []api.LookupStep{
				{AtMS: 0.1, Source: "store", Verdict: "miss"}, {AtMS: 0.2, Source: "gossip", Verdict: "miss"},
				{AtMS: 0.2, Source: "cache", Verdict: "negative", Lookup: "00000000000000a2"},
			},
			Searches: []api.LookupSearch{{
				Key: root.String(), AtMS: 0.3, TookMS: 1199.9, Outcome: "timeout",
				Message: "no provider found within 1.2s",
				Trace: &api.Trace{End: "timed_out", Hops: 2, Probes: 3, Hedges: 1, TookMS: 1199, Steps: []api.Step{
					{Peer: peerA, Hop: 1, StartMS: 0, TookMS: 20.2, Outcome: "ok", Closer: 20},
					{Peer: peerB, Hop: 2, StartMS: 21, TookMS: 500, Outcome: "timeout"},
					{Peer: "QmShort", Hop: 2, Hedge: true, StartMS: 171, TookMS: 1028, Outcome: "canceled"},
				}},
				Omitted: 2,
			}},
		}},
		"liar": {Lookup: api.Lookup{
			LookupHead: head("fetch", "ok", 250, 31), Callers: 3, Bytes: 3 << 20,
			Steps: []api.LookupStep{
				{AtMS: 0.1, Source: "store", Verdict: "miss"},
				{AtMS: 0.2, Source: "partial", Verdict: "hit", Count: 1 << 20},
				{AtMS: 0.3, Source: "named", Verdict: "hit", Count: 1},
				{AtMS: 0.4, TookMS: 12, Source: "permit", Verdict: "granted"},
				{AtMS: 13, Source: "cache", Verdict: "hit", Count: 1, Lookup: "00000000000000a2"},
			},
			Searches: []api.LookupSearch{{Key: dir.String(), AtMS: -40, TookMS: 60, Joined: true,
				Found: 1, Outcome: "ok"}},
			Providers: []api.LookupProvider{
				{
					ID: peerA, Source: "named", FoundMS: 12.5, Asked: 1, Bytes: 32768, RTTMS: 4.5, Rate: 1 << 20,
					GaveUp: &api.LookupGaveUp{AtMS: 40, Outcome: "corrupt", Message: lie},
					Spans: []api.LookupSpan{
						{AtMS: 13, SentMS: 0.1, FirstMS: 4.5, TookMS: 27, End: 1 << 20, Bytes: 32768,
							Outcome: "corrupt", Message: lie},
					},
				},
				{
					ID: peerB, Source: "dht", FoundMS: 14, Asked: 9, Bytes: 3<<20 - 32768, Extra: 16384,
					Hedges: api.LookupHedges{Won: 1, Lost: 1},
					Spans: []api.LookupSpan{
						{AtMS: 14, TookMS: 20, Bytes: 16384, Outcome: "ok"},
						{AtMS: 34, TookMS: 20, Start: 1 << 20, End: 2 << 20, Bytes: 1 << 20,
							Hedge: "won", Outcome: "ok"},
						{AtMS: 54, TookMS: 20, Start: 2 << 20, End: 3 << 20, Outcome: "canceled", Hedge: "lost",
							Message: "another provider was faster"},
						{AtMS: 74, TookMS: 20, Start: 2 << 20, End: 3 << 20, Bytes: 1 << 20, Outcome: "ok"},
						{AtMS: 200, TookMS: 50, Start: 3 << 20, End: 4 << 20, Bytes: 1 << 20, Outcome: "ok"},
					},
					Omitted: 4,
				},
				{ID: "12D3KooWLate", Source: "gossip", FoundMS: 249},
			},
			Omitted: &api.LookupOmissions{Steps: 1, Searches: 2, Providers: 3, Spans: 4},
		}},
		"tree": {Lookup: api.Lookup{
			LookupHead: head("tree", "not_found", 700, 35), Callers: 1, Bytes: 1000,
			Steps: []api.LookupStep{{AtMS: 0.1, Source: "store", Verdict: "failed", Note: "the copy is damaged"}},
			Providers: []api.LookupProvider{{
				ID: peerA, Source: "served", FoundMS: 1, Asked: 1, Bytes: 1000,
				Spans: []api.LookupSpan{{
					AtMS: 2, TookMS: 33, Objects: 256, Bytes: 1000, Outcome: "not_found", Message: "no such object",
				}},
			}},
			Tree: &api.LookupTree{Objects: 900, Bytes: 9000, Fetched: 10, FetchedBytes: 1000, Skipped: 4,
				Failures: []api.LookupFailure{{Root: dir, Outcome: "not_found", Lookup: "00000000000000a3"}}},
		}},
		"name": {Lookup: api.Lookup{
			LookupHead: named, Callers: 1,
			Steps: []api.LookupStep{
				{AtMS: 0.1, Source: "cache", Verdict: "hit", Note: "www.k51qzi"},
				{AtMS: 0.2, TookMS: 80, Source: "dht", Verdict: "hit", Note: "blog.k51qzi"},
			},
			Searches: []api.LookupSearch{{Key: "blog.k51qzi", AtMS: 0.2, TookMS: 80, Found: 1, Outcome: "ok"}},
		}},
		"running": {Lookup: api.Lookup{
			LookupHead: running, Callers: 1,
			Searches: []api.LookupSearch{{Key: root.String(), AtMS: 1, Running: true}},
		}},
	}
}

// TestWhyDrawings compares drawings with golden files, and checks that none is too wide.
func TestWhyDrawings(t *testing.T) {
	for name, w := range whys() {
		got := drawing.Why(w, false) + "\n"
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > drawing.Width {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		file := filepath.Join("testdata", "why", name+".golden")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	if got := drawing.Why(whys()["liar"], true); got != "00000000000000a1  ok after 250.0 ms" {
		t.Errorf("got %q", got)
	}
}
