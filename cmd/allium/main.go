// Command allium is a peer-to-peer node for content addressed by BLAKE3, and
// the tool to use it: it adds, finds, fetches, verifies and serves files and
// directories.
//
// Each verb is one file, cmd_<verb>.go. A verb talks to the node of its home
// directory over the node's Unix socket; verbs that only need the store open
// it themselves when no node runs. Results go to standard output, everything
// else to standard error; the exit code is the outcome's (SPEC §3).
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"allium/protocols/status"
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

	// node/p2p says the same through the logger.
	_ = os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")

	app := newApp()
	cmd := app.command()
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if ctx.Err() != nil && status.Of(err) == status.Canceled {
		err = errInterrupted
	}
	return app.exit(err)
}

var errInterrupted = status.Errorf(status.Canceled, "interrupted; nothing that was stored is lost")
