// Package daemon has the commands of a node that runs: init, run, node and version.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/internal/ram"
	"allium/internal/sdnotify"
	"allium/internal/starting"
	"allium/node"
	"allium/node/config"
	homedir "allium/node/home"
	"allium/node/p2p"
	"allium/node/readiness/amnesia"
	"allium/node/reload"
	"allium/protocols/status"
)

// InitCommand returns `allium init`.
func InitCommand(a *cli.App) *cobra.Command {
	var profile string
	cmd := &cobra.Command{
		Use:     "init",
		Short:   "Make a home directory with a configuration and an identity",
		Example: "  allium init\n  allium --home /srv/allium init --profile seed",
		Args:    cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			home, err := a.NewHome()
			if err != nil {
				return err
			}
			cfg, err := config.Load(config.Options{Flags: map[string]any{"node.profile": profile}})
			if err != nil {
				return err
			}
			id, err := homedir.Init(home, cfg)
			if err != nil {
				return err
			}
			start := "allium run"
			if a.Home != "" {
				start = "allium --home " + a.Home + " run"
			}
			file := filepath.Join(home, config.FileName)
			human := fmt.Sprintf("%s\nconfiguration in %s; start the node with `%s`", id, file, start)
			return a.Print(map[string]string{"id": id.String(), "home": home}, a.Text(human, id.String()))
		},
	}
	cmd.Flags().StringVar(&profile, "profile", string(p2p.Desktop),
		fmt.Sprintf("what the node is for: one of %v", p2p.Profiles()))
	return cmd
}

// runFlags are the flags of run and the configuration keys they set.
type runFlags struct {
	listen, bootstrap       []string
	gateway, admin, profile string
	amnesia                 bool
	endWithStdin            bool // sets no key: it is about this process
}

// RunCommand returns `allium run`.
func RunCommand(a *cli.App) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the node until a signal stops it",
		Long: `Run the node in the foreground. It prints one line for each address it listens
on, then "ready", or "ready, except: GATE (why)" while /readyz says that something is
missing, and "ready" again when that has come. SIGTERM or Ctrl-C drains it: it takes no
new requests, and those in flight finish within node.drain_deadline. A second signal
ends it at once. With --json it prints one line when it has started, like "allium id
--json".

If the home directory does not exist, the command makes it as "allium init" does.`,
		Example: `  allium run
  allium run --listen /ip4/0.0.0.0/tcp/4901 --gateway 127.0.0.1:8080
  allium run --bootstrap /ip4/203.0.113.7/tcp/4901/p2p/$PEER`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if f.endWithStdin {
				var ended func()
				ctx, ended = term.UntilEnd(ctx, a.Stdin)
				defer ended()
			}
			return runNode(ctx, a, f.keys(cmd))
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.listen, "listen", nil,
		"multiaddr to listen on, repeatable; port 0 is any free port (default listen.addrs)")
	fl.StringArrayVar(&f.bootstrap, "bootstrap", nil,
		"multiaddr with /p2p/ID of a peer to connect to first, repeatable (default dht.bootstrap)")
	fl.StringVar(&f.gateway, "gateway", "", "host:port of the HTTP gateway; empty for none (default gateway.listen)")
	fl.StringVar(&f.admin, "admin", "",
		"loopback host:port of the admin listener; empty for none (default admin.listen)")
	fl.StringVar(&f.profile, "profile", "",
		fmt.Sprintf("what the node is for: one of %v (default node.profile)", p2p.Profiles()))
	fl.BoolVar(&f.amnesia, "amnesia", false, "keep everything in RAM and write nothing to disk (default node.amnesia)")
	fl.BoolVar(&f.endWithStdin, "end-with-stdin", false,
		"drain also when standard input ends, so that the node ends with the program that started it")
	return cmd
}

// keys returns the values of the flags that were given, by configuration key.
func (f runFlags) keys(cmd *cobra.Command) map[string]any {
	keys := map[string]any{}
	for flag, kv := range map[string]struct {
		key   string
		value any
	}{
		"listen":    {"listen.addrs", f.listen},
		"bootstrap": {"dht.bootstrap", f.bootstrap},
		"gateway":   {"gateway.listen", f.gateway},
		"admin":     {"admin.listen", f.admin},
		"profile":   {"node.profile", f.profile},
		"amnesia":   {"node.amnesia", f.amnesia},
	} {
		if cmd.Flags().Changed(flag) {
			keys[kv.key] = kv.value
		}
	}
	return keys
}

// runNode runs the node of the home directory until ctx ends.
func runNode(ctx context.Context, a *cli.App, flags map[string]any) error {
	home, err := a.NewHome()
	if err != nil {
		return err
	}
	cfg, err := a.LoadAt(home, flags)
	if err != nil {
		return err
	}
	if err := makeHome(a, home, cfg); err != nil {
		return err
	}
	deps := node.Deps{Loaded: &cfg, Level: &slog.LevelVar{}}
	deps.Level.Set(cfg.Log.SlogLevel())
	deps.Log = cli.Logger(a, cfg.Log.Format, deps.Level)
	for _, o := range cfg.Obsolete {
		deps.Log.Warn("a key of the configuration is fixed now; take it out",
			"from", o.Source, "key", o.Key, "value", o.Value, "why", o.Why)
	}
	ram.Limit(cfg.Node.Profile == p2p.Pi || cfg.Node.Profile == p2p.Micronode, node.Memory(cfg.Config), deps.Log)
	if cfg.Node.Amnesia {
		deps.Guard = amnesia.GuardProcess()
	}
	deps.Configuration = func() (config.Loaded, error) { return a.LoadAt(home, flags) }
	n, err := node.New(home, cfg.Config, deps)
	if err != nil {
		return err
	}
	manager, err := sdnotify.FromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	defer manager.Close()
	defer context.AfterFunc(ctx, manager.Stopping)()
	defer reloadOnHangup(ctx, n, manager)()
	signal.Ignore(syscall.SIGPIPE) // of a reader of the addresses that has ended
	running, stopped := context.WithCancel(ctx)
	var telling sync.WaitGroup
	err = n.Run(ctx, func() {
		starting.End()
		id, r := n.ID(), n.Readiness()
		_ = a.Print(id, term.Ready(id, r)) // the node runs on if nobody reads this
		manager.Ready(term.ReadyExcept(r))
		telling.Go(func() {
			manager.Watch(running, func() string { return term.ReadyExcept(n.Readiness()) })
		})
		if !r.Ready && !a.JSON {
			telling.Go(func() { tellReady(running, a, n) })
		}
	})
	stopped()
	telling.Wait()
	if status.Of(err) == status.Internal {
		return fmt.Errorf("the node stopped: %w", err)
	}
	return err
}

// tellReady prints "ready" once every gate of /readyz is open, unless ctx ends before.
func tellReady(ctx context.Context, a *cli.App, n *node.Node) {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for !n.Readiness().Ready {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	_ = a.Print(nil, "ready") // as above
}

// readyPoll is the interval between two checks of tellReady.
const readyPoll = time.Second

// makeHome makes the home directory of a node that is about to start, unless it is there or the node
// needs none.
func makeHome(a *cli.App, home string, cfg config.Loaded) error {
	_, err := os.Stat(filepath.Join(home, config.FileName))
	if !errors.Is(err, fs.ErrNotExist) || a.ConfigFile != "" || cfg.Node.Amnesia {
		return nil
	}
	fresh, err := config.Load(config.Options{Flags: map[string]any{"node.profile": string(cfg.Node.Profile)}})
	if err != nil {
		return err
	}
	_, err = homedir.Init(home, fresh)
	return err
}

// reloadOnHangup makes the node read its configuration again at each SIGHUP, and tells the service manager.
// The caller calls stop to end that.
func reloadOnHangup(ctx context.Context, n *node.Node, manager *sdnotify.Notifier) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	var watching sync.WaitGroup
	watching.Go(func() {
		reload.Follow(ctx, hangups, func(ctx context.Context) (err error) {
			manager.Reload(func() {
				var done api.Reloaded
				done, err = n.Reload(ctx, api.ReloadRequest{}) // the node logs the result
				err = cmp.Or(err, done.Failed())
			}, func() string { return term.ReadyExcept(n.Readiness()) })
			return err
		})
	})
	return func() {
		signal.Stop(hangups)
		cancel()
		watching.Wait()
	}
}
