package p2p

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/internal/keyfile"
	"allium/internal/privatefile"
	"allium/protocols/status"
)

// LoadOrCreateKey returns the Ed25519 identity in the file at path. If there is no file, it creates the directory and a
// new key, and returns once the file is durable. A crash leaves a whole file or none. If two processes create a key at
// the same time, both get the key of the first.
//
// The file is in the format of package keyfile. Its mode is 0600. A file that other
// users can open is status.Forbidden, and one with any other content is
// status.Corrupt. Both errors name the file and the remedy.
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
	text, err := keyfile.Encode(key)
	if err == nil {
		err = privatefile.Create(path, text)
	}
	if err != nil {
		return fmt.Errorf("create the identity %s: %w", path, err)
	}
	return nil
}

// LoadKey returns the identity in the file at path, as LoadOrCreateKey does. A file
// that does not exist is fs.ErrNotExist.
func LoadKey(path string) (crypto.PrivKey, error) {
	raw, err := privatefile.Read(path, keyfile.MaxBytes, privatefile.NoAccess)
	if err != nil {
		return nil, fmt.Errorf("open the identity: %w", err)
	}
	key, err := keyfile.Decode(raw)
	if err != nil { // the key, if there is one, is damaged
		return nil, status.Errorf(status.Corrupt,
			"%s does not hold an identity: %w; restore it from a backup, or move it away to get a new identity", path,
			err)
	}
	return key, nil
}
