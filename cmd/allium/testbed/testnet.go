// Package testbed has the commands that try things out: testnet, which runs nodes on
// this machine, and sim, which simulates more of them than it could run.
package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/term"
	"allium/internal/printable"
	"allium/protocols/status"
	"allium/testnet"
	"allium/testnet/script"
)

// TestnetCommand returns `allium testnet`.
func TestnetCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "testnet",
		Short: "Run a network of nodes on this machine, and break it",
		Example: `  allium testnet up
  allium testnet chaos kill 3
  allium testnet scenario testnet/testdata/partition-heal.txt -v`,
	}
	cmd.AddCommand(testnetUpCommand(a), testnetChaosCommand(a), testnetRunCommand(a), testnetStatusCommand(a),
		testnetDownCommand(a), testnetScenarioCommand(a))
	return cmd
}

// upFlags are the flags of `testnet up`.
type upFlags struct {
	o              testnet.Options
	programs       programFlags
	exit, noDemo   bool
	dir, recording string
}

func testnetUpCommand(a *cli.App) *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start nodes over loopback, show them at work, and stay up until Ctrl-C",
		Long: `Start nodes over loopback, add a directory on one of them, find and fetch it on
another, compare both trees byte by byte and print gateway URLs to look at. This
needs no network; the ports are free ones. While the network is up, other terminals
can use it with allium testnet chaos, run, status and down.

--record writes what they do, and what was seen, as a scenario that can be played
again. It leaves the demonstration out.

With --json standard output is one line like "testnet status --json", written as
soon as the nodes run. Everything else goes to standard error.`,
		Example: `  allium testnet up
  allium testnet up -n 10 --processes
  allium testnet up -n 50 --seed 7 --no-demo
  allium testnet up --other ./allium-of-last-month
  allium testnet up --record mishap.txt
  allium testnet up --dir ./photos --exit`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.recording != "" && f.exit {
				return failure.NewUsage("give one of them", "--exit leaves no time to do what --record writes")
			}
			return testnetUp(cmd.Context(), a, f)
		},
	}
	fl := cmd.Flags()
	fl.IntVarP(&f.o.N, "nodes", "n", 5, fmt.Sprintf("number of nodes, 2 to %d", testnet.MaxNodes))
	fl.Uint64Var(&f.o.Seed, "seed", 0, "seed of the identities and of generated content (default: new ones each time)")
	fl.BoolVar(&f.o.Cluster, "cluster", false, "give the nodes a common key, so that they keep copies for each other")
	f.programs.define(cmd)
	fl.StringVar(&f.dir, "dir", "", "directory to add (default: the sources of the Go distribution)")
	fl.BoolVar(&f.noDemo, "no-demo", false, "leave the demonstration out")
	fl.BoolVar(&f.exit, "exit", false, "end after the demonstration; the exit code is 0 only if all of it succeeded")
	fl.StringVar(&f.recording, "record", "", "file for a scenario of what is done to the network (default: none)")
	return cmd
}

func testnetUp(ctx context.Context, a *cli.App, f upFlags) (err error) {
	demo := !f.noDemo && f.recording == ""
	if demo && f.dir == "" {
		if f.dir, err = testnet.GoSource(ctx); err != nil {
			return err
		}
	}
	if f.o.Binary, f.o.Other, err = f.programs.find(); err != nil {
		return err
	}
	var recording *os.File
	if f.recording != "" { // an error before the work costs nothing
		f.o.Seed = max(f.o.Seed, script.DefaultSeed)
		if recording, err = cli.CreateOutput("--record", f.recording); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, recording.Close()) }()
	}
	out := a.Stdout
	if a.JSON {
		out = a.Stderr
	}
	f.o.Started = func(m *testnet.Member) {
		fmt.Fprintln(out, term.Member(m.Name, m.ID(), m.Home))
	}
	net, err := testnet.Up(ctx, f.o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, net.Down(context.WithoutCancel(ctx))) }()
	if a.JSON {
		if err := a.Print(net.Status(ctx), ""); err != nil {
			return err
		}
	}
	var record *testnet.Recorder
	if recording != nil {
		if err := net.Formed(ctx); err != nil {
			return err
		}
		record = testnet.NewRecorder(net, recordedAs(f.o), recording)
		defer func() { err = errors.Join(err, record.Close(context.WithoutCancel(ctx))) }()
	}
	return testnetServe(ctx, out, net, record, func(ctx context.Context) error {
		if !demo {
			return nil
		}
		return net.Demo(ctx, out, f.dir)
	}, f.exit)
}

// recordedAs returns the head of a recording.
func recordedAs(o testnet.Options) *script.File {
	return &script.File{
		Nodes: o.N, Seed: o.Seed, Cluster: o.Cluster, Deadline: script.DefaultDeadline, Within: script.DefaultWithin,
	}
}

// testnetServe runs the demonstration and then, unless exit is set, keeps the
// network up until ctx ends or `allium testnet down` asks for its end. The network
// has its control socket all that time.
func testnetServe(
	ctx context.Context, out io.Writer, net *testnet.Net, r *testnet.Recorder,
	demo func(context.Context) error, exit bool,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	control := testnet.NewControl(net, testnet.NewPlayer(net, script.DefaultWithin), r)
	var serving sync.WaitGroup
	var failed error // read after serving.Wait
	ready, ended := make(chan struct{}), make(chan struct{})
	serving.Go(func() {
		defer close(ended)
		failed = control.Run(ctx, func() { close(ready) })
	})
	serving.Go(func() {
		select {
		case <-control.Down():
		case <-ended:
		case <-ctx.Done():
		}
		cancel()
	})
	select {
	case <-ready:
	case <-ended:
	}
	err := demo(ctx)
	if err == nil && !exit && ctx.Err() == nil {
		fmt.Fprintf(out, "\nThe network stays up until Ctrl-C or `allium testnet down`. "+
			"Talk to a node with `allium --home HOME …`,\n"+
			"break things with `allium testnet chaos kill 2`. It is in %s\n", net.Dir())
		<-ctx.Done()
	}
	cancel()
	serving.Wait()
	select {
	case <-control.Down():
		err = nil // the end that was asked for cut the demonstration short
	default:
	}
	return errors.Join(err, failed)
}

func testnetStatusCommand(a *cli.App) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the nodes of the running network and their faults",
		Example: "  allium testnet status\n  allium testnet status --json | jq '.nodes[] | select(.ready | not)'",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := remote(dir)
			if err != nil {
				return err
			}
			s, err := r.Status(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON {
				return a.Print(s, "")
			}
			_, err = fmt.Fprint(a.Stdout, s)
			return err
		},
	}
	netFlag(cmd, &dir)
	return cmd
}

func testnetDownCommand(a *cli.App) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "End the running network, or remove the directory of a dead one",
		Long: `End the running network: drain its nodes and remove its directory. If its process
was killed, name the directory with --net: the command drains the nodes that still
run, then removes the directory.`,
		Example: "  allium testnet down\n  allium testnet down --net /tmp/allium-testnet-3064054571",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			r, err := remote(dir)
			if dir != "" && status.Of(err) == status.NotReady {
				ended, err := testnet.Clear(ctx, dir)
				if err != nil {
					return err
				}
				human := "removed " + dir
				if ended > 0 {
					human = fmt.Sprintf("%s; %s still running", human, printable.Count(ended, "node"))
				}
				return a.Print(map[string]any{"dir": dir, "ended": ended}, human)
			}
			if err != nil {
				return err
			}
			begun := time.Now()
			if err := r.Down(ctx); err != nil {
				return err
			}
			took := time.Since(begun).Round(time.Millisecond)
			return a.Print(map[string]any{"dir": r.Dir}, fmt.Sprintf("the network in %s ended in %s", r.Dir, took))
		},
	}
	netFlag(cmd, &dir)
	return cmd
}

// netFlag defines the flag that names a running network.
func netFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "net", "", "directory of the network (default: that of the only one that runs)")
}

// programFlags choose the programs of a network's nodes.
type programFlags struct {
	processes bool
	other     string
}

func (f *programFlags) define(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.processes, "processes", false, "run each node in a separate process")
	cmd.Flags().StringVar(&f.other, "other", "",
		"program of the nodes with even numbers, such as another version of allium (default: this one)")
}

// find returns testnet.Options.Binary and Other, before any node starts.
func (f programFlags) find() (binary, other string, err error) {
	if f.processes {
		if binary, err = testnet.Self(); err != nil {
			return "", "", err
		}
	}
	if f.other == "" {
		return binary, "", nil
	}
	if other, err = exec.LookPath(f.other); err != nil {
		return "", "", failure.NewUsage("name a program that runs", "--other: %v", err)
	}
	other, err = filepath.Abs(other)
	return binary, other, err
}

// remote connects to the network in dir, or to the only one that runs.
func remote(dir string) (*testnet.Remote, error) {
	found, err := testnet.Find(dir)
	if err != nil {
		return nil, err
	}
	return testnet.Dial(found)
}
