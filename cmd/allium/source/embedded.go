package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/gateway/api"
	work "allium/internal/patience" // a constant of the tests has its name
	"allium/node"
	"allium/node/config"
	homedir "allium/node/home"
	"allium/protocols/status"
	"allium/protocols/ticket"
	"allium/store"
)

// EmbedOptions describe a node that runs in the process of a command.
type EmbedOptions struct {
	Listen []string // multiaddrs; empty: free ports, see anyPorts
	Beside string   // file beside which a large object is kept until it is whole; empty: the temporary directory
}

// inRAM is the size in bytes up to which an object is fetched into RAM. A larger one goes to a directory beside the
// output: it may exceed RAM, and the next command continues with it.
const inRAM = 16 << 20

// withEmbedded runs do on a node in this process, which asks the peer of the ticket first. The node lasts
// as long as do. It needs no home directory and opens no socket.
func withEmbedded(ctx context.Context, a *cli.App, t ticket.Ticket, o EmbedOptions, do func(api.Node) error) error {
	keys := map[string]any{
		"node.amnesia": false, "amnesia.require_lock": false, "gateway.listen": "", "admin.listen": "",
		"audit.enabled": false, "listen.port_map": false, "dht.announce": "roots", "store.backend": store.BackendMemory,
		"store.memory_bytes": "64MiB",
	}
	part, remove, err := partOf(t, o)
	if err != nil {
		return err
	}
	if part != "" {
		keys["store.backend"], keys["store.max_bytes"] = store.BackendEmbedded, 0
		keys["store.dir"] = filepath.Join(part, "store") // the key of the node is beside it
	}
	home, err := a.HomePath() // its configuration counts if there is one
	var cfg config.Loaded
	if err == nil {
		cfg, err = loadEmbedded(a, home, o.Listen, keys)
	}
	if err == nil {
		if part != "" && cfg.Sources["store.reserve_bytes"] == config.FromDefault {
			cfg.Store.ReserveBytes = 0 // the store lasts as long as the command
		}
		err = fetchEmbedded(ctx, a, cfg, home, t, do)
	}
	if part != "" {
		err = partError(part, err)
	}
	remove(err == nil)
	return err
}

// partError returns err with what to do about the disk of the directory part, if the disk is the reason.
func partError(part string, err error) error {
	switch _, system := status.System(err); {
	case status.Of(err) == status.NoSpace:
		return &status.Error{Outcome: status.NoSpace, Err: err, Message: fmt.Sprintf(
			"the disk is full: %s has no room for the rest; make space there and run the same command again, which "+
				"resumes, or name an output on another disk (-o)", filepath.Dir(part))}
	case system && status.Of(err) == status.NotReady:
		return status.Errorf(status.Forbidden, "this user may not write to %s; name an output in another directory "+
			"(-o): %w", filepath.Dir(part), err)
	}
	return err
}

// fetchEmbedded checks the ticket and runs do on a node with the configuration.
func fetchEmbedded(
	ctx context.Context, a *cli.App, cfg config.Loaded, home string, t ticket.Ticket, do func(api.Node) error,
) error {
	psk, err := homedir.SwarmKey(homedir.Path(home, cfg.Node.SwarmKey))
	if err != nil {
		return err
	}
	if len(t.Source(localPrefixes(), true).Addrs) == 0 {
		return status.Errorf(status.TransportDown,
			"no address of the ticket can be dialled from here: it works for %s; "+
				"join that network, or ask for a ticket with a public address or a relay", t.Reach())
	}
	n, err := node.New(home, cfg.Config, node.Deps{
		Log: cli.Logger(a, cfg.Log.Format, cfg.Log.SlogLevel()), Embedded: true,
	})
	if err != nil {
		return err
	}
	a.Embedded = true
	return while(ctx, n, func(ctx context.Context) error {
		return AskFirst(ctx, a, n.API(), n.ID().ID, t, ticket.NetworkOf(psk), do)
	})
}

// loadEmbedded reads the configuration of a node that runs as long as a command. keys are the values that
// the command needs.
func loadEmbedded(a *cli.App, home string, listen []string, keys map[string]any) (config.Loaded, error) {
	if a.LogLevel == "" {
		keys["log.level"] = "error"
	}
	if len(listen) > 0 {
		keys["listen.addrs"] = listen
	}
	cfg, err := a.LoadAt(home, keys)
	if err == nil && cfg.Sources["listen.addrs"] == config.FromDefault {
		cfg.Listen.Listen = anyPorts(cfg.Listen.Listen)
	}
	return cfg, err
}

// anyPorts returns listen addresses with the port 0, any free one.
func anyPorts(addrs []string) []string {
	free := make([]string, len(addrs))
	for i, s := range addrs {
		parts := strings.Split(s, "/") // "", ip4, ADDRESS, tcp, PORT, …
		if len(parts) > 4 {
			parts[4] = "0"
		}
		free[i] = strings.Join(parts, "/")
	}
	return free
}

// while runs a node and do, and stops the node when do returns.
func while(ctx context.Context, n *node.Node, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan struct{})
	var running sync.WaitGroup
	var stopped error
	running.Go(func() {
		defer cancel()
		stopped = n.Run(context.WithoutCancel(ctx), func() { close(ready) })
	})
	var err error
	select {
	case <-ready:
		err = do(work.With(ctx))
	case <-ctx.Done():
		err = ctx.Err()
	}
	n.Drain()
	running.Wait()
	if stopped != nil {
		return stopped
	}
	return err
}

// partOf returns the directory in which the object of a ticket is kept until it is whole, locked, and a
// function that is called at the end. It is empty for an object that fits in RAM.
func partOf(t ticket.Ticket, o EmbedOptions) (dir string, done func(whole bool), err error) {
	if !t.Directory && t.Size <= inRAM {
		return "", func(bool) {}, nil
	}
	temporary := o.Beside == ""
	if temporary {
		if dir, err = os.MkdirTemp("", "allium-"); err != nil {
			return "", nil, err
		}
	} else {
		above := filepath.Dir(filepath.Clean(o.Beside))
		if _, err := os.Stat(above); errors.Is(err, fs.ErrNotExist) {
			return "", nil, status.Errorf(status.NotFound, "there is no directory %q; create it first: %w", above, err)
		} else if err != nil {
			return "", nil, err
		}
		if dir, err = filepath.Abs(filepath.Join(above, ".allium-"+t.Root.Hex()[:16]+".part")); err != nil {
			return "", nil, err
		}
	}
	unlock, err := homedir.Lock(dir)
	if status.Of(err) == status.Busy {
		return "", nil, status.Errorf(status.Busy, "another process fetches the same object into %s; wait for it", dir)
	}
	if err != nil {
		return "", nil, partError(dir, failure.In(dir, err))
	}
	return dir, func(whole bool) {
		if whole || temporary || !hasGroups(dir) {
			_ = os.RemoveAll(dir) // it only costs space
		}
		unlock()
	}, nil
}

// hasGroups reports whether an unfinished fetch left verified bytes in the store at dir: files of 64 KiB or
// more besides the database and the reserve of space.
func hasGroups(dir string) bool {
	found := false
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // what cannot be read cannot be continued
		case d.IsDir() && (d.Name() == "ballast" || d.Name() == "index"):
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		if info, err := d.Info(); err == nil && info.Size() >= 64<<10 {
			found = true
			return filepath.SkipAll
		}
		return nil
	})
	return found
}

// WithHomeNode runs do on a node of the home directory. The node listens on free ports, unless listen names
// others or the configuration does.
func WithHomeNode(ctx context.Context, a *cli.App, listen []string, do func(context.Context, *node.Node) error) error {
	home, err := a.HomeDir()
	if err != nil {
		return err
	}
	cfg, err := loadEmbedded(a, home, listen, map[string]any{"gateway.listen": "", "admin.listen": ""})
	if err != nil {
		return err
	}
	n, err := node.New(home, cfg.Config, node.Deps{Log: cli.Logger(a, cfg.Log.Format, cfg.Log.SlogLevel())})
	if err != nil {
		return err
	}
	return while(ctx, n, func(ctx context.Context) error { return do(ctx, n) })
}
