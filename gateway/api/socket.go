package api

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"allium/internal/privatefile"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// maxSocketPath is the longest path that fits sockaddr_un with its final NUL.
const maxSocketPath = 107

// SocketPath returns the path of the socket of the node with a home directory. It is
// run/api.sock below the home. If that path is longer than 107 bytes, the socket is
// below the temporary directory, in a directory named after the user and a hash of the
// home.
//
// A node that starts with its home on a read-only file system also listens below the
// temporary directory, and SocketPath returns that path if a socket is there. A node
// that started before its home became read-only keeps its path below the home.
func SocketPath(home string) (string, error) {
	below, temp, err := socketPaths(home)
	if err != nil || below == "" {
		return temp, err
	}
	if readOnly(home) {
		if _, err := os.Lstat(temp); err == nil {
			return temp, nil
		}
	}
	return below, nil
}

// ListenPath returns the path at which a node that starts now must listen.
func ListenPath(home string) (string, error) {
	below, temp, err := socketPaths(home)
	if err != nil || below == "" || temp != "" && readOnly(home) {
		return temp, err
	}
	return below, nil
}

// socketPaths returns the path below the home directory and the path below the
// temporary directory. A path that is too long is empty. If both are too long, it
// returns bad_request.
func socketPaths(home string) (below, temp string, err error) {
	abs, err := filepath.Abs(home)
	if err != nil {
		return "", "", fmt.Errorf("client: home directory %s: %w", home, err)
	}
	if below = filepath.Join(abs, "run", "api.sock"); len(below) > maxSocketPath {
		below = ""
	}
	sum := b3.Sum([]byte(abs))
	dir := fmt.Sprintf("allium-%d-%s", os.Geteuid(), hex.EncodeToString(sum[:8]))
	for _, tmp := range []string{os.TempDir(), "/tmp"} {
		if p := filepath.Join(tmp, dir, "api.sock"); len(p) <= maxSocketPath {
			return below, p, nil
		}
	}
	if below == "" {
		err = status.Errorf(status.BadRequest, "the home directory's path is too long for a socket (%d bytes); use a "+
			"shorter one", len(abs))
	}
	return below, "", err
}

// CheckSocketDir returns forbidden if another user could have made a socket directory
// or can use it. It must be a directory, not a link, that the user owns and that is
// closed to group and others. A missing directory is fs.ErrNotExist.
func CheckSocketDir(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("client: socket directory: %w", err)
	}
	uid, known := privatefile.Owner(fi)
	switch {
	case !fi.IsDir():
		return status.Errorf(status.Forbidden,
			"%s is not a directory, so the node's socket cannot be in it; remove it", dir)
	case known && uid != os.Geteuid():
		return status.Errorf(status.Forbidden,
			"%s belongs to user %d; run as that user, or use another --home", dir, uid)
	case runtime.GOOS != "windows" && fi.Mode().Perm()&0o077 != 0:
		return status.Errorf(status.Forbidden,
			"%s is open to other users (mode %04o); chmod 700 it", dir, fi.Mode().Perm())
	}
	return nil
}
