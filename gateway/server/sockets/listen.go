// Package sockets opens the Unix socket of the local API, and reports what the system knows of a
// connection: the user at the other end, the files that the client passed, and the bytes that it has not
// acknowledged.
package sockets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"allium/gateway/api"
	"allium/protocols/status"
)

// Listen opens a Unix socket of mode 0600 in a directory of mode 0700, so that only its
// owner reaches it. It replaces the socket of a node that no longer runs.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the socket's directory: %w", err)
	}
	if err := api.CheckSocketDir(dir); err != nil {
		return nil, err
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on the Unix socket: %w", err)
	}
	// The directory kept other users out before the socket existed.
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("set the mode of the Unix socket: %w", err)
	}
	return l, nil
}

// removeStale removes a socket without a listener. It returns conflict if another node listens,
// or if path is no socket.
func removeStale(ctx context.Context, path string) error {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("examine the Unix socket: %w", err)
	case fi.Mode().Type() != fs.ModeSocket:
		return status.Errorf(status.Conflict,
			"cannot create the node's socket: %s exists and is no socket. Remove it", path)
	}
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		c.Close()
		return status.Errorf(status.Conflict,
			"cannot create the node's socket: another node listens on %s. Stop it, or use another --home", path)
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("check whether a node listens on %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket of a stopped node: %w", err)
	}
	return nil
}

// Allowed returns forbidden for a Unix socket connection of another user than the node's
// own and root. It accepts every other connection.
func Allowed(c net.Conn) error {
	uid, err := PeerUID(c)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // it is no Unix socket; or the directory's mode alone keeps other users out
	}
	if err != nil {
		return fmt.Errorf("identify the socket's user: %w", err)
	}
	return allowUID(uid, os.Geteuid())
}

// PeerUID returns the user at the other end of a Unix socket, as the system noted it. It returns
// ErrUnsupported for other connections, and where the system does not report that.
func PeerUID(c net.Conn) (int, error) {
	u, ok := unixConn(c)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return peerUID(u)
}

func allowUID(uid, own int) error {
	if uid != own && uid != 0 {
		return status.Errorf(status.Forbidden, "user %d may not use the socket of user %d", uid, own)
	}
	return nil
}
