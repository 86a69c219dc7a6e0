package server

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

// listenSocket listens on a Unix socket that only its owner can reach: 0600,
// in a directory 0700. A socket that a dead node left is replaced.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("gateway: make the socket's directory: %w", err)
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
		return nil, fmt.Errorf("gateway: listen on the Unix socket: %w", err)
	}
	// The directory has kept others out since before the socket existed.
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("gateway: close the Unix socket to others: %w", err)
	}
	return l, nil
}

// removeStale removes a socket on which nobody listens.
func removeStale(ctx context.Context, path string) error {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("gateway: look at the Unix socket: %w", err)
	case fi.Mode().Type() != fs.ModeSocket:
		return status.Errorf(status.Conflict, "gateway: %s is in the way of the node's socket; remove it", path)
	}
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		c.Close()
		return status.Errorf(status.Conflict, "gateway: another node listens on %s; stop it, or use another --home", path)
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("gateway: see whether a node listens on %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("gateway: remove the socket of a node that is gone: %w", err)
	}
	return nil
}

// peerAllowed refuses whoever is on the other end of a Unix socket unless it is
// the node's own user or root. It has no opinion on other connections.
func peerAllowed(c net.Conn) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil
	}
	uid, err := peerUID(u)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // the directory's mode is the guard there
	}
	if err != nil {
		return fmt.Errorf("gateway: who is on the socket: %w", err)
	}
	return allowUID(uid, os.Geteuid())
}

func allowUID(uid, own int) error {
	if uid != own && uid != 0 {
		return status.Errorf(status.Forbidden, "gateway: user %d may not use the socket of user %d", uid, own)
	}
	return nil
}
