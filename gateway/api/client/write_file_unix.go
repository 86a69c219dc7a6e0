//go:build unix

package client

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"sync"

	"allium/gateway/api"
)

// fileWriter returns the WriteFile of the stream s: it passes the file to the node, which writes it. When
// the node has begun, it closes the body of s.
func (c *Client) fileWriter(
	ctx context.Context, key string, s *api.Stream,
) func(*os.File, string, api.ProgressFunc) (bool, error) {
	return func(f *os.File, at string, report api.ProgressFunc) (bool, error) {
		begun := sync.OnceFunc(func() { _ = s.Body.Close() })
		progress := func(p api.Progress) {
			begun()
			if report != nil {
				report(p)
			}
		}
		path := api.PathPrefix + "get/file"
		raw, err := passTo(c, f).lines(ctx, request{
			method: http.MethodGet, path: path, progress: progress,
			query: api.EncodeQuery(api.GetFileRequest{AskedRequest: c.Asked(key), Root: s.Root.String(), Path: at}),
		}, func(json.RawMessage) error { return nil }) // it has no items
		if err != nil {
			return false, err
		}
		var w api.Written
		if err := decode(path, raw, &w); err != nil {
			return false, err
		}
		return w.Moved, nil
	}
}
