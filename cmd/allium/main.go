// Command allium is a peer-to-peer node for content addressed by BLAKE3, and
// the tool to use it: it adds, finds, fetches, verifies and serves files and
// directories.
//
// Each command is one file of a package below this one, by what it is about, and
// root.go joins them into a tree: fileio has files in and out, storage what the store
// holds, replication copies on other members, naming names, network peers, daemon the
// node, settings its configuration, diagnosis what is inside, security capabilities and
// keys, packs maps, and testbed networks to try things out. A command talks to the node
// of its home directory over the node's Unix socket. Commands that need only the store
// open it themselves if no node runs. Results go to standard output and everything else
// to standard error. The exit code is that of the outcome (protocols/status).
//
// They are built on cli, which knows flags, streams and the node. Above it, source opens
// what a command reads from, and adding brings files to a node. Of the others, failure
// writes the errors, term what fits a terminal, drawing what is easier to see than to
// read, and reference the pages of docs/reference. The words of a result stand in the
// file of its command.
//
// One command, walked through: main calls run, which calls execute. That builds the tree
// with rootCommand and runs `allium get b3:…`, whose function calls source.WithSource
// for the node, its store or a gateway, and get with it. Results go through
// cli.App.Print; an error goes through cli.App.Report to failure.Of.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"allium/cmd/allium/cli"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

// run executes one command line and returns the exit code. The first SIGINT or
// SIGTERM cancels the command, which then cleans up; the second ends the
// process at once.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the next signal has its usual effect

	// quic-go prints this warning itself; node/p2p logs the same.
	_ = os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")

	return execute(ctx, cli.New(), args)
}
