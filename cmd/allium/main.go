// Command allium is a peer-to-peer node for content addressed by BLAKE3, and
// the tool to use it: it adds, finds, fetches, verifies and serves files and
// directories.
//
// Each verb is one file, cmd_<verb>.go, and root.go joins them into a tree. A
// verb talks to the node of its home directory over the node's Unix socket. Verbs
// that need only the store open it themselves if no node runs. Results go to
// standard output and everything else to standard error. The exit code is that of
// the outcome (protocols/status).
//
// The words of a result stand in the file of its command; words.go has those that
// several share. Of the packages below this one, failure writes the errors, term
// what fits a terminal, and reference the pages of docs/reference.
//
// One command, walked through: main calls run, which calls app.execute. That
// builds the tree with command and runs `allium get b3:…`, whose function calls
// withReader for the node, its store or a gateway, and app.get with it. Results
// go through app.print; an error goes through app.report to failure.Of.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
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

	return execute(ctx, newApp(), args)
}
