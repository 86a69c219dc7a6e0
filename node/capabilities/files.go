package capabilities

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	homedir "allium/node/home"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/limits"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// The files of capabilities below a home directory.
const (
	ringFile    = "capability.keys"
	revokedFile = "capability.revoked"
)

// homeLockWait is how long one command waits until another has changed the
// files of capabilities.
const homeLockWait = 5 * time.Second

// Files is the key ring of a home directory and the list of what is
// revoked, as commands read and change them; a running node sees what they did
// within a second. Changes are whole or not at all, and one at a time.
type Files struct{ home string }

// Open returns those of a home directory. It reads nothing yet.
func Open(home string) Files { return Files{home: home} }

// Ring reads the key ring; where there is none it is empty.
func (c Files) Ring() (capability.Ring, error) {
	p, err := readPrivate(filepath.Join(c.home, ringFile), capability.MaxRing, 0o077)
	if err != nil || p == nil {
		return capability.Ring{}, err
	}
	r, err := capability.ParseRing(p)
	if err != nil {
		return r, status.Errorf(status.Corrupt, "%s: %w; restore it from a backup, or move it away and mint new capabilities; if it was edited by hand, end its first line with 1 instead of 2", filepath.Join(c.home, ringFile), err)
	}
	return r, nil
}

// Revoked reads the list of what is revoked; where there is none it is empty.
func (c Files) Revoked() (capability.Revocations, error) {
	p, err := readPrivate(filepath.Join(c.home, revokedFile), capability.MaxRevoked, 0o022)
	if err != nil || p == nil {
		return capability.Revocations{}, err
	}
	r, err := capability.ParseRevocations(p)
	if err != nil {
		return r, status.Errorf(status.Corrupt, "%s: %w; restore it from a backup, or repair the line and end the first one with 1 instead of 2", filepath.Join(c.home, revokedFile), err)
	}
	return r, nil
}

// Both reads the ring and the list. A list that is missing although something
// was revoked is corrupt: without it all of that would count again.
func (c Files) Both() (capability.Ring, capability.Revocations, error) {
	ring, err := c.Ring()
	if err != nil {
		return ring, capability.Revocations{}, err
	}
	list, err := c.Revoked()
	if err != nil {
		return ring, list, err
	}
	name := filepath.Join(c.home, revokedFile)
	if _, serr := os.Stat(name); ring.Revokes() && errors.Is(serr, fs.ErrNotExist) {
		return ring, list, status.Errorf(status.Corrupt, "%s is missing, and what was revoked with the keys of %s would count again; restore it from a backup or copy it from another node with these keys; only if nothing in it counts any more, write the line \"allium-capability-revoked/1\" into it (mode 0600)", name, filepath.Join(c.home, ringFile))
	}
	return ring, list, nil
}

// Mint makes a capability with the current key; where there is no ring it makes
// one first.
func (c Files) Mint(ctx context.Context, caveats ...capability.Caveat) (string, error) {
	r, err := c.Ring()
	if err != nil {
		return "", err
	}
	if len(r.Keys()) == 0 {
		r, err = c.change(ctx, func(r capability.Ring) (capability.Ring, error) {
			if len(r.Keys()) > 0 {
				return r, nil // somebody else was first
			}
			return r.Rotate(time.Now())
		})
		if err != nil {
			return "", err
		}
	}
	return r.Mint(time.Now(), caveats...)
}

// Rotate adds a key that new capabilities are minted with.
func (c Files) Rotate(ctx context.Context) (capability.Ring, error) {
	return c.change(ctx, func(r capability.Ring) (capability.Ring, error) { return r.Rotate(time.Now()) })
}

// Retire removes a key, and so ends what it minted.
func (c Files) Retire(ctx context.Context, kid uint32) (capability.Ring, error) {
	return c.change(ctx, func(r capability.Ring) (capability.Ring, error) { return r.Retire(kid) })
}

// change replaces the ring by what f makes of it.
func (c Files) change(ctx context.Context, f func(capability.Ring) (capability.Ring, error)) (r capability.Ring, err error) {
	err = c.locked(ctx, func() error {
		if r, err = c.Ring(); err != nil {
			return err
		}
		if r, err = f(r); err != nil {
			return err
		}
		return replacePrivate(filepath.Join(c.home, ringFile), r.Text())
	})
	return r, err
}

// Revoke ends capabilities before they expire.
func (c Files) Revoke(ctx context.Context, what capability.Revocation) error {
	return c.locked(ctx, func() error {
		ring, list, err := c.Both()
		if err != nil {
			return err
		}
		if list, err = list.Revoke(time.Now(), what); err != nil {
			return err
		}
		if err := replacePrivate(filepath.Join(c.home, revokedFile), list.Text()); err != nil || len(ring.Keys()) == 0 || ring.Revokes() {
			return err
		}
		return replacePrivate(filepath.Join(c.home, ringFile), ring.Revoking().Text())
	})
}

// locked runs f while no other process changes the files. The lock is on the
// directory, so that there is no file for it.
func (c Files) locked(ctx context.Context, f func() error) error {
	if err := os.MkdirAll(c.home, 0o700); err != nil {
		return fmt.Errorf("the home directory: %w", err)
	}
	dir, err := os.Open(c.home)
	if err != nil {
		return fmt.Errorf("the home directory: %w", err)
	}
	defer dir.Close() // and with it the lock
	ctx, cancel := context.WithTimeout(ctx, homeLockWait)
	defer cancel()
	for {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f()
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("lock %s: %w", c.home, err)
		}
		if err := limits.Sleep(ctx, 10*time.Millisecond); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				return status.Errorf(status.Timeout, "another command has been changing the capabilities of %s for %s; end it, or try again", c.home, homeLockWait)
			}
			return err
		}
	}
}

// Audience is the peer id that the home directory's node has, or, where id is
// not "self", the printed form of id.
func (c Files) Audience(id string) (string, error) {
	if id != "self" {
		p, err := peer.Decode(id)
		if err != nil {
			return "", status.Errorf(status.BadRequest, "%q is not a peer id; `allium id` prints one", id)
		}
		return p.String(), nil
	}
	if _, err := os.Stat(filepath.Join(c.home, homedir.KeyFile)); err != nil {
		return "", status.Errorf(status.BadRequest, "%s has no identity yet, so a capability cannot be for it alone; run `allium init`, or write the peer id: %w", c.home, err)
	}
	key, err := homedir.Identity(c.home, true)
	if err != nil {
		return "", err
	}
	p, err := peer.IDFromPrivateKey(key)
	return p.String(), err
}

// readPrivate reads a file of at most that many bytes, nil where there is none.
// A mode that lets others do what they must not is forbidden.
func readPrivate(name string, most int64, mustNot fs.FileMode) ([]byte, error) {
	info, err := os.Stat(name) // before opening: a pipe would block
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("capabilities: %w", err)
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, status.Errorf(status.Corrupt, "%s is not a regular file; move it away", name)
	case info.Mode().Perm()&mustNot != 0:
		return nil, status.Errorf(status.Forbidden, "%s is open to other users (mode %04o); chmod 600 it, and rotate its keys if somebody may have read it", name, info.Mode().Perm())
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("capabilities: %w", err)
	}
	defer f.Close()
	p, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("capabilities: %s: %w", name, err)
	}
	if p == nil {
		p = []byte{} // empty, which is not the same as absent
	}
	return p, nil
}

// replacePrivate gives a file its content in one step: after a crash it has the
// old or the new one, and it was never open to others.
func replacePrivate(name string, p []byte) (err error) {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, p) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".capability-*") // mode 0600
	if err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error is the one to tell
		}
	}()
	_, err = f.Write(p)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if err = os.Rename(f.Name(), name); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if err = errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}
