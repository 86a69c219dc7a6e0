package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"allium/protocols/status"
	"allium/testnet"
	"allium/testnet/script"
)

func (a *app) testnetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "testnet",
		Short: "Run a network of nodes on this machine, break it, and play scenarios on it",
		Example: `  allium testnet up
  allium testnet chaos kill 3
  allium testnet scenario testnet/testdata/partition-heal.txt -v`,
	}
	cmd.AddCommand(a.testnetUpCommand(), a.testnetChaosCommand(), a.testnetRunCommand(), a.testnetStatusCommand(),
		a.testnetDownCommand(), a.testnetScenarioCommand())
	return cmd
}

// upFlags are the flags of `testnet up`.
type upFlags struct {
	o              testnet.Options
	processes      bool
	exit, noDemo   bool
	dir, recording string
}

func (a *app) testnetUpCommand() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start nodes over loopback, show them at work, and stay up until Ctrl-C",
		Long: `Start nodes over loopback, add a directory on one of them, find and fetch it on
another, compare both trees byte by byte and print gateway URLs to look at.
Needs no network; ports are whatever is free. While it is up, other terminals
work on it with allium testnet chaos, run, status and down.

With --record, what they do is written as a scenario, with what was seen, that
comes true again; the demonstration is then left out.

With --json standard output is one line, what "testnet status --json" prints, as
soon as the nodes run; the rest goes to standard error.`,
		Example: `  allium testnet up
  allium testnet up -n 10 --processes
  allium testnet up -n 50 --seed 7 --no-demo
  allium testnet up --record mishap.txt
  allium testnet up --dir ./photos --exit`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.recording != "" && f.exit {
				return status.Errorf(status.BadRequest, "--exit leaves no time to do what --record writes; give one of them")
			}
			return a.testnetUp(cmd.Context(), f)
		},
	}
	fl := cmd.Flags()
	fl.IntVarP(&f.o.N, "nodes", "n", 5, fmt.Sprintf("how many, 2 to %d", testnet.MaxNodes))
	fl.Uint64Var(&f.o.Seed, "seed", 0, "of the identities and of generated content; 0: new ones each time")
	fl.BoolVar(&f.processes, "processes", false, "one process for each node")
	fl.StringVar(&f.dir, "dir", "", "directory to add (default: the Go distribution's src)")
	fl.BoolVar(&f.noDemo, "no-demo", false, "leave the demonstration out")
	fl.BoolVar(&f.exit, "exit", false, "end after the demonstration; the exit code is 0 only if all of it came true")
	fl.StringVar(&f.recording, "record", "", "write what is done to the network to this file, as a scenario")
	return cmd
}

func (a *app) testnetUp(ctx context.Context, f upFlags) (err error) {
	demo := !f.noDemo && f.recording == ""
	if demo && f.dir == "" {
		if f.dir, err = testnet.GoSource(ctx); err != nil {
			return err
		}
	}
	if f.processes {
		if f.o.Binary, err = testnet.Self(); err != nil {
			return err
		}
	}
	var recording *os.File
	if f.recording != "" { // before the work, not after it
		f.o.Seed = max(f.o.Seed, script.DefaultSeed)
		if recording, err = os.Create(f.recording); err != nil {
			return status.Errorf(status.BadRequest, "%w; name a file that can be written with --record", err)
		}
		defer func() { err = errors.Join(err, recording.Close()) }()
	}
	tell := a.stdout
	if a.json {
		tell = a.err
	}
	f.o.Started = func(m *testnet.Member) {
		fmt.Fprintf(tell, "%-8s %s  gateway %s  home %s\n", m.Name, m.ID().ID, m.ID().Gateway, m.Home)
	}
	net, err := testnet.Up(ctx, f.o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, net.Down(context.WithoutCancel(ctx))) }()
	if a.json {
		if err := a.print(net.Status(ctx), ""); err != nil {
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
	return testnetServe(ctx, tell, net, record, func(ctx context.Context) error {
		if !demo {
			return nil
		}
		return net.Demo(ctx, tell, f.dir)
	}, f.exit)
}

// recordedAs is the head of a recording.
func recordedAs(o testnet.Options) *script.File {
	return &script.File{Nodes: o.N, Seed: o.Seed, Deadline: script.DefaultDeadline, Within: script.DefaultWithin}
}

// testnetServe shows the network at work and keeps it up, with its control
// socket, until the context ends or somebody asks for its end. It tells what
// can be done with it.
func testnetServe(ctx context.Context, tell io.Writer, net *testnet.Net, r *testnet.Recorder, demo func(context.Context) error, exit bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	control := testnet.NewControl(net, testnet.NewPlayer(net, script.DefaultWithin), r)
	var serving sync.WaitGroup
	var failed error // read after serving.Wait
	ready := make(chan struct{})
	ended := make(chan struct{})
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
		fmt.Fprintf(tell, "\nThe network stays up until Ctrl-C or `allium testnet down`. Talk to a node with `allium --home HOME …`,\n"+
			"break things with `allium testnet chaos kill 2`. It is in %s\n", net.Dir())
		<-ctx.Done()
	}
	cancel()
	serving.Wait()
	select {
	case <-control.Down():
		err = nil // a demonstration that was cut short by it
	default:
	}
	return errors.Join(err, failed)
}

func (a *app) testnetStatusCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the nodes of the running network and what they suffer",
		Example: "  allium testnet status\n  allium testnet status --json | jq '.nodes[] | select(.ready | not)'",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := remote(dir)
			if err != nil {
				return err
			}
			s, err := r.Status(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.print(s, "")
			}
			_, err = fmt.Fprint(a.stdout, s)
			return err
		},
	}
	netFlag(cmd, &dir)
	return cmd
}

func (a *app) testnetDownCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "End the running network, or remove what a dead one left",
		Long: `End the running network: its nodes are drained and its directory is removed. With
--net and the directory of a network whose process was killed, that directory is
removed, once nodes that still run are drained.`,
		Example: "  allium testnet down\n  allium testnet down --net /tmp/allium-testnet-3064054571",
		Args:    noArgs,
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
					human = fmt.Sprintf("%s; %d nodes were still running", human, ended)
				}
				return a.print(map[string]any{"dir": dir, "ended": ended}, human)
			}
			if err != nil {
				return err
			}
			begun := time.Now()
			if err := r.Down(ctx); err != nil {
				return err
			}
			return a.print(map[string]any{"dir": r.Dir}, fmt.Sprintf("the network in %s ended in %s", r.Dir, time.Since(begun).Round(time.Millisecond)))
		},
	}
	netFlag(cmd, &dir)
	return cmd
}

func netFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "net", "", "directory of the network (default: the only one that runs)")
}

// remote is the network in dir, or the only one that runs.
func remote(dir string) (*testnet.Remote, error) {
	found, err := testnet.Find(dir)
	if err != nil {
		return nil, err
	}
	return testnet.Dial(found)
}
