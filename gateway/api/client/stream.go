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
	"allium/protocols/b3"
	"allium/protocols/status"
)

// request is a request whose answer is NDJSON, and where its lines go.
type request struct {
	method, path string
	query        url.Values
	body         io.Reader
	header       http.Header // added to the headers of every request; may be nil
	progress     api.ProgressFunc
	roots        func([]b3.Root)
	trace        *api.Trace // receives the trace; nil: none was requested
}

// lines sends the request and passes each line of the answer on: items to item,
// progress to r.progress, addresses to r.roots and the trace to r.trace. It returns
// the result in the last line. An error of item ends the request.
func (c *Client) lines(ctx context.Context, r request, item func(json.RawMessage) error) (json.RawMessage, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the upload of the body too
	resp, err := c.callWith(ctx, r.method, r.path, r.query, r.header, r.body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	sc := bufio.NewScanner(resp.Body)
	sc.Buffer(make([]byte, 0, 16<<10), maxLine)
	for sc.Scan() {
		var l api.Line
		if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
			return nil, unexpected(r.path, err)
		}
		switch {
		case l.Error != nil:
			return nil, l.Error.Err(status.Internal.Code())
		case l.OK != nil:
			return l.OK, nil
		case l.Progress != nil && r.progress != nil:
			r.progress(*l.Progress)
		case l.Roots != nil && r.roots != nil:
			r.roots(l.Roots)
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
		return nil, status.Errorf(status.Upstream,
			"the node's answer to %s has a line of more than %d bytes", verbOf(r.path),
			maxLine)
	case err != nil:
		return nil, callError(ctx, r.path, err)
	}
	return nil, callError(ctx, r.path, io.ErrUnexpectedEOF) // the line with ok or error is missing
}

// errStop ends lines when the caller of a sequence stops early.
var errStop = errors.New("client: stopped")

// sequence returns the items of an answer as a sequence. Each iteration sends the
// request anew.
func sequence[T any](ctx context.Context, c *Client, r request) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		_, err := c.lines(ctx, r, func(raw json.RawMessage) error {
			var v T
			if err := decode(r.path, raw, &v); err != nil {
				return err
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

// stream calls a verb whose answer is bytes. The caller closes the stream's Body.
func (c *Client) stream(ctx context.Context, method, path string, q url.Values, send io.Reader) (*api.Stream, error) {
	resp, err := c.call(ctx, method, path, q, send)
	if err != nil {
		return nil, err
	}
	s := &api.Stream{Body: &body{ctx: ctx, resp: resp, path: path}}
	if err := json.Unmarshal([]byte(resp.Header.Get(api.HeaderObject)), &s.Object); err != nil {
		return nil, errors.Join(
			unexpected(path, err),
			resp.Body.Close())
	}
	return s, nil
}

// body is the body of an answer. It ends with io.EOF only if the trailer says "ok".
type body struct {
	ctx  context.Context
	resp *http.Response
	path string
}

// Read implements io.Reader. io.EOF means that the body is complete. Otherwise Read
// returns the error in the trailer, or transport_down if the trailer is missing.
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
			return n, status.Errorf(status.Upstream,
				"the node ended %s with a status this version of allium does not know: %w",
				verbOf(b.path), err)
		}
		return n, r.Err(status.Internal.Code())
	}
}

// Close ends the transfer.
func (b *body) Close() error { return b.resp.Body.Close() }
