package p2p

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/internal/privatefile"
	"allium/protocols/status"
)

// maxKeyFile is the most bytes that are read of a key file, which has 93.
const maxKeyFile = 4 << 10

// LoadOrCreateKey returns the Ed25519 identity in the file at path. If there is no
// file, it creates the directory and a new key, and returns once the file is durable.
// A crash leaves a whole file or none. Of two processes that create a key at the same
// time, both get the key of the first.
//
// The file is one line: base64 of the libp2p private key protobuf, as other libp2p
// programs write it. Its mode is 0600. A file that other users can open is
// status.Forbidden, and one with any other content is status.Corrupt. Both errors
// name the file and the remedy.
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

// StoreKey writes an identity as LoadOrCreateKey does. A file that exists is
// fs.ErrExist.
func StoreKey(path string, key crypto.PrivKey) error {
	if err := storeKey(path, key); err != nil {
		return fmt.Errorf("create the identity %s: %w", path, err)
	}
	return nil
}

// LoadKey returns the identity in the file at path, as LoadOrCreateKey does. A file
// that does not exist is fs.ErrNotExist.
func LoadKey(path string) (crypto.PrivKey, error) {
	raw, err := privatefile.Read(path, maxKeyFile, privatefile.NoAccess)
	if err != nil {
		return nil, fmt.Errorf("open the identity: %w", err)
	}
	key, err := decodeKey(raw)
	if err != nil { // the key, if there is one, is damaged
		return nil, status.Errorf(status.Corrupt,
			"%s does not hold an identity: %w; restore it from a backup, or move it away to get a new identity", path, err)
	}
	return key, nil
}

// decodeKey parses the content of a key file.
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

// wholeKey returns an error if key, decoded from pb, is not as it was written. It
// derives the public half from the secret half and compares it with the one in the
// file. A node with a wrong public half would run, but no peer could authenticate it.
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

// storeKey writes a key to a temporary file beside path, makes it durable and links
// it to path. If path exists, it returns fs.ErrExist.
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
	// Unlike a rename, a link never replaces a key.
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
