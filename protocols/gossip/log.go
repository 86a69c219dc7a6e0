package gossip

import (
	"context"
	"log/slog"
)

// demoted is a log handler for pubsub that lowers every level below error to debug. Nearly all of
// these lines report what a peer did, and a peer could cause any number of them. Metrics count the
// same events.
type demoted struct{ slog.Handler }

// demote returns the level at which a line of level l is logged.
func demote(l slog.Level) slog.Level {
	if l < slog.LevelError {
		return min(l, slog.LevelDebug)
	}
	return l
}

// Enabled implements slog.Handler.
func (d demoted) Enabled(ctx context.Context, l slog.Level) bool {
	return d.Handler.Enabled(ctx, demote(l))
}

// Handle implements slog.Handler.
func (d demoted) Handle(ctx context.Context, r slog.Record) error {
	r.Level = demote(r.Level)
	return d.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (d demoted) WithAttrs(as []slog.Attr) slog.Handler { return demoted{d.Handler.WithAttrs(as)} }

// WithGroup implements slog.Handler.
func (d demoted) WithGroup(name string) slog.Handler { return demoted{d.Handler.WithGroup(name)} }
