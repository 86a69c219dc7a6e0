package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"

	"allium/gateway/api"
	"allium/protocols/status"
)

// request is a call whose answer is NDJSON.
type request struct {
	method, path string
	query        url.Values
	body         io.Reader
	progress     api.ProgressFunc
	trace        *api.Trace // where the answer's goes; nil: none was asked for
}

// lines calls the verb and gives every item to item, every progress to
// r.progress and the trace to r.trace, and returns the result of the last line. An error of item ends
// the call.
func (c *Client) lines(ctx context.Context, r request, item func(json.RawMessage) error) (json.RawMessage, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // also ends the upload
	resp, err := c.call(ctx, r.method, r.path, r.query, r.body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	sc := bufio.NewScanner(resp.Body)
	sc.Buffer(make([]byte, 0, 16<<10), maxLine)
	for sc.Scan() {
		var l api.Line
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			return nil, status.Errorf(status.Upstream, "the node's answer to %s is not what this version of allium expects: %w", verb(r.path), err)
		}
		switch {
		case l.Error != nil:
			return nil, l.Error.Err(status.Internal.Code())
		case l.OK != nil:
			return l.OK, nil
		case l.Progress != nil && r.progress != nil:
			r.progress(*l.Progress)
		case l.Trace != nil && r.trace != nil:
			*r.trace = *l.Trace
		case l.Item != nil:
			if err := item(l.Item); err != nil {
				return nil, err
			}
		}
	}
	switch err := sc.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, status.Errorf(status.Upstream, "the node's answer to %s has a line of more than %d bytes", verb(r.path), maxLine)
	case err != nil:
		return nil, callError(ctx, r.path, err)
	}
	return nil, callError(ctx, r.path, io.ErrUnexpectedEOF) // no last line
}

// errStop ends lines when the caller of a sequence wants no more.
var errStop = errors.New("client: stopped")

// sequence is lines as a sequence of items.
func sequence[T any](ctx context.Context, c *Client, r request) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		_, err := c.lines(ctx, r, func(raw json.RawMessage) error {
			var v T
			if err := json.Unmarshal(raw, &v); err != nil {
				return status.Errorf(status.Upstream, "the node's answer to %s is not what this version of allium expects: %w", verb(r.path), err)
			}
			if !yield(v, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			var zero T
			yield(zero, err)
		}
	}
}

// stream calls a verb whose answer is bytes.
func (c *Client) stream(ctx context.Context, method, path string, q url.Values, send io.Reader) (*api.Stream, error) {
	resp, err := c.call(ctx, method, path, q, send)
	if err != nil {
		return nil, err
	}
	s := &api.Stream{Body: &body{ctx: ctx, resp: resp, path: path}}
	if err := json.Unmarshal([]byte(resp.Header.Get(api.HeaderObject)), &s.Object); err != nil {
		return nil, errors.Join(
			status.Errorf(status.Upstream, "the node's answer to %s is not what this version of allium expects: %w", verb(path), err),
			resp.Body.Close())
	}
	return s, nil
}

// body is a response's body whose end is believed only with its trailer.
type body struct {
	ctx  context.Context
	resp *http.Response
	path string
}

// Read is the body's Read; io.EOF means that the node said "ok".
func (b *body) Read(p []byte) (int, error) {
	n, err := b.resp.Body.Read(p)
	switch {
	case err == nil:
		return n, nil
	case err != io.EOF:
		return n, callError(b.ctx, b.path, err)
	}
	switch st := b.resp.Trailer.Get(api.HeaderStatus); st {
	case api.StatusOK:
		return n, io.EOF
	case "":
		return n, callError(b.ctx, b.path, io.ErrUnexpectedEOF)
	default:
		var r status.Report
		if err := json.Unmarshal([]byte(st), &r); err != nil {
			return n, status.Errorf(status.Upstream, "the node ended %s with a status this version of allium does not know: %w", verb(b.path), err)
		}
		return n, r.Err(status.Internal.Code())
	}
}

// Close ends the transfer.
func (b *body) Close() error { return b.resp.Body.Close() }
