// Package home is the home directory of a node: its identity, its lock, and what is
// where in it.
package home

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

// What is below a home directory.
const (
	KeyFile    = "identity.key" // the node's identity
	AuditDir   = "audit"        // the audit log
	RecordsDir = "records"      // what discovery keeps
)

// Init makes a home directory: the directory (mode 0700), the commented
// configuration file and, unless it is one of amnesia, the identity. A
// home that has a configuration file and an identity already is conflict and left
// as it is; one that lost its identity gets a new one.
func Init(home string, cfg config.Loaded) (peer.ID, error) {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return "", fmt.Errorf("init: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(home, config.FileName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if _, kerr := os.Stat(filepath.Join(home, KeyFile)); errors.Is(kerr, fs.ErrNotExist) && !cfg.Node.Amnesia {
			return newIdentity(home)
		}
		return "", status.Errorf(status.Conflict, "init: %s has a configuration already; nothing was changed", home)
	}
	if err != nil {
		return "", fmt.Errorf("init: %w", err)
	}
	_, err = f.WriteString(config.TOML(cfg))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("init: %w", err)
	}
	if !cfg.Node.Amnesia {
		return newIdentity(home)
	}
	key, err := Identity(home, true)
	if err != nil {
		return "", err
	}
	return peer.IDFromPrivateKey(key)
}

// newIdentity returns the id of the identity in the home directory, which it
// makes where there is none.
func newIdentity(home string) (peer.ID, error) {
	key, err := p2p.LoadOrCreateKey(filepath.Join(home, KeyFile))
	if err != nil {
		return "", err
	}
	return peer.IDFromPrivateKey(key)
}

// Identity returns the node's key: the one in the home directory; where there is
// none, a new one that is written there, or, with amnesia, kept in RAM. Where a
// node has run before, none is damage: a new one would be another node, which
// nobody knows, and no capability for the old one would hold.
func Identity(home string, amnesia bool) (crypto.PrivKey, error) {
	name := filepath.Join(home, KeyFile)
	if amnesia {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			key, _, err := crypto.GenerateEd25519Key(nil)
			return key, err
		}
	}
	if err := Lost(home); err != nil {
		return nil, err
	}
	return p2p.LoadOrCreateKey(name)
}

// Lost reports that a home directory in which a node has run has no
// identity any more.
func Lost(home string) error {
	name := filepath.Join(home, KeyFile)
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return nil // what is wrong with it is told by who reads it
	}
	for _, used := range []string{AuditDir, RecordsDir} { // only a node that runs makes these
		if _, err := os.Stat(filepath.Join(home, used)); err == nil {
			return status.Errorf(status.Corrupt, "the identity %s is missing, and a node has run with it; restore it from a backup, or run `allium init` to go on as a new node with another peer id", name)
		}
	}
	return nil
}

// Give makes a home directory whose identity is key; one that has an
// identity is fs.ErrExist.
func Give(home string, key crypto.PrivKey) error {
	return p2p.StoreKey(filepath.Join(home, KeyFile), key)
}

// SwarmKey reads the pre-shared key of a private network; no file is no key.
func SwarmKey(name string) (pnet.PSK, error) {
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
