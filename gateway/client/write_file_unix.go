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

// fileWriter returns the WriteFile of a stream of o: it passes the file to the node, which writes it.
func (c *Client) fileWriter(ctx context.Context, key string, o api.Object) func(*os.File, api.ProgressFunc) error {
	return func(f *os.File, report api.ProgressFunc) error {
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
		_, err := passing.lines(ctx, request{
			method: http.MethodGet, path: verbPath("get/file"), progress: report,
			query: query("key", key, "root", o.Root.String(), "ask", c.asked()),
		}, func(json.RawMessage) error { return nil }) // it has no items
		return err
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
