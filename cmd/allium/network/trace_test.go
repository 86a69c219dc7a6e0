package network

import (
	"testing"

	"allium/gateway/api"
)

// TestTraceLines shows what a testnet's lookups do not have: hedges, late and
// silent peers.
func TestTraceLines(t *testing.T) {
	trace := api.Trace{End: "converged", Hops: 2, Probes: 4, Hedges: 1, TookMS: 1500.04, Steps: []api.Step{
		{Peer: "12D3A", Hop: 1, StartMS: 0, TookMS: 20.16, Outcome: "ok", Closer: 20, Providers: 1},
		{Peer: "12D3B", Hop: 1, StartMS: 0, TookMS: 301, Outcome: "late"},
		{Peer: "12D3C", Hop: 1, Hedge: true, StartMS: 250, TookMS: 12, Outcome: "busy"},
		{Peer: "12D3D", Hop: 12, StartMS: 21, TookMS: 1479, Outcome: "canceled"},
	}}
	const rows = `    0.0 ms     20.2 ms    1  12D3A                                                 ` +
		`probe  ok: 20 closer, 1 provider
    0.0 ms    301.0 ms    1  12D3B                                                 probe  late
  250.0 ms     12.0 ms    1  12D3C                                                 hedge  busy
   21.0 ms   1479.0 ms   12  12D3D                                                 probe  canceled`
	const head = `     start        took  hop  peer                                                  kind   outcome
`
	const end = "\nended converged after 1500.0 ms: 2 hops, 4 probes, 1 hedge"
	for name, c := range map[string]struct {
		quiet bool
		trace api.Trace
		found int
		want  string
	}{
		"nobody": {false, trace, 0, head + rows + end},
		"asked":  {false, trace, 1, "\n" + head + rows + end},
		"held too": {false, trace, 3, "\n" + head + rows + end +
			"\n2 providers by records or announcements that this " +
			"node holds; --fresh leaves them out"},
		"held only": {false, api.Trace{End: "satisfied"}, 1,
			"\nended satisfied after 0.0 ms: 0 hops, 0 probes, 0 hedges\n1 provider by records or announcements " +
				"that this node holds; --fresh leaves them out"},
		"alone": {false, api.Trace{End: "no_peers"}, 0, "ended no_peers after 0.0 ms: 0 hops, 0 probes, 0 hedges"},
		"quiet": {true, trace, 3, rows},
	} {
		if got := traceText(c.trace, c.found, c.quiet); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}
