package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/pnet"

	"allium/node/config"
	"allium/node/p2p"
	"allium/protocols/status"
)

// keyFile is the node's identity below its home directory.
const keyFile = "identity.key"

// Init makes a home directory: the directory (mode 0700), the commented
// configuration file and, unless it is one of amnesia, the identity. A
// home that has a configuration file already is conflict and left as it is.
func Init(home string, cfg config.Loaded) (peer.ID, error) {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", fmt.Errorf("init: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(home, config.FileName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return "", status.Errorf(status.Conflict, "init: %s has a configuration already; nothing was changed", home)
	}
	if err != nil {
		return "", fmt.Errorf("init: %w", err)
	}
	_, err = f.WriteString(config.TOML(cfg))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("init: %w", err)
	}
	key, err := identity(home, cfg.Node.Amnesia)
	if err != nil {
		return "", err
	}
	return peer.IDFromPrivateKey(key)
}

// identity is the node's key: the one in the home directory; where there is
// none, a new one that is written there, or, with amnesia, kept in RAM.
func identity(home string, amnesia bool) (crypto.PrivKey, error) {
	name := filepath.Join(home, keyFile)
	if amnesia {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			key, _, err := crypto.GenerateEd25519Key(nil)
			return key, err
		}
	}
	return p2p.LoadOrCreateKey(name)
}

// GiveIdentity makes a home directory whose identity is key; one that has an
// identity is fs.ErrExist.
func GiveIdentity(home string, key crypto.PrivKey) error {
	return p2p.StoreKey(filepath.Join(home, keyFile), key)
}

// swarmKey reads the pre-shared key of a private network; no file is no key.
func swarmKey(name string) (pnet.PSK, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, status.Errorf(status.BadRequest, "node.swarm_key: %w", err)
	}
	defer f.Close()
	psk, err := pnet.DecodeV1PSK(f)
	if err != nil {
		return nil, status.Errorf(status.BadRequest, "node.swarm_key: %s is not a swarm key: %w", name, err)
	}
	return psk, nil
}
