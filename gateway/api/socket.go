package api

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// maxSocketPath is the longest path that fits sockaddr_un with its final NUL.
const maxSocketPath = 107

// SocketPath is where the node with that home directory listens: run/api.sock
// below it. Where that is longer than 107 bytes, the socket is in a directory
// of the temporary directory named after the user and a hash of the home. It is
// there too when the home is on a read-only file system and the node was started
// on it: a node that runs since before is reached where it was.
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

// ListenPath is the SocketPath of a node that is about to listen.
func ListenPath(home string) (string, error) {
	below, temp, err := socketPaths(home)
	if err != nil || below == "" || temp != "" && readOnly(home) {
		return temp, err
	}
	return below, nil
}

// socketPaths are the path below the home directory, empty where it is too long,
// and the one in the temporary directory, which is empty at most where the other
// is not.
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
		err = status.Errorf(status.BadRequest, "the home directory's path is too long for a socket (%d bytes); use a shorter one", len(abs))
	}
	return below, "", err
}

// CheckSocketDir refuses a socket directory that someone else could have made
// or can write to: it must be a directory, not a link, owned by the user, with
// mode 0700. A missing directory is fs.ErrNotExist.
func CheckSocketDir(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("client: socket directory: %w", err)
	}
	uid, known := owner(fi)
	switch {
	case !fi.IsDir():
		return status.Errorf(status.Forbidden, "%s is not a directory, so the node's socket cannot be in it; remove it", dir)
	case known && uid != os.Geteuid():
		return status.Errorf(status.Forbidden, "%s belongs to user %d; run as that user, or use another --home", dir, uid)
	case runtime.GOOS != "windows" && fi.Mode().Perm()&0o077 != 0:
		return status.Errorf(status.Forbidden, "%s is open to other users (mode %04o); chmod 700 it", dir, fi.Mode().Perm())
	}
	return nil
}
