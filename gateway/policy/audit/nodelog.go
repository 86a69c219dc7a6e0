package audit

import (
	"context"
	"log/slog"
	"time"
)

// logRecord writes an event to the node's log and returns the record's number. The line
// has no hash of the line before, so a missing line is not found.
func (l *Log) logRecord(e Event) uint64 {
	seq := l.logged.Add(1)
	l.log.Info("audit", e.clipped().attrs(seq)...)
	l.m.records.Inc()
	return seq
}

// attrs returns the fields of a record with the names that they have in a file.
// Empty fields are left out.
func (e Event) attrs(seq uint64) []any {
	all := []any{slog.Uint64("seq", seq), slog.String("kind", string(e.Kind))}
	for _, f := range []struct{ name, value string }{
		{"actor", e.Actor}, {"branch", e.Branch}, {"addr", e.Addr}, {"method", e.Method},
		{"route", e.Route}, {"op", e.Op},
		{"object", e.Object}, {"name", e.Name},
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

// runWithoutDisk is Run without a directory. It logs the counts of suppressed refusals
// until ctx is done.
func (l *Log) runWithoutDisk(ctx context.Context, ready func()) {
	l.logRecord(Event{Kind: Start})
	ready()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			l.logRecord(Event{Kind: Stop})
			return
		case now := <-tick.C:
			for outcome, n := range l.refusals.take(now) {
				l.logRecord(Event{Kind: Suppressed, Outcome: outcome, Count: n})
			}
		}
	}
}
