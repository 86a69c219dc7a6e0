package source

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/gateway/api"
	"allium/internal/printable"
	"allium/protocols/status"
)

// FromFlag defines --from.
func FromFlag(cmd *cobra.Command, from *string) {
	cmd.Flags().StringVar(from, "from", "",
		"peer that the running node asks first: its id, or a multiaddr with /p2p/ID; others are asked too "+
			"(default: none)")
}

// FromConflict is returned if --from stands beside what names the peers already.
func FromConflict(other string) error {
	return failure.NewUsage("leave one of them out",
		"--from names the peer that the node asks first, and %s does so too", other)
}

// lastWord limits the wait of a command that has ended for the answer of the peer of --from.
const lastWord = 200 * time.Millisecond

// WithFrom runs do on the node that runs, which asks the peer from first for key. Meanwhile it tells the
// user if that peer does not have it.
func WithFrom(ctx context.Context, a *cli.App, from, key string, do func(api.Node) error) error {
	n, err := a.Node()
	if err != nil {
		return err
	}
	defer n.Close()
	asking, err := n.AskFirst([]string{from})
	if err != nil {
		return err
	}
	told, cancel := context.WithCancel(ctx)
	var asked sync.WaitGroup
	defer asked.Wait()
	defer cancel()
	done := make(chan struct{})
	asked.Go(func() {
		defer close(done)
		tellMissing(told, a, n, from, key)
	})
	if err := do(asking); err != nil {
		return err
	}
	select {
	case <-done:
	case <-time.After(lastWord):
	}
	return nil
}

// tellMissing tells the user if a peer does not have what key names, or does not say.
func tellMissing(ctx context.Context, a *cli.App, n api.Node, from, key string) {
	has, err := n.AskPeer(ctx, from, key)
	var what string
	switch {
	case ctx.Err() != nil || a.Quiet || status.Of(err) == status.BadRequest: // the command says so itself
		return
	case err != nil:
		why, _, _ := strings.Cut(err.Error(), "; ")
		what = fmt.Sprintf("%s did not answer: %s", from, why)
	case has.Has == "nothing":
		what = from + " does not have it"
	default:
		return
	}
	_ = a.Warn(printable.Text(what) + "; others are asked")
}
