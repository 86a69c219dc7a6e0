package naming

import (
	"context"
	"errors"
	"time"

	"allium/cmd/allium/cli"
	"allium/cmd/allium/failure"
	"allium/cmd/allium/term"
	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/internal/printable"
	"allium/node/files/watch"
	"allium/protocols/status"
)

// publishTiming says when publish --watch publishes. Peers relay one announcement of a name in 10 s.
var publishTiming = watch.Timing{
	Quiet: 500 * time.Millisecond, Latest: 5 * time.Second, Gap: 10 * time.Second,
	Retry: time.Second, Slow: time.Minute,
}

// publishWatched publishes again and again, until it is interrupted.
func publishWatched(ctx context.Context, a *cli.App, n *client.Client, p publication) error {
	line := stateLine(a)
	defer line.Clear()
	var old api.OwnName // as it was published last
	var failed state    // of the last publication
	full, first := p.request.Name, true
	o := watch.Options{
		Timing: publishTiming,
		Polling: func(err error) {
			note(a, line, "the kernel cannot watch "+p.path+" ("+err.Error()+
				"); it is looked at every few seconds instead")
		},
		Work: func(ctx context.Context) (published bool, err error) {
			line.Set("publishing " + full)
			if old.Name == "" {
				if old, err = publishedAs(ctx, n, full); err != nil {
					return false, noteError(ctx, a, line, &failed, err)
				}
			}
			done, err := publishNow(ctx, a, n, p, old, publishTiming.Gap)
			if done.Name.Name != "" {
				old = done.Name
			}
			var later watch.Postponed
			if errors.As(err, &later) {
				line.Set(full + " was published just now; again at " + later.Until.Format(time.TimeOnly))
				return false, err
			}
			if err != nil {
				return false, noteError(ctx, a, line, &failed, err)
			}
			line.Clear()
			if first || !done.Unchanged {
				if err := a.Print(done, done.Line(a.Quiet)); err != nil {
					return false, err
				}
			}
			p.newZone, failed, first = nil, state{}, false // told once
			line.Set(full + " is " + failure.Short(old.Value) + ", looked at " + time.Now().Format(time.TimeOnly))
			return !done.Unchanged, nil
		},
	}
	return watch.Run(ctx, p.path, o)
}

// publishedAs returns what the node publishes for a name, zero if that is nothing or has a problem.
func publishedAs(ctx context.Context, n *client.Client, full string) (api.OwnName, error) {
	for own, err := range n.OwnNames(ctx) {
		if err != nil {
			return api.OwnName{}, err
		}
		if own.Name == full && own.Problem == "" {
			return own, nil
		}
	}
	return api.OwnName{}, nil
}

// stateLine returns the line of a terminal that shows the state of a command that goes on. In a
// pipe, with -q and with --json it shows nothing.
func stateLine(a *cli.App) *term.Line {
	if a.Quiet || a.JSON {
		return term.NewLine(a.Stderr, 0)
	}
	return term.NewLine(a.Stderr, a.ErrColumns)
}

// note prints a line for the user.
func note(a *cli.App, line *term.Line, what string) {
	line.Clear()
	if !a.Quiet {
		_, _ = a.Stderr.Write([]byte("allium: " + printable.Text(what) + "\n"))
	}
}

// state is an error as it was told last.
type state struct {
	outcome status.Outcome
	told    bool
}

// noteError tells the user of an error after which the command goes on, once as long as it has the
// same outcome, and returns it. It does not tell of an error that ends the command.
func noteError(ctx context.Context, a *cli.App, line *term.Line, last *state, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if now := (state{status.Of(err), true}); now != *last {
		*last = now
		line.Clear()
		a.Report(err, failure.Task{})
	}
	line.Set("trying again: " + err.Error())
	return err
}
