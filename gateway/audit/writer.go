package audit

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"allium/protocols/status"
)

// Run writes until ctx is done, then what is queued, and a last record. No disk
// makes it fail: a log that cannot be opened or written is tried again every
// second, and until then mutations are refused.
func (l *Log) Run(ctx context.Context, ready func()) error {
	defer close(l.done)
	if l.disk == nil {
		l.runTelling(ctx, ready)
		return nil
	}
	l.start()
	ready()
	for ctx.Err() == nil {
		l.step(ctx)
	}
	for l.queue.Len() > 0 {
		l.write(l.take(nil))
	}
	l.write([]item{{event: Event{Kind: Stop, Frees: true}}})
	l.settle()
	l.disk.close()
	return nil
}

// start opens the log and records that. What cannot be written now is held.
func (l *Log) start() {
	l.disk.ballast.Load()
	items := []item{{event: Event{Kind: Start, Frees: true}}}
	events, err := l.open()
	if err != nil {
		l.fail(items, err)
		return
	}
	for _, e := range events {
		items = append(items, item{event: e})
	}
	l.write(items)
	l.settle()
	l.fillBallast()
}

// unwritable reports whether err says that the disk takes no writes, which
// passes.
func unwritable(err error) bool {
	o, ok := status.System(err)
	return ok && (o == status.NoSpace || errors.Is(err, syscall.EROFS))
}

// fillBallast makes the ballast whole, if there is room.
func (l *Log) fillBallast() {
	for more := true; more; {
		var err error
		if more, err = l.disk.ballast.Fill(ballastKeep); err != nil && !unwritable(err) {
			l.log.Warn("the ballast of the audit log cannot be made; on a full disk deletions may be refused", "err", err)
		}
	}
}

// open opens the files and returns what to record of them.
func (l *Log) open() ([]Event, error) {
	var events []Event
	err := l.disk.sparing(func() (err error) {
		events, err = l.disk.recover()
		return err
	})
	for _, e := range events {
		switch e.Kind {
		case Damaged:
			l.m.damaged.Inc()
			l.log.Error("the audit log is damaged: records were changed or are missing. Nothing in it was touched; a new file is begun and says so. `allium audit verify` shows where", "dir", l.disk.dir, "what", e.Detail)
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
	if l.Err() == nil && !now.Before(l.refill) {
		l.refill = now.Add(refillEvery)
		l.fillBallast()
	}
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
	frees := slices.ContainsFunc(batch, func(it item) bool { return it.event.Frees })
	if err := l.Err(); frees && status.Of(err) == status.NoSpace {
		batch = append(l.opened(), batch...)
	}
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
	records, err := l.put(events, wait, frees)
	if err != nil {
		l.fail(batch, typed(err))
		return
	}
	l.lost = 0
	l.m.records.Add(float64(len(records)))
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

// put gives events their place in the chain. With spare, which is for what gives
// space back, they may use the ballast up: the log is opened again for each try,
// as a part of a record may be in it.
func (l *Log) put(events []Event, durable, spare bool) ([]Record, error) {
	now := time.Now().UTC()
	records, err := l.disk.append(now, events)
	for spare && full(err) && l.disk.ballast.Release() {
		var found []Event
		if found, err = l.open(); err == nil {
			records, err = l.disk.append(now, append(found, events...))
		}
		if err == nil {
			records = records[len(found):]
		}
	}
	if err == nil && durable {
		err = l.disk.sync()
	}
	return records, err
}

// settle makes what nobody waited for durable, and writes the head file.
func (l *Log) settle() {
	if l.Err() != nil {
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
	if l.Err() == nil {
		l.log.Error("the audit log cannot be written; mutations are refused until it can", "err", err)
		l.next = time.Now().Add(retryEvery)
	}
	l.setErr(err) // before anybody is told
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
}

// opened opens the log again and returns what there is to record of that.
func (l *Log) opened() (batch []item) {
	l.next = time.Now().Add(retryEvery)
	events, err := l.open()
	l.setErr(err)
	for _, e := range events {
		batch = append(batch, item{event: e})
	}
	return batch
}

// reopen tries again.
func (l *Log) reopen() {
	batch := l.opened()
	if l.Err() != nil {
		return
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

// typed gives an error of the disk its outcome.
func typed(err error) error {
	switch {
	case err == nil:
		return nil
	case status.Of(err) == status.NoSpace:
		return status.Errorf(status.NoSpace, "%w; make room on the disk: nothing is changed without a record", err)
	case status.Of(err) == status.Busy:
		return status.Errorf(status.Busy, "%w; try again: nothing is changed without a record", err)
	default:
		return status.Errorf(status.NotReady, "%w; repair the disk below the audit log: nothing is changed without a record", err)
	}
}
