package client

import (
	"bytes"
	"context"
	"io"
	"iter"
	"net/http"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// MaxRoots is how many addresses one call of Keep or Files takes.
const MaxRoots = 4096

// Change is one entry that is not the same in two directories.
type Change struct {
	Op   Op     `json:"op"`
	Path string `json:"path"`          // slash-separated; "" is what the keys name themselves
	Old  *Entry `json:"old,omitempty"` // nil: added
	New  *Entry `json:"new,omitempty"` // nil: removed
}

// Op is what became of an entry.
type Op string

// The kinds of change. Changed means another kind, content, executable bit or
// link target.
const (
	AddedEntry   Op = "added"
	RemovedEntry Op = "removed"
	ChangedEntry Op = "changed"
)

// Diff implements Store.
func (c *Client) Diff(ctx context.Context, from, to string) iter.Seq2[Change, error] {
	return sequence[Change](ctx, c, request{method: http.MethodGet, path: api("diff"), query: query("from", from, "to", to)})
}

// Keep implements Store.
func (c *Client) Keep(ctx context.Context, roots []b3.Root) ([]bool, error) {
	body, err := rootsBody(roots)
	if err != nil {
		return nil, err
	}
	have, err := send[[]bool](ctx, c, http.MethodPost, api("keep"), nil, body)
	if err == nil && len(have) != len(roots) {
		err = status.Errorf(status.Upstream, "the node answered keep for %d addresses of %d", len(have), len(roots))
	}
	return have, err
}

// Files implements Store.
func (c *Client) Files(ctx context.Context, roots []b3.Root) (*Stream, error) {
	body, err := rootsBody(roots)
	if err != nil {
		return nil, err
	}
	return c.stream(ctx, http.MethodPost, api("files"), nil, body)
}

// rootsBody is the request body of Keep and Files: the digests, 32 bytes each.
func rootsBody(roots []b3.Root) (io.Reader, error) {
	if err := CheckRoots(len(roots)); err != nil {
		return nil, err
	}
	p := make([]byte, 0, len(roots)*b3.Size)
	for _, r := range roots {
		p = append(p, r[:]...)
	}
	return bytes.NewReader(p), nil
}

// CheckRoots refuses a call with no address or more than MaxRoots.
func CheckRoots(n int) error {
	if n < 1 || n > MaxRoots {
		return status.Errorf(status.BadRequest, "%d addresses in one call; 1 to %d are taken", n, MaxRoots)
	}
	return nil
}
