package audit

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"allium/protocols/admission"
	"allium/protocols/status"
)

const (
	writeDeadline = 5 * time.Second        // of one mutation's record
	lazySync      = 250 * time.Millisecond // what nobody waits for is durable after
	reportEvery   = 10 * time.Second       // suppressed refusals are counted
	retryEvery    = time.Second            // a log that failed is opened again
	batchRecords  = 256                    // written at once
	heldRecords   = 256                    // kept while the log cannot be written
	recentRecords = 1024                   // kept in RAM for Recent
)

// Deps is what a Log works with. Each may be nil.
type Deps struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Limits  *admission.Registry
}

// Log is the audit log. Its methods may be called from any goroutine; what
// they record is written while Run runs.
type Log struct {
	cfg   Config
	log   *slog.Logger
	m     *metrics
	queue *admission.Queue[item]
	quiet quiet
	disk  *chain        // nil: in RAM only
	done  chan struct{} // closed when Run has ended

	mu     sync.Mutex
	err    error // why nothing can be written now
	recent []Record

	// Of the writer.
	held  []item // what nobody waits for and could not be written
	lost  uint64 // records that found no room in held
	mem   position
	next  time.Time // when to try again
	since time.Time // of the first record that is not durable yet; zero: none
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

// New returns a Log in dir, or in RAM where dir is empty.
func New(cfg Config, dir string, d Deps) (*Log, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	l := &Log{cfg: cfg, log: d.Log, m: newMetrics(d.Metrics), done: make(chan struct{})}
	l.queue = admission.NewQueue[item](d.Limits, admission.Spec{
		Name: "audit.queue", Path: "HTTP requests → the audit log's writer", Policy: "a mutation waits 5 s, then busy; a refusal is counted only",
	}, cfg.Queue)
	l.quiet = newQuiet(cfg.Refusals, d.Limits)
	if dir != "" {
		l.disk = &chain{dir: dir, maxBytes: int64(cfg.MaxBytes), keep: cfg.Keep, open: openAppend}
	}
	return l, nil
}

// Mutation records what is about to be done and returns the record's number
// when it is durable. With an error it must not be done: busy, timeout, no_space
// where the disk is full, else not_ready.
func (l *Log) Mutation(ctx context.Context, e Event) (seq uint64, err error) {
	e.Kind = Mutation
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

// Recent returns the last n records, of those that are kept in RAM (1,024).
func (l *Log) Recent(n int) []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Record{}, l.recent[max(0, len(l.recent)-n):]...)
}

// Run writes until ctx is done, then what is queued, and a last record. It fails
// when the log cannot be opened at all; one that cannot be written any more is
// opened again every second.
func (l *Log) Run(ctx context.Context, ready func()) error {
	defer close(l.done)
	if err := l.start(); err != nil {
		return err
	}
	ready()
	for ctx.Err() == nil {
		l.step(ctx)
	}
	for l.queue.Len() > 0 {
		l.write(l.take(nil))
	}
	l.write([]item{{event: Event{Kind: Stop}}})
	l.settle()
	if l.disk != nil {
		l.disk.close()
	}
	return nil
}

// start opens the log and records that.
func (l *Log) start() error {
	events, err := l.open()
	if err != nil {
		return err
	}
	items := []item{{event: Event{Kind: Start}}}
	for _, e := range events {
		items = append(items, item{event: e})
	}
	l.write(items)
	l.settle()
	return l.Err()
}

// open opens the files and returns what to record of them.
func (l *Log) open() ([]Event, error) {
	if l.disk == nil {
		return nil, nil
	}
	events, err := l.disk.recover()
	for _, e := range events {
		switch e.Kind {
		case Damaged:
			l.log.Error("the audit log is damaged; a new file is begun and says so", "dir", l.disk.dir, "what", e.Detail)
		case Cut:
			l.log.Warn("a record that a crash left unfinished was cut off the audit log", "bytes", e.Bytes)
		}
	}
	return events, typed(err)
}

// step does what is due, and waits for records until something else is.
func (l *Log) step(ctx context.Context) {
	now := time.Now()
	if l.Err() != nil && !now.Before(l.next) {
		l.reopen()
	}
	l.report(now)
	if !l.since.IsZero() && now.Sub(l.since) >= lazySync {
		l.settle()
	}
	wait, cancel := context.WithDeadline(ctx, l.due(now))
	first, err := l.queue.Get(wait)
	cancel()
	if err == nil {
		l.write(l.take(&first))
	}
}

// due is when the next step has something to do without a new record.
func (l *Log) due(now time.Time) time.Time {
	due := now.Add(reportEvery)
	consider := func(at time.Time) {
		if !at.IsZero() && at.Before(due) {
			due = at
		}
	}
	consider(l.quiet.due())
	if l.Err() != nil {
		consider(l.next)
	} else if !l.since.IsZero() {
		consider(l.since.Add(lazySync))
	}
	return due
}

// take collects a batch: what was held back, first and what is queued.
func (l *Log) take(first *item) []item {
	batch := l.held
	l.held = nil
	if first != nil {
		batch = append(batch, *first)
	}
	for len(batch) < heldRecords+batchRecords {
		it, ok := l.queue.TryGet()
		if !ok {
			break
		}
		batch = append(batch, it)
	}
	return batch
}

// report records how many refusals were left out of late.
func (l *Log) report(now time.Time) {
	var batch []item
	for outcome, n := range l.quiet.take(now) {
		batch = append(batch, item{event: Event{Kind: Suppressed, Outcome: outcome, Count: n}})
	}
	if len(batch) > 0 {
		l.write(batch)
	}
}

// write writes a batch and answers those that wait.
func (l *Log) write(batch []item) {
	if err := l.Err(); err != nil {
		l.fail(batch, err)
		return
	}
	events, wait := make([]Event, len(batch), len(batch)+1), false
	for i, it := range batch {
		events[i], wait = it.event, wait || it.answer != nil
	}
	if l.lost > 0 {
		events = append(events, Event{Kind: Suppressed, Count: l.lost, Detail: "while the log could not be written"})
	}
	records, err := l.put(events, wait)
	if err != nil {
		l.fail(batch, typed(err))
		return
	}
	l.lost = 0
	l.m.records.Add(float64(len(records)))
	l.keep(records)
	for i, it := range batch {
		if it.answer != nil {
			it.answer <- answer{seq: records[i].Seq}
		}
	}
	if wait {
		l.settle()
	} else if l.since.IsZero() {
		l.since = time.Now()
	}
}

// put gives events their place in the chain.
func (l *Log) put(events []Event, durable bool) ([]Record, error) {
	now := time.Now().UTC()
	if l.disk == nil {
		records := make([]Record, len(events))
		for i, e := range events {
			r := Record{Seq: l.mem.seq + 1, Time: now, Event: e.clipped(), Prev: l.mem.hash.Hex()}
			line, err := r.line()
			if err != nil {
				return nil, err
			}
			l.mem = position{seq: r.Seq, hash: hashOf(line)}
			records[i] = r
		}
		return records, nil
	}
	records, err := l.disk.append(now, events)
	if err == nil && durable {
		err = l.disk.sync()
	}
	return records, err
}

// settle makes what nobody waited for durable, and writes the head file.
func (l *Log) settle() {
	if l.disk == nil || l.Err() != nil {
		return
	}
	l.since = time.Time{}
	err := l.disk.sync()
	if err == nil {
		err = l.disk.mark()
	}
	if err != nil {
		l.fail(nil, typed(err))
	}
}

// fail refuses what waits and keeps the rest for later. Nothing is written
// until the log was opened again: what is on the disk is not known.
func (l *Log) fail(batch []item, err error) {
	for _, it := range batch {
		switch {
		case it.answer != nil:
			it.answer <- answer{err: err}
		case len(l.held) < heldRecords:
			l.held = append(l.held, it)
		default:
			l.lost++
			l.m.lost.Inc()
		}
	}
	if l.Err() == nil {
		l.log.Error("the audit log cannot be written; mutations are refused until it can", "err", err)
		l.next = time.Now().Add(retryEvery)
	}
	l.setErr(err)
}

// reopen tries again.
func (l *Log) reopen() {
	l.next = time.Now().Add(retryEvery)
	events, err := l.open()
	if err != nil {
		l.setErr(err)
		return
	}
	l.setErr(nil)
	batch := make([]item, 0, len(events)+len(l.held))
	for _, e := range events {
		batch = append(batch, item{event: e})
	}
	l.write(append(batch, l.take(nil)...))
	l.settle()
	if l.Err() == nil {
		l.log.Info("the audit log can be written again")
	}
}

func (l *Log) setErr(err error) {
	l.m.writable(err == nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// keep remembers records for Recent.
func (l *Log) keep(records []Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recent = append(l.recent, records...)
	if over := len(l.recent) - recentRecords; over > 0 {
		l.recent = append(l.recent[:0], l.recent[over:]...)
	}
}

// typed gives an error of the disk its outcome.
func typed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return status.Errorf(status.NoSpace, "%w; make room on the disk: nothing is changed without a record", err)
	default:
		return status.Errorf(status.NotReady, "%w; repair the disk below the audit log: nothing is changed without a record", err)
	}
}
