package node

import (
	"context"
	"path/filepath"

	"allium/gateway"
	"allium/gateway/denylist"
	"allium/node/supervise"
	"allium/protocols/b3"
)

// denylistFile is the denylist below the home directory, where gateway.denylist
// names no other.
const denylistFile = "denylist.txt"

// denylistConfig names the files of gateway.denylist; a relative one lies below
// home.
func denylistConfig(home string, cfg gateway.Config) (c denylist.Config) {
	for _, name := range cfg.Denylist {
		if !filepath.IsAbs(name) {
			name = filepath.Join(home, name)
		}
		c.Files = append(c.Files, name)
	}
	if len(c.Files) == 0 {
		c.Optional = filepath.Join(home, denylistFile)
	}
	return c
}

// startDenylist lets the list follow its files. It comes before everything that
// asks it.
func (n *Node) startDenylist(ctx context.Context) error {
	return n.services.Start(ctx, supervise.Service{Name: "denylist", Run: n.denylist.Run})
}

// deniedKey says whether peers are not to be told who has an object.
func (n *Node) deniedKey(root b3.Root) bool { return n.denylist.At("dht").Object(root) != nil }
