package admin

import (
	"context"
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/capability"
)

func (g *Handlers) verifyEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Verify", Path: "verify", Methods: exchange.Posting, Op: capability.Repair, Target: exchange.TargetTree,
		Doc: "Reads and verifies objects. A bad object is an item, not an error.",
		Params: []exchange.Param{
			{Name: "key", Doc: "what to verify; empty: every object in the store"},
			exchange.FlagParam("repair", "fetches damaged or missing objects again"),
		},
		ReadOnly: func(q exchange.Params) bool { return !q.Flag("repair") },
		Answers:  lineAnswers[api.Verified, struct{}]("the objects, as they are read"),
		Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
			o := api.VerifyOptions{Repair: in.Query.Flag("repair")}
			return sendSeq(w, r, flushEach, g.node.Verify(r.Context(), in.Query.Text("key"), o))
		},
	}
}

func (g *Handlers) adminRepairEndpoint() exchange.Endpoint {
	return mutation(g, "AdminRepair", "repair", capability.Repair,
		"Reads and verifies an object or the whole store, and fetches what is damaged or missing.",
		"what was found and repaired",
		func(r *api.RepairRequest) subject { return subject{key: r.Key, allowDenied: true} }, repair)
}

// repair verifies and repairs objects, and counts them.
func repair(ctx context.Context, n api.Node, r api.RepairRequest) (api.Repaired, error) {
	done := api.Repaired{Roots: []b3.Root{}}
	for v, err := range n.Verify(ctx, r.Key, api.VerifyOptions{Repair: true}) {
		if err != nil {
			return done, err
		}
		if v.Again {
			continue
		}
		done.Objects++
		done.Bytes += v.Size
		if v.Repaired {
			done.Repaired++
		}
		if v.Error == nil {
			continue
		}
		if done.Bad++; len(done.Roots) < api.MaxBadRoots {
			done.Roots = append(done.Roots, v.Root)
		}
	}
	return done, nil
}
