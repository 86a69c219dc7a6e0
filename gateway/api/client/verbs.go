package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"strconv"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Add implements Store. After an error the transport may still read from tar for a
// moment, so the caller must not use the reader again.
func (c *Client) Add(ctx context.Context, tar io.Reader, o api.AddOptions,
	progress api.ProgressFunc) iter.Seq2[api.Added, error] {
	header := http.Header{}
	if o.Roots != nil {
		header.Set(api.HeaderRoots, "true")
	}
	sent := sequence[api.Added](ctx, c, request{
		method: http.MethodPost, path: api.PathPrefix + "add", query: api.EncodeQuery(o), header: header,
		body: io.NopCloser(tar), progress: progress, roots: o.Roots,
	})
	passing := (*Client)(nil)
	if o.File != nil {
		passing = passTo(c, o.File.File)
	}
	if passing == nil {
		return sent
	}
	passed := addFile(ctx, passing, o, progress)
	return func(yield func(api.Added, error) bool) {
		first := true
		for added, err := range passed {
			if first && takesNoFile(err) {
				sent(yield)
				return
			}
			first = false
			if !yield(added, err) {
				return
			}
		}
	}
}

// addFile adds the file that the connection of c passes.
func addFile(
	ctx context.Context, c *Client, o api.AddOptions, progress api.ProgressFunc,
) iter.Seq2[api.Added, error] {
	r := api.AddFileRequest{Name: o.File.Name, NoPin: o.NoPin, Label: o.Label, Target: o.Target}
	if !o.File.Root.IsZero() {
		r.Root = o.File.Root.String()
	}
	return sequence[api.Added](ctx, c, request{
		method: http.MethodPost, path: api.PathPrefix + "add/file", query: api.EncodeQuery(r), progress: progress,
	})
}

// takesNoFile reports whether err says that the node cannot add an open file: it is too old, or something between
// lost the descriptor.
func takesNoFile(err error) bool {
	switch status.Of(err) {
	case status.Unsupported, status.NotFound, status.Method, status.Upstream:
		return true
	}
	return false
}

// AskFirst implements Node.
func (c *Client) AskFirst(peers []string) (api.Node, error) {
	asking := *c
	asking.Remote = api.NewRemote(transport{c}, peers)
	return &asking, nil
}

// Get implements Store.
func (c *Client) Get(ctx context.Context, key string) (*api.Stream, error) {
	s, err := c.stream(ctx, http.MethodGet, api.PathPrefix+"get", api.EncodeQuery(c.Asked(key)), nil)
	if err == nil && c.socket != "" && s.Kind == api.File && s.Size >= api.LeastPassed {
		s.WriteFile = c.fileWriter(ctx, key, s)
	}
	return s, err
}

// Cat implements Store.
func (c *Client) Cat(ctx context.Context, key string, r b3.Range) (*api.Stream, error) {
	q := api.EncodeQuery(c.Asked(key))
	q.Set("start", strconv.FormatInt(r.Start, 10))
	q.Set("end", strconv.FormatInt(r.End, 10))
	return c.stream(ctx, http.MethodGet, api.PathPrefix+"cat", q, nil)
}

// FindProviders implements Node.
func (c *Client) FindProviders(ctx context.Context, key string, o api.FindOptions) iter.Seq2[api.Provider, error] {
	return sequence[api.Provider](ctx, c, request{
		method: http.MethodGet, path: api.PathPrefix + "providers", trace: o.Trace,
		query: api.EncodeQuery(api.FindRequest{Key: key, Query: o.Query, Trace: o.Trace != nil}),
	})
}

// Providers is FindProviders with nothing but a limit.
func (c *Client) Providers(ctx context.Context, key string, limit int) iter.Seq2[api.Provider, error] {
	return c.FindProviders(ctx, key, api.FindOptions{Query: api.Query{Limit: limit}})
}

// Version returns the version of the node. It may differ from the command's.
func (c *Client) Version(ctx context.Context) (v api.Version, err error) {
	err = transport{c}.Value(ctx, api.Request{Method: http.MethodGet, Path: api.PathPrefix + "version"}, &v)
	return v, err
}

// Limits lists the node's bounds.
func (c *Client) Limits(ctx context.Context) (v api.Limits, err error) {
	err = transport{c}.Value(ctx, api.Request{Method: http.MethodGet, Path: api.PathPrefix + "limits"}, &v)
	return v, err
}

// SetFaults implements Node.
func (c *Client) SetFaults(ctx context.Context, f api.Faults) (v api.Faults, err error) {
	err = transport{c}.Value(ctx, api.Request{Method: http.MethodPost, Path: api.PathPrefix + "faults/set", Body: f},
		&v)
	return v, err
}

// Keep implements Store.
func (c *Client) Keep(ctx context.Context, roots []b3.Root) (have []bool, err error) {
	body, err := rootsBody(roots)
	if err != nil {
		return nil, err
	}
	err = c.value(ctx, http.MethodPost, api.PathPrefix+"keep", nil, nil, body, &have)
	if err == nil && len(have) != len(roots) {
		err = status.Errorf(status.Upstream, "the node answered keep for %d addresses of %d", len(have), len(roots))
	}
	return have, err
}

// Files implements Store.
func (c *Client) Files(ctx context.Context, roots []b3.Root) (*api.Stream, error) {
	body, err := rootsBody(roots)
	if err != nil {
		return nil, err
	}
	return c.stream(ctx, http.MethodPost, api.PathPrefix+"files", nil, body)
}

// rootsBody returns the request body of Keep and Files: the digests, 32 bytes each.
// It returns bad_request for no roots, or more than api.MaxRoots.
func rootsBody(roots []b3.Root) (io.Reader, error) {
	if err := api.CheckRoots(len(roots)); err != nil {
		return nil, err
	}
	p := make([]byte, 0, len(roots)*b3.Size)
	for _, r := range roots {
		p = append(p, r[:]...)
	}
	return bytes.NewReader(p), nil
}

// transport sends the requests of verbs. It implements api.Transport.
type transport struct{ c *Client }

// Value implements api.Transport.
func (t transport) Value(ctx context.Context, r api.Request, res any) error {
	if r.Body == nil {
		return t.c.value(ctx, r.Method, r.Path, r.Query, nil, nil, res)
	}
	p, err := json.Marshal(r.Body)
	if err != nil {
		return status.Errorf(status.BadRequest, "%s: %w", r.Path, err) // a number that is NaN or infinite
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if r.Key != "" {
		header.Set("Idempotency-Key", r.Key)
	}
	return t.c.value(ctx, r.Method, r.Path, nil, header, bytes.NewReader(p), res)
}

// Lines implements api.Transport.
func (t transport) Lines(
	ctx context.Context, r api.Request, progress api.ProgressFunc, item func(decode func(any) error) error, res any,
) error {
	ok, err := t.c.lines(ctx, request{method: r.Method, path: r.Path, query: r.Query, progress: progress},
		func(raw json.RawMessage) error { return item(func(v any) error { return decode(r.Path, raw, v) }) })
	if err != nil || res == nil {
		return err
	}
	return decode(r.Path, ok, res)
}

// decode stores raw, of the answer to a request of path, in what v points to.
func decode(path string, raw []byte, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return unexpected(path, err)
	}
	return nil
}
