package audit

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"allium/internal/ballast"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/status"
)

const (
	writeDeadline = 5 * time.Second        // longest wait of a request for the queue and for its record
	syncDelay     = 250 * time.Millisecond // from writing records that no request waits for to their sync
	reportEvery   = 10 * time.Second       // interval of the records that count suppressed refusals
	retryEvery    = time.Second            // interval of attempts to open a log that failed
	refillEvery   = 10 * time.Second       // interval of attempts to refill the ballast
	batchRecords  = 256                    // most queued records in a batch
	maxDeferred   = 256                    // most records kept in memory while the log cannot be written
)

// Deps are the services that a Log uses. Each may be nil.
type Deps struct {
	env.Env
}

// Log is the audit log. It is safe for concurrent use. Records are written only
// while Run runs.
type Log struct {
	cfg      atomic.Pointer[Config]
	log      *slog.Logger
	m        *metrics
	queue    *limits.Queue[item]
	refusals refusalLimit
	disk     *chain        // nil: records go to the node's log, and the queue is nil too
	done     chan struct{} // closed when Run has ended

	logged atomic.Uint64 // records in the node's log

	mu  sync.Mutex // lock: leaf
	err error      // why nothing can be written now

	backlog
}

// backlog holds what the writer of a log has yet to do. Only the writer uses it.
type backlog struct {
	deferred      []item    // records that could not be written and that no request waits for
	lost          uint64    // records dropped because deferred was full
	nextOpen      time.Time // next attempt to open the log
	nextRefill    time.Time // next attempt to refill the ballast
	unsyncedSince time.Time // when the oldest record without a sync was written; zero: none
}

// item is an event to write and the request that waits for it.
type item struct {
	event  Event
	answer chan<- answer // buffered; receives one answer once the event is durable or failed; nil: no request waits
}

// answer is the number of a durable record, or why the record was not written.
type answer struct {
	seq uint64
	err error
}

// New returns a Log that writes to dir. With an empty dir each record becomes a
// line of the node's log, without hashes, and no mutation is refused. New returns
// bad_request for an invalid cfg.
func New(cfg Config, dir string, d Deps) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	d.Env.SetDefaults()
	l := &Log{log: d.Log, m: newMetrics(d.Metrics), done: make(chan struct{})}
	l.cfg.Store(&cfg)
	l.refusals = newRefusalLimit(cfg.Refusals, d.Limits)
	if dir == "" {
		return l, nil
	}
	l.disk = &chain{
		dir: dir, cfg: &l.cfg, open: openAppend,
		ballast: ballast.New(nil, filepath.Join(dir, ballastDir), ballastSize),
	}
	l.queue = limits.NewQueue[item](d.Limits, limits.Spec{
		Name: "audit.queue", Path: "HTTP requests → the audit log's writer",
		Policy: "a mutation waits 5 s, then busy; a refusal is counted only",
	}, cfg.Queue)
	return l, nil
}

// Reconfigure changes MaxBytes and Keep. The next file that is begun, or removed, follows them.
func (l *Log) Reconfigure(cfg Config) { l.cfg.Store(&cfg) }

// Mutation records a mutation before it begins and returns the record's number
// once the record is durable. On an error the caller must refuse the mutation.
//
// The outcome of the error is busy, timeout, draining while the node stops,
// no_space when the disk is full, or not_ready when the disk failed otherwise. If ctx
// ends first, the error is its cause. On a full disk, events with Frees are still
// recorded until the ballast is used up.
func (l *Log) Mutation(ctx context.Context, e Event) (seq uint64, err error) {
	e.Kind = Mutation
	if l.disk == nil {
		return l.logRecord(e), nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, writeDeadline,
		status.Errorf(status.Timeout, "the record of this was not written within %s, so it was not done; try again",
			writeDeadline))
	defer cancel()
	reply := make(chan answer, 1)
	if err := l.queue.Put(ctx, item{event: e, answer: reply}, writeDeadline); err != nil {
		return 0, refusedMutation(ctx, l, err)
	}
	select {
	case a := <-reply:
		return a.seq, refusedMutation(ctx, l, a.err)
	case <-ctx.Done():
		return 0, refusedMutation(ctx, l, context.Cause(ctx))
	case <-l.done:
		return 0, refusedMutation(ctx, l,
			status.Errorf(status.Draining, "the node is stopping; ask again when it is back"))
	}
}

// refusedMutation counts a mutation that could not be recorded and returns the error for
// the caller: the cause of ctx if it ended, otherwise err. A nil err is not counted.
func refusedMutation(ctx context.Context, l *Log, err error) error {
	if err == nil {
		return nil
	}
	l.m.failed.Inc()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// Outcome records how the mutation with the number e.Of ended. If the queue is
// full, it waits for up to 5 s. Then the record is lost, counted and logged.
func (l *Log) Outcome(ctx context.Context, e Event) {
	e.Kind = Outcome
	if l.disk == nil {
		l.logRecord(e)
		return
	}
	if err := l.queue.Put(context.WithoutCancel(ctx), item{event: e}, writeDeadline); err != nil {
		l.m.lost.Inc()
		l.log.Error("how a mutation ended is not in the audit log", "of", e.Of, "outcome",
			e.Outcome, "corr_id", e.CorrID,
			"err", err)
	}
}

// Refused records a refusal and never waits. Beyond the rate, or when the queue is
// full, the refusal is only counted.
func (l *Log) Refused(e Event) {
	e.Kind = Refusal
	if !l.refusals.allow(e.Outcome) {
		l.m.suppressed.Inc()
		return
	}
	if l.disk == nil {
		l.logRecord(e)
		return
	}
	if l.queue.TryPut(item{event: e}) != nil {
		l.refusals.count(e.Outcome)
		l.m.suppressed.Inc()
	}
}

// Err returns why no mutation can be recorded now, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
