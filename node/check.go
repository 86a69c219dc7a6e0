package node

import (
	"errors"
	"io/fs"
	"path/filepath"

	"allium/gateway/client"
	"allium/gateway/denylist"
	"allium/node/config"
	"allium/node/p2p"
)

// Check reads the files that a node of that home reads at its start, and changes
// nothing: the identity, the denylist, the capabilities' files, the key of a
// private network, the certificate. Its error is the one that New or Run would
// return. What only a start shows it cannot tell: the store, ports, the network.
func Check(home string, cfg config.Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if _, err := client.SocketPath(home); err != nil {
		return err
	}
	if _, err := p2p.LoadKey(filepath.Join(home, keyFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := denylist.New(denylistConfig(home, cfg.Gateway), denylist.Deps{}); err != nil {
		return err
	}
	capabilities := OpenCapabilities(home)
	if _, err := capabilities.Ring(); err != nil {
		return err
	}
	if _, err := capabilities.Revoked(); err != nil {
		return err
	}
	if _, err := swarmKey(cfg.Node.SwarmKey); err != nil {
		return err
	}
	return cfg.Gateway.TLS.CheckFiles()
}
