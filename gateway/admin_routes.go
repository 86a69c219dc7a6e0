package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// adminEndpoints are the mutations of SPEC §9: what the local API's verbs do,
// with JSON in and out, for programs that may have to repeat themselves.
var adminEndpoints = []endpoint{
	mutation("AdminPin", "pin", capability.Pin, "Keeps an object.", "the pin",
		func(r *client.PinRequest) subject { return subject{key: r.Key, label: &r.Label} },
		func(ctx context.Context, n Node, r client.PinRequest) (client.Pin, error) {
			return n.Pin(ctx, r.Key, client.PinOptions{Recursive: r.Recursive, Label: r.Label})
		}),
	mutation("AdminUnpin", "unpin", capability.Unpin, "Removes the pin with that label, or all of the object's pins.", "done",
		func(r *client.UnpinRequest) subject { return subject{key: r.Key, label: &r.Label, own: true} },
		func(ctx context.Context, n Node, r client.UnpinRequest) (struct{}, error) {
			return struct{}{}, n.Unpin(ctx, r.Key, r.Label)
		}),
	mutation("AdminReindex", "reindex", capability.Announce, "Tells the network again what this node provides: one object, or everything that is pinned.", "what was announced",
		func(r *client.ReindexRequest) subject { return subject{key: r.Key} }, reindex),
	mutation("AdminRepair", "repair", capability.Repair, "Reads an object or the whole store again, proves it, and fetches what is damaged or missing.", "what was found and mended",
		func(r *client.RepairRequest) subject { return subject{key: r.Key, own: true} }, repair),
	mutation("AdminGC", "gc", capability.GC, "Removes objects that nothing holds.", "what was done", noSubject,
		func(ctx context.Context, n Node, r client.GCRequest) (client.GCReport, error) {
			return n.GC(ctx, client.GCOptions{All: r.All, Dry: r.Dry, Fast: r.Fast}, func(client.Progress) {}, func(client.GCObject) error { return nil })
		}),
	mutation("Reload", "reload", capability.Reload, "Reads the node's files again. One that cannot be read leaves what was read of it before in force, and is named.", "what became of each file", noSubject,
		func(ctx context.Context, n Node, _ struct{}) (client.Reloaded, error) {
			v, err := n.Reload(ctx)
			v.Files = append([]client.ReloadedFile{}, v.Files...) // [] and not null
			return v, err
		}),
	mutation("AdminDrain", "drain", capability.Drain, "Begins the orderly shutdown of the node.", "it has begun", noSubject,
		func(ctx context.Context, n Node, _ struct{}) (struct{}, error) { return struct{}{}, n.Drain(ctx) }),
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
func mutation[Req, Res any](id, verb string, op capability.Op, doc, answer string, about func(*Req) subject, call func(context.Context, Node, Req) (Res, error)) endpoint {
	answers := value[Res](answer)
	answers[0].headers = append(answers[0].headers, "Idempotent-Replayed")
	return endpoint{
		id: id, name: "admin/" + verb, methods: posting, path: "/admin/" + verb, on: onAdmin, op: op, records: true,
		doc: doc, headers: []string{"Idempotency-Key"}, body: []payload{jsonBody[Req]()}, bodyOptional: true,
		answers: answers, fails: apiFails, tells: []string{"Idempotent-Replayed"},
		serve: func(g *Gateway, w *response, r *http.Request, _ input) error {
			id, err := onceIDOf(w, r.Header.Values("Idempotency-Key"))
			if err != nil {
				return err
			}
			raw, req, err := readJSON[Req](g, w, r)
			if err != nil {
				return err
			}
			of, label := about(&req), ""
			if of.label != nil {
				if err := g.allows(w, r, capability.Ask{Op: op, Label: *of.label}); err != nil {
					return err
				}
				label = w.label(*of.label)
				*of.label = label
			}
			if !of.own {
				if err := g.deniedKey(of.key); err != nil {
					return err
				}
			}
			asked := b3.Sum(append([]byte(r.Method+" "+r.URL.EscapedPath()+"\n"+label+"\n"), raw...))
			body, replayed, err := g.once.do(id, asked, func() ([]byte, error) {
				e := eventOf("admin/"+verb, w, r)
				e.Op, e.Object, e.Label = string(op), of.key, label
				if err := g.record(w, r, e); err != nil {
					return nil, err
				}
				v, err := call(r.Context(), g.deps.Node, req)
				if err != nil {
					return nil, causeOf(r.Context(), err)
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
			return w.send(r, http.StatusOK, mediaJSON, body)
		},
	}
}

// reindex announces one object, or each that is pinned.
func reindex(ctx context.Context, n Node, r client.ReindexRequest) (done client.Reindexed, err error) {
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
		return client.Reindexed{Objects: 1}, nil
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
func repair(ctx context.Context, n Node, r client.RepairRequest) (client.Repaired, error) {
	done := client.Repaired{Roots: []b3.Root{}}
	for v, err := range n.Verify(ctx, r.Key, client.VerifyOptions{Repair: true}) {
		if err != nil {
			return done, err
		}
		done.Objects++
		done.Bytes += v.Size
		if v.Repaired {
			done.Repaired++
		}
		if v.Error == nil {
			continue
		}
		if done.Bad++; len(done.Roots) < client.MaxBadRoots {
			done.Roots = append(done.Roots, v.Root)
		}
	}
	return done, nil
}
