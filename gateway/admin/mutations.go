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

// mutations returns the mutations of SPEC §9. They do what the local API's verbs do, with JSON in
// and out, for programs that may have to repeat a request.
func (g *Handlers) mutations() []exchange.Endpoint {
	return []exchange.Endpoint{
		mutation(g, "AdminPin", "pin", capability.Pin, "Pins an object.", "the pin",
			func(r *api.PinRequest) subject { return subject{key: r.Key, label: &r.Label} },
			func(ctx context.Context, n api.Node, r api.PinRequest) (api.Pin, error) {
				return n.Pin(ctx, r.Key, api.PinOptions{Recursive: r.Recursive, Label: r.Label, Target: r.Target})
			}),
		mutation(g, "AdminUnpin", "unpin", capability.Unpin,
			"Removes the pin with that label, or all pins of the object.", "done",
			func(r *api.UnpinRequest) subject { return subject{key: r.Key, label: &r.Label, allowDenied: true} },
			func(ctx context.Context, n api.Node, r api.UnpinRequest) (struct{}, error) {
				return struct{}{}, n.Unpin(ctx, r.Key, r.Label)
			}),
		mutation(g, "AdminReindex", "reindex", capability.Announce,
			"Publishes again that this node provides an object, or every pinned object.", "what was published",
			func(r *api.ReindexRequest) subject { return subject{key: r.Key} }, reindex),
		mutation(g, "AdminRepair", "repair", capability.Repair,
			"Reads and verifies an object or the whole store, and fetches what is damaged or missing.",
			"what was found and repaired",
			func(r *api.RepairRequest) subject { return subject{key: r.Key, allowDenied: true} }, repair),
		mutation(g, "AdminGC", "gc", capability.GC, "Removes objects that neither a pin nor a running operation needs.",
			"what was removed", noSubject,
			func(ctx context.Context, n api.Node, r api.GCRequest) (api.GCReport, error) {
				o := api.GCOptions{All: r.All, Dry: r.Dry, Fast: r.Fast}
				return n.GC(ctx, o, func(api.Progress) {}, func(api.GCObject) error { return nil })
			}),
		mutation(g, "Reload", "reload", capability.Reload,
			"Reads the node's files again. If a file cannot be read, its old content stays in force and the answer names it.",
			"the result for each file", noSubject,
			func(ctx context.Context, n api.Node, _ struct{}) (api.Reloaded, error) {
				v, err := n.Reload(ctx)
				v.Files = append([]api.ReloadedFile{}, v.Files...) // [] and not null
				return v, err
			}),
		mutation(g, "AdminDrain", "drain", capability.Drain,
			"Starts the orderly shutdown of the node.", "the shutdown has started", noSubject,
			func(ctx context.Context, n api.Node, _ struct{}) (struct{}, error) { return struct{}{}, n.Drain(ctx) }),
	}
}

// subject is what a mutation acts on.
type subject struct {
	key         string
	name        *string // the name in the request, which the mutation gets with the key of its zone; nil: none
	label       *string // the pin's label in the request; nil: the mutation concerns no pin
	allowDenied bool    // the mutation is permitted on denied content
}

func noSubject[Req any](*Req) subject { return subject{} }

// mutation returns a route that takes a JSON body and answers with JSON. An empty body is {}. about
// returns what a request acts on, and call runs it.
func mutation[Req, Res any](
	g *Handlers, id, verb string, op capability.Op, doc, answer string,
	about func(*Req) subject, call func(context.Context, api.Node, Req) (Res, error),
) exchange.Endpoint {
	route := "admin/" + verb
	return mutationAt(g, exchange.Endpoint{ID: id, Name: route, Path: "/" + route, Op: op, Doc: doc}, answer, about, call)
}

// mutationAt completes e, which has an ID, a name, a path, an operation and a description, as
// mutation does.
func mutationAt[Req, Res any](
	g *Handlers, e exchange.Endpoint, answer string,
	about func(*Req) subject, call func(context.Context, api.Node, Req) (Res, error),
) exchange.Endpoint {
	route, op := e.Name, e.Op
	answers := exchange.JSONReplies[Res](answer)
	answers[0].Headers = append(answers[0].Headers, "Idempotent-Replayed")
	return exchange.Endpoint{
		ID: e.ID, Name: route, Methods: exchange.Posting, Path: e.Path,
		On: exchange.OnAdmin, Op: op, Target: e.Target, RecordsItself: true,
		Doc: e.Doc, Headers: []string{"Idempotency-Key"},
		Body: []exchange.Payload{exchange.JSONBody[Req]()}, BodyOptional: true,
		Answers: answers, Fails: apiFails, ErrorHeaders: []string{"Idempotent-Replayed"},
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error {
			id, err := requestIDOf(w, r.Header.Values("Idempotency-Key"))
			if err != nil {
				return err
			}
			raw, req, err := exchange.ReadJSON[Req](g.bodies, w, r)
			if err != nil {
				return err
			}
			of, label, name := about(&req), "", ""
			if of.name != nil {
				if name, err = g.authorizeName(w, r, op, *of.name, of.key); err != nil {
					return err
				}
				*of.name = name
			}
			if of.label != nil {
				if err := w.Authorize(r, capability.Request{Op: op, Label: *of.label}); err != nil {
					return err
				}
				label = w.Label(*of.label)
				*of.label = label
			}
			if !of.allowDenied {
				if err := exchange.CheckDenied(g.denylist, of.key); err != nil {
					return err
				}
			}
			asked := b3.Sum(append([]byte(r.Method+" "+r.URL.EscapedPath()+"\n"+label+"\n"+name+"\n"), raw...))
			body, replayed, err := g.idempotency.do(id, asked, func() ([]byte, error) {
				e := w.Event(route, r)
				e.Op, e.Object, e.Name, e.Label, e.Frees = string(op), of.key, name, label, exchange.FreesSpace(op, r)
				if err := w.Record(r, e); err != nil {
					return nil, err
				}
				v, err := call(r.Context(), g.node, req)
				if err != nil {
					return nil, exchange.CauseOf(r.Context(), err)
				}
				p, err := json.Marshal(v)
				if err != nil {
					return nil, fmt.Errorf("encode the answer: %w", err)
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

// reindex publishes one object, or every pinned one.
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
	for p, err := range n.Pins(ctx) { // ordered by address, so the pins of an object are adjacent
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
