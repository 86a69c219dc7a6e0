package audit

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/ballast"
	"allium/internal/limits"
	"allium/protocols/status"
)

const (
	writeDeadline = 5 * time.Second        // of one mutation's record
	lazySync      = 250 * time.Millisecond // what nobody waits for is durable after
	reportEvery   = 10 * time.Second       // suppressed refusals are counted
	retryEvery    = time.Second            // a log that failed is opened again
	refillEvery   = 10 * time.Second       // the ballast is made whole again, if there is room
	batchRecords  = 256                    // written at once
	heldRecords   = 256                    // kept while the log cannot be written
)

// Deps is what a Log works with. Each may be nil.
type Deps struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Limits  *limits.Registry
}

// Log is the audit log. Its methods may be called from any goroutine; what
// they record is written while Run runs.
type Log struct {
	cfg   Config
	log   *slog.Logger
	m     *metrics
	queue *limits.Queue[item]
	quiet quiet
	disk  *chain        // nil: the node's log has the records, and the queue is nil too
	done  chan struct{} // closed when Run has ended

	told atomic.Uint64 // records in the node's log

	mu  sync.Mutex
	err error // why nothing can be written now

	// Of the writer.
	held   []item    // what nobody waits for and could not be written
	lost   uint64    // records that found no room in held
	next   time.Time // when to try again
	refill time.Time // when to look at the ballast
	since  time.Time // of the first record that is not durable yet; zero: none
}

// item is an event to write, and who waits until it is durable.
type item struct {
	event  Event
	answer chan<- answer // nil: nobody
}

type answer struct {
	seq uint64
	err error
}

// New returns a Log in dir. Where dir is empty, nothing is kept: each record is a
// line of the node's log, without a chain, and nothing is refused for it.
func New(cfg Config, dir string, d Deps) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	l := &Log{cfg: cfg, log: d.Log, m: newMetrics(d.Metrics), done: make(chan struct{})}
	l.quiet = newQuiet(cfg.Refusals, d.Limits)
	if dir == "" {
		return l, nil
	}
	l.disk = &chain{dir: dir, maxBytes: int64(cfg.MaxBytes), keep: cfg.Keep, open: openAppend, ballast: ballast.New(nil, filepath.Join(dir, ballastDir), ballastSize)}
	l.queue = limits.NewQueue[item](d.Limits, limits.Spec{
		Name: "audit.queue", Path: "HTTP requests → the audit log's writer", Policy: "a mutation waits 5 s, then busy; a refusal is counted only",
	}, cfg.Queue)
	return l, nil
}

// Mutation records what is about to be done and returns the record's number
// when it is durable. With an error it must not be done: busy, timeout, no_space
// where the disk is full, else not_ready. The records of events with Frees find
// room on a full disk while the ballast of the log lasts.
func (l *Log) Mutation(ctx context.Context, e Event) (seq uint64, err error) {
	e.Kind = Mutation
	if l.disk == nil {
		return l.tell(e), nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, writeDeadline, status.Errorf(status.Timeout, "audit: the record of this was not written within %s, so it was not done; try again", writeDeadline))
	defer cancel()
	reply := make(chan answer, 1)
	if err := l.queue.Put(ctx, item{event: e, answer: reply}, writeDeadline); err != nil {
		return 0, l.refused(ctx, err)
	}
	select {
	case a := <-reply:
		return a.seq, l.refused(ctx, a.err)
	case <-ctx.Done():
		return 0, l.refused(ctx, context.Cause(ctx))
	case <-l.done:
		return 0, l.refused(ctx, status.Errorf(status.Draining, "audit: the node is stopping; ask again when it is back"))
	}
}

// refused counts a mutation that could not be recorded.
func (l *Log) refused(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	l.m.failed.Inc()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// Outcome records how the mutation with the number e.Of ended. It waits for
// room in the queue for up to 5 s; a record that finds none is lost and counted.
func (l *Log) Outcome(ctx context.Context, e Event) {
	e.Kind = Outcome
	if l.disk == nil {
		l.tell(e)
		return
	}
	if err := l.queue.Put(context.WithoutCancel(ctx), item{event: e}, writeDeadline); err != nil {
		l.m.lost.Inc()
		l.log.Error("how a mutation ended is not in the audit log", "of", e.Of, "outcome", e.Outcome, "corr_id", e.CorrID, "err", err)
	}
}

// Refused records a refusal, if the rate allows, and never waits.
func (l *Log) Refused(e Event) {
	e.Kind = Refusal
	if !l.quiet.allow(e.Outcome) {
		l.m.suppressed.Inc()
		return
	}
	if l.disk == nil {
		l.tell(e)
		return
	}
	if l.queue.TryPut(item{event: e}) != nil {
		l.quiet.count(e.Outcome)
		l.m.suppressed.Inc()
	}
}

// Err is why no mutation can be recorded now, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
