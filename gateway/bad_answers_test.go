package gateway

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// answers is a server that returns what it is told to, and tells which operation was asked for.
type answers struct {
	routes []exchange.Endpoint
	asked  atomic.Pointer[exchange.Endpoint]
	send   atomic.Pointer[func(http.ResponseWriter)]
}

// ServeHTTP implements http.Handler.
func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	for i, e := range a.routes {
		if e.On&exchange.OnAdmin != 0 && e.Path == r.URL.Path && slices.Contains(e.Methods, r.Method) {
			a.asked.Store(&a.routes[i])
		}
	}
	(*a.send.Load())(w)
}

// listenForClient serves h on a Unix socket and returns a client of it.
func listenForClient(t *testing.T, h http.Handler) *client.Client {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	s, done := &http.Server{Handler: h}, make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	c, err := client.New(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close(); <-done })
	return c
}

// argument returns an argument of type of for a method of the client.
func argument(t *testing.T, of reflect.Type) reflect.Value {
	switch of {
	case reflect.TypeFor[context.Context]():
		return reflect.ValueOf(t.Context())
	case reflect.TypeFor[io.Reader]():
		return reflect.ValueOf(strings.NewReader("sent"))
	case reflect.TypeFor[string]():
		return reflect.ValueOf("b3:" + strings.Repeat("0", 64))
	case reflect.TypeFor[[]b3.Root]():
		return reflect.ValueOf(make([]b3.Root, 1))
	}
	if of.Kind() == reflect.Func {
		return reflect.MakeFunc(of, func([]reflect.Value) (out []reflect.Value) {
			for o := range of.Outs() {
				out = append(out, reflect.Zero(o))
			}
			return out
		})
	}
	return reflect.Zero(of)
}

// outcomeOf reads what a method returned to its end and returns its error.
func outcomeOf(results []reflect.Value) (err error) {
	for _, r := range results {
		if s, ok := r.Interface().(*api.Stream); ok && s != nil {
			_, err = io.Copy(io.Discard, s.Body)
			_ = s.Body.Close()
		}
		if r.Kind() == reflect.Func { // an iter.Seq2 of a value and an error
			for _, e := range r.Seq2() {
				if e, ok := e.Interface().(error); ok {
					err = e
				}
			}
		}
		if e, ok := r.Interface().(error); ok && e != nil {
			err = e
		}
	}
	return err
}

// badAnswers returns answers of an operation, each with one mistake, and their media types.
func badAnswers(e *exchange.Endpoint) (all []badJSON, media []string) {
	add := func(m string, of reflect.Type, format func(string) string) {
		if of == nil {
			return
		}
		for _, bad := range badTexts(of) {
			bad.text = format(bad.text)
			all, media = append(all, bad), append(media, m)
		}
	}
	for _, reply := range e.Answers {
		switch reply.Media {
		case exchange.MediaJSON:
			if !reply.Array { // the client asks for lines
				add(reply.Media, reply.Of, func(s string) string { return s })
			}
		case exchange.MediaLines:
			add(reply.Media, reply.Of, func(s string) string { return `{"item":` + s + "}\n{\"ok\":{}}\n" })
			add(reply.Media, reply.Last, func(s string) string { return `{"ok":` + s + "}\n" })
			add(reply.Media, reflect.TypeFor[api.Line](), func(s string) string { return s + "\n" })
		case exchange.MediaEvents:
			add(reply.Media, reply.Of, func(s string) string { return "event: names\ndata: " + s + "\n\n" })
		}
	}
	return all, media
}

// TestBadJSONAnswers calls every operation that the client has, and answers with each mistake that the
// type of its answer allows. The client never panics. A number that does not fit is upstream or
// transport_down, and is never taken for another number.
func TestBadJSONAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("one call after another; TestEveryOperation has the same goroutines")
	}
	t.Parallel()
	a := &answers{routes: routes()}
	c := listenForClient(t, a)
	known := []status.Outcome{status.Upstream, status.TransportDown}
	tried, texts := map[string]bool{}, 0
	for _, of := range []reflect.Value{reflect.ValueOf(c), reflect.ValueOf(c.Admin(""))} {
		for m := range of.Type().Methods() {
			in := slices.Collect(m.Type.Ins())[1:] // without the receiver
			if len(in) == 0 || in[0] != reflect.TypeFor[context.Context]() ||
				slices.Contains(in, reflect.TypeFor[*os.File]()) {
				continue
			}
			call := func(send func(http.ResponseWriter)) error {
				a.send.Store(&send)
				args := make([]reflect.Value, len(in))
				for i, p := range in {
					args[i] = argument(t, p)
				}
				return outcomeOf(of.Method(m.Index).Call(args))
			}
			a.asked.Store(nil)
			_ = call(func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot) })
			e := a.asked.Load()
			if e == nil {
				t.Errorf("%s asks for no operation", m.Name)
				continue
			}
			tried[e.ID] = true
			bad, media := badAnswers(e)
			texts += len(bad)
			for i, b := range bad {
				err := call(func(w http.ResponseWriter) {
					w.Header().Set("Content-Type", media[i])
					_, _ = io.WriteString(w, b.text)
				})
				var typed *status.Error
				if slices.Contains(known, status.Of(err)) || !b.number && (err == nil || errors.As(err, &typed)) {
					continue
				}
				t.Errorf("%s: %s (%.120s): %v", m.Name, b.what, b.text, err)
			}
			for _, b := range badTexts(reflect.TypeFor[api.Problem]()) {
				texts++
				if err := call(func(w http.ResponseWriter) {
					w.Header().Set("Content-Type", exchange.MediaProblem)
					w.WriteHeader(http.StatusNotFound)
					_, _ = io.WriteString(w, b.text)
				}); err == nil || b.number && status.Of(err) != status.Upstream {
					t.Errorf("%s: a problem with %s (%.120s): %v", m.Name, b.what, b.text, err)
				}
			}
		}
	}
	t.Logf("%d texts to %d operations: %s", texts, len(tried), slices.Sorted(maps.Keys(tried)))
}
