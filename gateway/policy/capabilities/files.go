package capabilities

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"allium/internal/privatefile"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// The files of capabilities below a home directory.
const (
	RingFile    = "capability.keys" // the root keys
	revokedFile = "capability.revoked"
)

// Files are the key ring of a home directory and its list of revocations. Commands
// read and change them; a running node notices a change within a second. A change is
// atomic, and one runs at a time.
type Files struct{ home string }

// Open returns the files of a home directory. It reads nothing yet.
func Open(home string) Files { return Files{home: home} }

// Ring reads the key ring. It is empty if there is no file.
func (c Files) Ring() (capability.Ring, error) {
	p, err := readPrivate(filepath.Join(c.home, RingFile), capability.MaxRing, privatefile.NoAccess)
	if err != nil || p == nil {
		return capability.Ring{}, err
	}
	r, err := capability.ParseRing(p)
	if err != nil {
		return r, status.Errorf(status.Corrupt,
			"%s: %w; restore it from a backup, or move it away and mint new capabilities; if it was edited by hand, "+
				"end its first line with 1 instead of 2", filepath.Join(c.home, RingFile), err)
	}
	return r, nil
}

// Revoked reads the list of revocations. It is empty if there is no file.
func (c Files) Revoked() (capability.Revocations, error) {
	p, err := readPrivate(filepath.Join(c.home, revokedFile), capability.MaxRevoked, privatefile.NoWrites)
	if err != nil || p == nil {
		return capability.Revocations{}, err
	}
	r, err := capability.ParseRevocations(p)
	if err != nil {
		return r, status.Errorf(status.Corrupt,
			"%s: %w; restore it from a backup, or repair the line and end the first one with 1 instead of 2",
			filepath.Join(c.home, revokedFile), err)
	}
	return r, nil
}

// Both reads the ring and the list. A list that is missing although something was
// revoked is status.Corrupt: without it, revoked capabilities would be valid again.
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
		return ring, list, status.Errorf(status.Corrupt,
			"%s is missing, and what was revoked with the keys of %s would count again; restore it from a backup or "+
				"copy it from another node with these keys; only if nothing in it counts any more, write the line "+
				"\"allium-capability-revoked/1\" into it (mode 0600)", name, filepath.Join(c.home, RingFile))
	}
	return ring, list, nil
}

// Mint makes a capability with the current key. If there is no ring, Mint creates
// one first.
func (c Files) Mint(ctx context.Context, caveats ...capability.Caveat) (string, error) {
	r, err := c.Ring()
	if err != nil {
		return "", err
	}
	if len(r.Keys()) == 0 {
		r, err = c.change(ctx, func(r capability.Ring) (capability.Ring, error) {
			if len(r.Keys()) > 0 {
				return r, nil // another command has created it meanwhile
			}
			return r.Rotate(time.Now())
		})
		if err != nil {
			return "", err
		}
	}
	return r.Mint(time.Now(), caveats...)
}

// Rotate adds a key, with which capabilities are minted from now on.
func (c Files) Rotate(ctx context.Context) (capability.Ring, error) {
	return c.change(ctx, func(r capability.Ring) (capability.Ring, error) { return r.Rotate(time.Now()) })
}

// Retire removes the key kid, which ends every capability minted with it.
func (c Files) Retire(ctx context.Context, kid uint32) (capability.Ring, error) {
	return c.change(ctx, func(r capability.Ring) (capability.Ring, error) { return r.Retire(kid) })
}

// change replaces the ring by the result of f, and returns it.
func (c Files) change(
	ctx context.Context, f func(capability.Ring) (capability.Ring, error),
) (r capability.Ring, err error) {
	err = c.locked(ctx, func() error {
		if r, err = c.Ring(); err != nil {
			return err
		}
		if r, err = f(r); err != nil {
			return err
		}
		return replacePrivate(filepath.Join(c.home, RingFile), r.Text())
	})
	return r, err
}

// Revoke adds a revocation to the list: it ends capabilities before they expire.
func (c Files) Revoke(ctx context.Context, what capability.Revocation) error {
	return c.locked(ctx, func() error {
		ring, list, err := c.Both()
		if err != nil {
			return err
		}
		if list, err = list.Revoke(time.Now(), what); err != nil {
			return err
		}
		err = replacePrivate(filepath.Join(c.home, revokedFile), list.Text())
		if err != nil || len(ring.Keys()) == 0 || ring.Revokes() {
			return err
		}
		return replacePrivate(filepath.Join(c.home, RingFile), ring.Revoking().Text())
	})
}

// locked runs f while no other process changes the files.
func (c Files) locked(ctx context.Context, f func() error) error {
	return privatefile.Locked(ctx, c.home, f)
}

// readPrivate reads a file as [privatefile.Read] does. If there is no file, it
// returns nil.
func readPrivate(name string, limit int64, refused fs.FileMode) ([]byte, error) {
	p, err := privatefile.Read(name, limit, refused)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return p, err
}

// replacePrivate replaces the content of a file as [privatefile.Replace] does, unless it has
// that content already.
func replacePrivate(name string, p []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, p) {
		return nil
	}
	return privatefile.Replace(name, p)
}
