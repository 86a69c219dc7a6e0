package p2p

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/protocols/status"
)

// maxKeyFile is far above what a key file holds (93 bytes).
const maxKeyFile = 4 << 10

// LoadOrCreateKey returns the Ed25519 identity in the file at path. When there
// is none it makes one, with the directory, and returns after it is durable: a
// crash leaves a whole file or none, and of two processes that create at the
// same time both get the key of the one that won.
//
// The file is one line: base64 of the libp2p private key protobuf, as other
// libp2p programs write it. Its mode is 0600; a file that others can read is
// status.Forbidden, one that holds something else is status.Corrupt. Both name
// the file and the remedy.
func LoadOrCreateKey(path string) (crypto.PrivKey, error) {
	key, err := LoadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key, _, err = crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		return nil, err
	}
	if err := StoreKey(path, key); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return LoadKey(path)
}

// StoreKey writes an identity where there is none, as LoadOrCreateKey does;
// where there is one it is fs.ErrExist.
func StoreKey(path string, key crypto.PrivKey) error {
	if err := storeKey(path, key); err != nil {
		return fmt.Errorf("p2p: create the identity %s: %w", path, err)
	}
	return nil
}

// LoadKey is LoadOrCreateKey where there has to be a key; none is fs.ErrNotExist.
func LoadKey(path string) (crypto.PrivKey, error) {
	info, err := os.Stat(path) // before opening: a pipe would block
	if err != nil {
		return nil, fmt.Errorf("p2p: open the identity: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, status.Errorf(status.Corrupt, "p2p: the identity %s is not a regular file: move it away", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, status.Errorf(status.Forbidden, "p2p: the identity %s can be read by other users (mode %04o): run chmod 600 %s", path, mode, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("p2p: open the identity: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("p2p: read the identity %s: %w", path, err)
	}
	key, err := decodeKey(raw)
	if err != nil { // also with a key, which is not to be used
		return nil, status.Errorf(status.Corrupt, "p2p: %s does not hold an identity: %w; restore it from a backup, or move it away to get a new identity", path, err)
	}
	return key, nil
}

func decodeKey(raw []byte) (crypto.PrivKey, error) {
	if len(raw) > maxKeyFile {
		return nil, fmt.Errorf("more than %d bytes", maxKeyFile)
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, errors.New("it is empty")
	}
	pb, err := base64.StdEncoding.Strict().DecodeString(string(raw))
	if err != nil {
		return nil, errors.New("not base64")
	}
	key, err := crypto.UnmarshalPrivateKey(pb)
	if err != nil {
		return nil, errors.New("not a libp2p private key")
	}
	if key.Type() != crypto.Ed25519 {
		return nil, fmt.Errorf("a key of type %s, not Ed25519", key.Type())
	}
	return key, wholeKey(key, pb)
}

// wholeKey reports whether key is as it was written. Its public half, which is
// in the file too, is derived from the secret and compared: with another one the
// node would run, and nobody could prove to have reached it.
func wholeKey(key crypto.PrivKey, pb []byte) error {
	secret, err := key.Raw()
	if err != nil {
		return err
	}
	if len(secret) != ed25519.PrivateKeySize || !bytes.Equal(ed25519.NewKeyFromSeed(secret[:ed25519.SeedSize]), secret) {
		return errors.New("its public half does not belong to its secret one: it is damaged")
	}
	again, err := crypto.MarshalPrivateKey(key)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, pb) {
		return errors.New("it is not as it was written: it is damaged")
	}
	return nil
}

// storeKey writes a key beside path, makes it durable and gives it its name;
// fs.ErrExist when somebody else was first.
func storeKey(path string, key crypto.PrivKey) (err error) {
	pb, err := crypto.MarshalPrivateKey(key)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".key-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if rerr := os.Remove(tmp.Name()); err == nil {
			err = rerr
		}
	}()
	if err := writeSync(tmp, append(base64.StdEncoding.AppendEncode(nil, pb), '\n')); err != nil {
		return err
	}
	// A link, not a rename: it never replaces a key.
	if err := os.Link(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func writeSync(f *os.File, p []byte) error {
	_, err := f.Write(p)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}
