package audit

import (
	"context"
	"log/slog"
	"time"
)

// tell makes an event a line of the node's log, and returns its number. It has no
// hash of the one before: nothing keeps the lines together.
func (l *Log) tell(e Event) uint64 {
	seq := l.told.Add(1)
	l.log.Info("audit", e.clipped().attrs(seq)...)
	l.m.records.Inc()
	return seq
}

// attrs are the fields of a record, named as in a file and without the empty ones.
func (e Event) attrs(seq uint64) []any {
	all := []any{slog.Uint64("seq", seq), slog.String("kind", string(e.Kind))}
	for _, f := range []struct{ name, value string }{
		{"actor", e.Actor}, {"branch", e.Branch}, {"addr", e.Addr}, {"method", e.Method}, {"route", e.Route}, {"op", e.Op}, {"object", e.Object}, {"name", e.Name},
		{"label", e.Label}, {"outcome", e.Outcome}, {"corr_id", e.CorrID}, {"detail", e.Detail},
	} {
		if f.value != "" {
			all = append(all, slog.String(f.name, f.value))
		}
	}
	if e.Bytes != 0 {
		all = append(all, slog.Int64("bytes", e.Bytes))
	}
	if e.Count != 0 {
		all = append(all, slog.Uint64("count", e.Count))
	}
	if e.Of != 0 {
		all = append(all, slog.Uint64("of", e.Of))
	}
	return all
}

// runTelling is Run where the node's log has the records.
func (l *Log) runTelling(ctx context.Context, ready func()) {
	l.tell(Event{Kind: Start})
	ready()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			l.tell(Event{Kind: Stop})
			return
		case now := <-tick.C:
			for outcome, n := range l.quiet.take(now) {
				l.tell(Event{Kind: Suppressed, Outcome: outcome, Count: n})
			}
		}
	}
}
