package node

import (
	"context"
	"path/filepath"

	"allium/gateway"
	"allium/gateway/policy/access"
	"allium/gateway/policy/denylist"
	"allium/node/p2p"
	"allium/node/supervise"
)

// denylistFile is the name of the denylist in the home directory. The node reads
// it if gateway.denylist names no file; it need not exist.
const denylistFile = "denylist.txt"

// denylistConfig returns the files of gateway.denylist. A relative path is below
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

// startDenylist starts to watch the files of the denylist. It is the stage before
// all that consult the list.
func (n *Node) startDenylist(ctx context.Context) error {
	return n.services.Start(ctx, supervise.Service{
		Name: "denylist", Doc: "watches the files of the denylist", Run: n.denylist.Run,
	})
}

// accessConfig returns the files of listen.allow and listen.deny. A relative path is below home.
func accessConfig(home string, cfg p2p.Config) access.Config {
	below := func(names []string) (files []string) {
		for _, name := range names {
			if !filepath.IsAbs(name) {
				name = filepath.Join(home, name)
			}
			files = append(files, name)
		}
		return files
	}
	return access.Config{Allow: below(cfg.Allow), Deny: below(cfg.Deny)}
}

// startAccess starts to watch the files of listen.allow and listen.deny. It is a stage before the host,
// which asks the list, so its service ends after the host.
func (n *Node) startAccess(ctx context.Context) error {
	return n.services.Start(ctx, supervise.Service{
		Name: "access", Doc: "watches the files of listen.allow and listen.deny", Run: n.access.Run,
	})
}
