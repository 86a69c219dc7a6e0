package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/capability"
)

// mutation returns the route at path of a verb that takes a JSON body and answers with JSON. An empty body is {}.
func (g *verbs) mutation(v *api.Verb, id, path string) exchange.Endpoint {
	route := strings.TrimPrefix(strings.Replace(path, api.PathPrefix, "/api/", 1), "/")
	answers := valueAnswers(v)
	answers[0].Headers = append(answers[0].Headers, "Idempotent-Replayed")
	e := exchange.Endpoint{
		ID: id, Name: route, Methods: exchange.Posting, Path: path, On: exchange.OnAdmin, Op: v.Op, RecordsItself: true,
		Doc: v.Doc, Headers: []string{"Idempotency-Key"},
		Body: []exchange.Payload{{Media: exchange.MediaJSON, Of: v.Request}}, BodyOptional: true,
		Answers: answers, Fails: apiFails, ErrorHeaders: []string{"Idempotent-Replayed"},
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return g.mutate(v, route, w, r) },
	}
	if reflect.New(v.Request).Type().Implements(reflect.TypeFor[subjected]()) &&
		reflect.New(v.Request).Interface().(subjected).Subject().Name != nil {
		e.Target = exchange.TargetByHandler
	}
	return e
}

// subjected are requests that act on something.
type subjected interface{ Subject() api.Subject }

// mutate runs a mutation and answers with its result.
func (g *verbs) mutate(v *api.Verb, route string, w *exchange.Response, r *http.Request) error {
	id, err := requestIDOf(w, r.Header.Values("Idempotency-Key"))
	if err != nil {
		return err
	}
	req := reflect.New(v.Request).Interface()
	raw, err := g.bodies.ReadJSON(w, r, req)
	if err != nil {
		return err
	}
	var of api.Subject
	if s, ok := req.(subjected); ok {
		of = s.Subject()
	}
	label, name := "", ""
	if of.Name != nil {
		if name, err = g.authorizeName(w, r, v.Op, *of.Name, of.Key); err != nil {
			return err
		}
		*of.Name = name
	}
	if of.Label != nil {
		if err := w.Authorize(r, capability.Request{Op: v.Op, Label: *of.Label}); err != nil {
			return err
		}
		label = w.Label(*of.Label)
		*of.Label = label
	}
	if !v.Manages {
		if err := exchange.CheckDenied(g.denylist, of.Key); err != nil {
			return err
		}
	}
	asked := b3.Sum(append([]byte(r.Method+" "+r.URL.EscapedPath()+"\n"+label+"\n"+name+"\n"), raw...))
	body, replayed, err := g.idempotency.do(id, asked, func() ([]byte, error) {
		e := w.Event(route, r)
		e.Op, e.Object, e.Name, e.Label, e.Frees = string(v.Op), of.Key, name, label, exchange.FreesSpace(v.Op, r)
		if err := w.Record(r, e); err != nil {
			return nil, err
		}
		res, err := v.Value(r.Context(), g.node, req)
		if err != nil {
			return nil, exchange.CauseOf(r.Context(), err)
		}
		p, err := json.Marshal(res)
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
}
