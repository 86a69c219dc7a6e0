//go:build unix

package client

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"sync"

	"golang.org/x/sys/unix"

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
		tr := c.tr.Clone()
		tr.DisableKeepAlives = true
		dial := tr.DialContext
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &passingConn{UnixConn: conn.(*net.UnixConn), file: f}, nil
		}
		passing := *c
		passing.http = &http.Client{Transport: tr, CheckRedirect: refuseRedirect}
		path := api.PathPrefix + "get/file"
		raw, err := passing.lines(ctx, request{
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

// passingConn passes a file with its first bytes.
type passingConn struct {
	*net.UnixConn
	file *os.File
	once sync.Once
}

// Write implements net.Conn.
func (c *passingConn) Write(p []byte) (n int, err error) {
	if len(p) > 0 {
		c.once.Do(func() { n, err = c.pass(p) })
	}
	if err != nil || n == len(p) {
		return n, err
	}
	more, err := c.UnixConn.Write(p[n:])
	return n + more, err
}

// pass sends p, or the beginning of it, with the file.
func (c *passingConn) pass(p []byte) (n int, err error) {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var sendErr error
	if err := raw.Control(func(fd uintptr) {
		n, _, sendErr = c.WriteMsgUnix(p, unix.UnixRights(int(fd)), nil) //nolint:gosec // a descriptor fits
	}); err != nil {
		return 0, err
	}
	return n, sendErr
}
