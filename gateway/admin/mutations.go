package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// mutations are the mutations of SPEC §9: what the local API's verbs do,
// with JSON in and out, for programs that may have to repeat themselves.
func (g *Handlers) mutations() []exchange.Endpoint {
	return []exchange.Endpoint{
		mutation(g, "AdminPin", "pin", capability.Pin, "Keeps an object.", "the pin",
			func(r *api.PinRequest) subject { return subject{key: r.Key, label: &r.Label} },
			func(ctx context.Context, n api.Node, r api.PinRequest) (api.Pin, error) {
				return n.Pin(ctx, r.Key, api.PinOptions{Recursive: r.Recursive, Label: r.Label})
			}),
		mutation(g, "AdminUnpin", "unpin", capability.Unpin, "Removes the pin with that label, or all of the object's pins.", "done",
			func(r *api.UnpinRequest) subject { return subject{key: r.Key, label: &r.Label, own: true} },
			func(ctx context.Context, n api.Node, r api.UnpinRequest) (struct{}, error) {
				return struct{}{}, n.Unpin(ctx, r.Key, r.Label)
			}),
		mutation(g, "AdminReindex", "reindex", capability.Announce, "Tells the network again what this node provides: one object, or everything that is pinned.", "what was announced",
			func(r *api.ReindexRequest) subject { return subject{key: r.Key} }, reindex),
		mutation(g, "AdminRepair", "repair", capability.Repair, "Reads an object or the whole store again, proves it, and fetches what is damaged or missing.", "what was found and mended",
			func(r *api.RepairRequest) subject { return subject{key: r.Key, own: true} }, repair),
		mutation(g, "AdminGC", "gc", capability.GC, "Removes objects that nothing holds.", "what was done", noSubject,
			func(ctx context.Context, n api.Node, r api.GCRequest) (api.GCReport, error) {
				return n.GC(ctx, api.GCOptions{All: r.All, Dry: r.Dry, Fast: r.Fast}, func(api.Progress) {}, func(api.GCObject) error { return nil })
			}),
		mutation(g, "Reload", "reload", capability.Reload, "Reads the node's files again. One that cannot be read leaves what was read of it before in force, and is named.", "what became of each file", noSubject,
			func(ctx context.Context, n api.Node, _ struct{}) (api.Reloaded, error) {
				v, err := n.Reload(ctx)
				v.Files = append([]api.ReloadedFile{}, v.Files...) // [] and not null
				return v, err
			}),
		mutation(g, "AdminDrain", "drain", capability.Drain, "Begins the orderly shutdown of the node.", "it has begun", noSubject,
			func(ctx context.Context, n api.Node, _ struct{}) (struct{}, error) { return struct{}{}, n.Drain(ctx) }),
	}
}

// subject is what a mutation with JSON acts on.
type subject struct {
	key   string
	label *string // of the pin, in the request; nil: it is about no pin
	own   bool    // as of an endpoint
}

func noSubject[Req any](*Req) subject { return subject{} }

// mutation is a line of the table that takes JSON, none being {}, and answers
// with JSON.
func mutation[Req, Res any](g *Handlers, id, verb string, op capability.Op, doc, answer string, about func(*Req) subject, call func(context.Context, api.Node, Req) (Res, error)) exchange.Endpoint {
	answers := exchange.JSONReplies[Res](answer)
	answers[0].Headers = append(answers[0].Headers, "Idempotent-Replayed")
	return exchange.Endpoint{
		ID: id, Name: "admin/" + verb, Methods: exchange.Posting, Path: "/admin/" + verb, On: exchange.OnAdmin, Op: op, Records: true,
		Doc: doc, Headers: []string{"Idempotency-Key"}, Body: []exchange.Payload{exchange.JSONBody[Req]()}, BodyOptional: true,
		Answers: answers, Fails: apiFails, Tells: []string{"Idempotent-Replayed"},
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error {
			id, err := onceIDOf(w, r.Header.Values("Idempotency-Key"))
			if err != nil {
				return err
			}
			raw, req, err := exchange.ReadJSON[Req](g.bodies, w, r)
			if err != nil {
				return err
			}
			of, label := about(&req), ""
			if of.label != nil {
				if err := w.Allows(r, capability.Ask{Op: op, Label: *of.label}); err != nil {
					return err
				}
				label = w.Label(*of.label)
				*of.label = label
			}
			if !of.own {
				if err := exchange.DeniedKey(g.denylist, of.key); err != nil {
					return err
				}
			}
			asked := b3.Sum(append([]byte(r.Method+" "+r.URL.EscapedPath()+"\n"+label+"\n"), raw...))
			body, replayed, err := g.once.do(id, asked, func() ([]byte, error) {
				e := w.Event("admin/"+verb, r)
				e.Op, e.Object, e.Label, e.Frees = string(op), of.key, label, exchange.FreesSpace(op, r)
				if err := w.Record(r, e); err != nil {
					return nil, err
				}
				v, err := call(r.Context(), g.node, req)
				if err != nil {
					return nil, exchange.CauseOf(r.Context(), err)
				}
				p, err := json.Marshal(v)
				if err != nil {
					return nil, fmt.Errorf("gateway: encode the answer: %w", err)
				}
				return append(p, '\n'), nil
			})
			if replayed {
				w.Header().Set("Idempotent-Replayed", "true")
			}
			if err != nil {
				return err
			}
			w.Header().Set("Cache-Control", "no-store")
			return w.Send(r, http.StatusOK, exchange.MediaJSON, body)
		},
	}
}

// reindex announces one object, or each that is pinned.
func reindex(ctx context.Context, n api.Node, r api.ReindexRequest) (done api.Reindexed, err error) {
	announce := func(key string) error {
		_, err := n.Announce(ctx, key)
		if err == nil {
			done.Objects++
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		if done.Failed++; done.Error == nil {
			rep := status.ReportOf(err)
			done.Error = &rep
		}
		return nil
	}
	if r.Key != "" {
		if _, err := n.Announce(ctx, r.Key); err != nil {
			return done, err
		}
		return api.Reindexed{Objects: 1}, nil
	}
	var last b3.Root
	for p, err := range n.Pins(ctx) { // by address, so that one with several labels comes in a row
		if err != nil {
			return done, err
		}
		if p.Root == last {
			continue
		}
		last = p.Root
		if err := announce(p.Root.String()); err != nil {
			return done, err
		}
	}
	return done, nil
}

// repair proves and mends, and counts.
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
