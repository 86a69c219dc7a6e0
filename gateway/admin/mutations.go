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
)

// subject holds the key, name and label that a mutation acts on.
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
