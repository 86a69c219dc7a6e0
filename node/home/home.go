// Package home manages the home directory of a node: the names in it, its identity and
// its lock.
//
// [Init] makes a home directory with a configuration and an identity. A node that starts,
// or a command that works on the store, takes the [Lock] before it writes anything there,
// and then reads the [Identity]. A home directory in which a node has run never gets a new
// identity unnoticed: see [Lost].
package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/node/config"
	"allium/node/p2p"
	"allium/protocols/status"
)

// Path returns the path that a key of the configuration names: a relative name is below home. An empty name is
// empty.
func Path(home, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(home, name)
}

// Names of files and directories in a home directory.
const (
	KeyFile      = "identity.key" // the node's identity
	AuditDir     = "audit"        // the audit log
	RecordsDir   = "records"      // the records of discovery
	DrainingFile = "draining"     // the node hands its copies over to other members
)

// Init makes a home directory (mode 0700) with the commented configuration file and the
// identity, and returns the node's peer id. With amnesia it writes no identity; if there is
// none yet, the returned id is that of a new key in RAM. If the configuration file exists, Init changes
// nothing and returns status.Conflict. One exception: if only the identity is missing, and
// there is no amnesia, Init makes a new identity.
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

// newIdentity returns the peer id of the identity in the home directory. If there is no
// identity, it makes one.
func newIdentity(home string) (peer.ID, error) {
	key, err := p2p.LoadOrCreateKey(filepath.Join(home, KeyFile))
	if err != nil {
		return "", err
	}
	return peer.IDFromPrivateKey(key)
}

// Identity returns the node's key from the home directory. If there is none, it makes a
// key and writes it there; with amnesia it keeps the new key in RAM.
//
// Without amnesia, a missing key in a home directory in which a node has run is
// status.Corrupt. A new key would make another node: no peer would know it, and the
// capabilities of the old one would be invalid.
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

// ID returns the peer id of the identity in the home directory, and writes nothing. If there is
// none, the error is status.NotFound, or that of [Lost].
func ID(home string) (peer.ID, error) {
	if err := Lost(home); err != nil {
		return "", err
	}
	key, err := p2p.LoadKey(filepath.Join(home, KeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", status.Errorf(status.NotFound,
			"no node is running, and %s has no identity; `allium init` makes one, and "+
				"so does `allium run`", home)
	}
	if err != nil {
		return "", err
	}
	return peer.IDFromPrivateKey(key)
}

// Audience returns the canonical form of the peer id id, for a capability that is good for that peer alone. If id is
// "self", it returns the peer id of the home directory's node, and otherwise it needs no home.
func Audience(home, id string) (string, error) {
	if id != "self" {
		p, err := peer.Decode(id)
		if err != nil {
			return "", status.Errorf(status.BadRequest, "%q is not a peer id; `allium id` prints one", id)
		}
		return p.String(), nil
	}
	p, err := ID(home)
	if status.Of(err) == status.NotFound {
		return "", status.Errorf(status.BadRequest,
			"%s has no identity yet, so a capability cannot be for it alone; run `allium init`, or write the peer id",
			home)
	}
	return p.String(), err
}

// Lost returns status.Corrupt if a node has run in the home directory and its identity is
// missing. Otherwise it returns nil, also if the identity cannot be read.
func Lost(home string) error {
	name := filepath.Join(home, KeyFile)
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return nil // if the file is damaged, its reader reports that
	}
	for _, used := range []string{AuditDir, RecordsDir} { // only a running node makes these
		if _, err := os.Stat(filepath.Join(home, used)); err == nil {
			return status.Errorf(status.Corrupt,
				"the identity %s is missing, and a node has run with it; restore it from a backup, or run `allium "+
					"init` to go on as a new node with another peer id", name)
		}
	}
	return nil
}

// Give writes key as the identity of a home directory, which it makes if there is none. A
// home directory that has an identity is fs.ErrExist.
func Give(home string, key crypto.PrivKey) error {
	return p2p.StoreKey(filepath.Join(home, KeyFile), key)
}
