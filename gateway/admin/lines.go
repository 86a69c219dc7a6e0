package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// lines writes an NDJSON answer (see package client), or JSON for a client that prefers it. It sends
// nothing before the first line, so an earlier error becomes a problem. One goroutine uses it.
type lines struct {
	w     *exchange.Response
	r     *http.Request
	flush flushMode
	shape shape
	count int // items sent
}

// flushMode tells when lines are sent.
type flushMode bool

const (
	flushEach     flushMode = true  // each line at once, for results that take time to find
	flushBuffered flushMode = false // when a buffer is full, for results that are all present
)

// shape is the form of an answer.
type shape uint8

const (
	asLines shape = iota
	asArray       // a JSON array of the items alone, which is not closed after an error
	asValue       // the result as one JSON value, for answers without items
)

// newLines returns the lines of an answer with items.
func newLines(w *exchange.Response, r *http.Request, f flushMode) *lines {
	l := &lines{w: w, r: r, flush: f}
	if prefersJSON(r) {
		l.shape = asArray
	}
	return l
}

// prefersJSON reports whether the client prefers one JSON value to lines. A client that accepts
// anything gets lines.
func prefersJSON(r *http.Request) bool {
	value, lines := 0.0, 0.0
	for t, q := range exchange.Accepted(r.Header.Values("Accept")) {
		switch t {
		case exchange.MediaJSON:
			value = max(value, q)
		case exchange.MediaLines:
			lines = max(lines, q)
		}
	}
	return value > lines
}

// begin sends the header, unless it was sent.
func (l *lines) begin() error {
	if l.w.Started() {
		return nil
	}
	if !l.r.ProtoAtLeast(1, 1) {
		return errNoLength
	}
	media := exchange.MediaLines
	if l.shape != asLines {
		media = exchange.MediaJSON
	}
	l.w.Header().Set("Content-Type", media)
	l.w.Header().Set("Cache-Control", "no-store")
	l.w.WriteHeader(http.StatusOK)
	return nil
}

// send writes one line. An array has no place for the lines beside items.
func (l *lines) send(line api.Line) error {
	if l.shape != asLines {
		return nil
	}
	p, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("encode a line: %w", err)
	}
	return l.write(append(p, '\n'))
}

// write sends the header and p.
func (l *lines) write(p []byte) error {
	if err := l.begin(); err != nil {
		return err
	}
	if _, err := l.w.Write(p); err != nil {
		return err
	}
	if l.flush == flushEach {
		return l.w.Flush()
	}
	return nil
}

// item writes the line of one item, of a batch of addresses, or of progress that cannot wait.
func (l *lines) item(v any) error {
	switch v := v.(type) {
	case []b3.Root:
		return l.send(api.Line{Roots: v})
	case api.Progress:
		return l.send(api.Line{Progress: &v})
	}
	p, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a line: %w", err)
	}
	if added, ok := v.(api.Added); ok {
		l.w.Root = added.Root
	}
	if l.shape == asLines {
		return l.send(api.Line{Item: p})
	}
	before := byte(',')
	if l.count == 0 {
		before = '['
	}
	l.count++
	return l.write(append([]byte{before}, p...))
}

// end writes the end of the answer with result or err. It returns an err before the first line, so
// that it becomes a problem, and after an item of an array, so that the connection is cut.
func (l *lines) end(result any, err error) error {
	if err != nil {
		if !l.w.Started() || l.w.Failed != nil || l.shape != asLines {
			return err
		}
		l.w.Reported = err
		rep := status.ReportOf(err)
		return l.send(api.Line{Error: &rep})
	}
	if l.shape == asArray {
		if l.count == 0 {
			return l.write([]byte("[]\n"))
		}
		return l.write([]byte("]\n"))
	}
	p, err := json.Marshal(result)
	switch {
	case err != nil:
		return fmt.Errorf("encode a line: %w", err)
	case l.shape == asValue:
		return l.write(append(p, '\n'))
	}
	return l.send(api.Line{OK: p})
}

// sendItems sends a sequence and returns the error that ended it.
func sendItems[T any](l *lines, seq iter.Seq2[T, error]) error {
	for v, err := range seq {
		if err == nil {
			err = l.item(v)
		}
		if err != nil {
			return exchange.CauseOf(l.r.Context(), err)
		}
	}
	return nil
}

// progressEvery is the interval between two lines of progress.
const progressEvery = 200 * time.Millisecond

// sendLines answers a verb in lines.
func (g *verbs) sendLines(w *exchange.Response, r *http.Request, v *api.Verb, node api.Node, req any) error {
	l := newLines(w, r, flushMode(v.Slow))
	if v.Items != nil {
		return l.end(struct{}{}, sendItems(l, v.Items(r.Context(), node, req)))
	}
	if l.shape == asArray && v.Item.NumField() == 0 {
		l.shape = asValue
	}
	got, err := g.runWithProgress(r.Context(), l, func(
		ctx context.Context, report api.ProgressFunc, item func(any) bool,
	) (any, error) {
		return v.Run(ctx, node, req, report, func(got any) error {
			if !item(got) {
				return context.Cause(ctx)
			}
			return nil
		})
	})
	if f, ok := got.(api.Fetched); ok {
		w.LookupID, _ = status.ParseLookupID(f.LookupID)
	}
	return l.end(got, err)
}

// runWithProgress runs work in a goroutine and writes its items and its latest progress. Only the
// handler's goroutine writes to the client, so work may report from any goroutine at any rate.
// item waits until its item is written; it returns false when ctx ends. runWithProgress returns
// after work has.
func (g *verbs) runWithProgress(
	ctx context.Context, l *lines,
	work func(ctx context.Context, report api.ProgressFunc, item func(any) bool) (result any, err error),
) (any, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var latest atomic.Pointer[api.Progress]
	report := func(p api.Progress) { latest.Store(&p) }
	items := make(chan any)
	item := func(v any) bool {
		select {
		case items <- v:
			return true
		case <-ctx.Done():
			return false
		}
	}
	var result any
	var err error
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		err = g.guard.Run(func() (err error) {
			result, err = work(ctx, report, item)
			return err
		})
	})
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		var sent error
		select {
		case <-done:
			wg.Wait()
			return result, exchange.CauseOf(ctx, err)
		case v := <-items:
			sent = l.item(v)
		case <-tick.C:
			if p := latest.Swap(nil); p != nil {
				sent = l.send(api.Line{Progress: p})
			}
		}
		if sent != nil {
			cancel(sent) // then wait until work returns
		}
	}
}
