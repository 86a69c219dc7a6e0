package audit

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"allium/protocols/status"
)

// Run writes records until ctx is done. Then it writes the queued records and a
// record of kind Stop, and returns nil. It calls ready once the log was opened.
//
// Errors of the disk do not end Run. It tries to open the log again every second,
// and mutations are refused until that succeeds.
func (l *Log) Run(ctx context.Context, ready func()) error {
	defer close(l.done)
	if l.disk == nil {
		l.runWithoutDisk(ctx, ready)
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
	l.flush()
	l.disk.close()
	return nil
}

// start opens the log and writes a record of kind Start. If the log cannot be
// opened, the record is written later.
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
	l.flush()
	l.disk.fillBallast(l.log)
}

// unwritable reports whether err says that the disk is full or read-only. Both may pass.
func unwritable(err error) bool {
	o, ok := status.System(err)
	return ok && (o == status.NoSpace || errors.Is(err, syscall.EROFS))
}

// open opens the files, with the ballast's space if the disk is full. It logs and
// returns the events that say what was wrong with them.
func (l *Log) open() ([]Event, error) {
	var events []Event
	err := l.disk.withBallast(func() (err error) {
		events, err = l.disk.recover()
		return err
	})
	for _, e := range events {
		switch e.Kind {
		case Damaged:
			l.m.damaged.Inc()
			l.log.Error(
				"the audit log is damaged: records were changed or are missing. The old files stay as they are; "+
					"a new file begins with a record of the damage. `allium audit verify` shows where it is",
				"dir", l.disk.dir, "what", e.Detail)
		case Cut:
			l.log.Warn("a crash left an unfinished record at the end of the audit log; it was cut off", "bytes",
				e.Bytes)
		}
	}
	return events, typed(err)
}

// step does the periodic work that is due. Then it writes the next batch, or
// returns when other work becomes due.
func (l *Log) step(ctx context.Context) {
	now := time.Now()
	if l.Err() != nil && !now.Before(l.nextOpen) {
		l.reopen()
	}
	var suppressed []item
	for outcome, n := range l.refusals.take(now) {
		suppressed = append(suppressed, item{event: Event{Kind: Suppressed, Outcome: outcome, Count: n}})
	}
	if len(suppressed) > 0 {
		l.write(suppressed)
	}
	if l.Err() == nil && !now.Before(l.nextRefill) {
		l.nextRefill = now.Add(refillEvery)
		l.disk.fillBallast(l.log)
	}
	if !l.unsyncedSince.IsZero() && now.Sub(l.unsyncedSince) >= syncDelay {
		l.flush()
	}
	wait, cancel := context.WithDeadline(ctx, l.due(now))
	first, err := l.queue.Get(wait)
	cancel()
	if err == nil {
		l.write(l.take(&first))
	}
}

// due returns when the next step is needed even if no record arrives.
func (l *Log) due(now time.Time) time.Time {
	due := now.Add(reportEvery)
	consider := func(at time.Time) {
		if !at.IsZero() && at.Before(due) {
			due = at
		}
	}
	consider(l.refusals.due())
	if l.Err() != nil {
		consider(l.nextOpen)
	} else if !l.unsyncedSince.IsZero() {
		consider(l.unsyncedSince.Add(syncDelay))
	}
	return due
}

// take returns the next batch: deferred records, then first if it is not nil, then
// queued records.
func (l *Log) take(first *item) []item {
	batch := l.deferred
	l.deferred = nil
	if first != nil {
		batch = append(batch, *first)
	}
	for len(batch) < maxDeferred+batchRecords {
		it, ok := l.queue.TryGet()
		if !ok {
			break
		}
		batch = append(batch, it)
	}
	return batch
}

// write writes a batch and answers the waiting requests. If the disk was full, a
// batch with an event that frees space opens the log again first.
func (l *Log) write(batch []item) {
	frees := slices.ContainsFunc(batch, func(it item) bool { return it.event.Frees })
	if err := l.Err(); frees && status.Of(err) == status.NoSpace {
		batch = append(l.reopenFiles(), batch...)
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
		l.flush()
	} else if l.unsyncedSince.IsZero() {
		l.unsyncedSince = time.Now()
	}
}

// put appends events to the chain, with a sync if durable is set. With spare it
// removes files of the ballast while the disk is full. It opens the log again for
// each attempt, because a failed write may leave part of a record.
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

// flush syncs the written records and writes the head file.
func (l *Log) flush() {
	if l.Err() != nil {
		return
	}
	l.unsyncedSince = time.Time{}
	err := l.disk.sync()
	if err == nil {
		err = l.disk.saveHead()
	}
	if err != nil {
		l.fail(nil, typed(err))
	}
}

// fail answers the waiting requests with err and keeps the other records, up to
// maxDeferred; further ones are lost and counted. Nothing is written until the log
// is opened again, because what the disk contains is unknown.
func (l *Log) fail(batch []item, err error) {
	if l.Err() == nil {
		l.log.Error("the audit log cannot be written; mutations are refused until it can", "err", err)
		l.nextOpen = time.Now().Add(retryEvery)
	}
	l.setErr(err) // before a request gets its answer
	for _, it := range batch {
		switch {
		case it.answer != nil:
			it.answer <- answer{err: err}
		case len(l.deferred) < maxDeferred:
			l.deferred = append(l.deferred, it)
		default:
			l.lost++
			l.m.lost.Inc()
		}
	}
}

// reopenFiles opens the log again, sets Err and returns the events of that as items.
func (l *Log) reopenFiles() (batch []item) {
	l.nextOpen = time.Now().Add(retryEvery)
	events, err := l.open()
	l.setErr(err)
	for _, e := range events {
		batch = append(batch, item{event: e})
	}
	return batch
}

// reopen opens the log again. On success it writes the deferred and queued records.
func (l *Log) reopen() {
	batch := l.reopenFiles()
	if l.Err() != nil {
		return
	}
	l.write(append(batch, l.take(nil)...))
	l.flush()
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

// typed gives an error of the disk its outcome, and says what the operator can do.
func typed(err error) error {
	switch {
	case err == nil:
		return nil
	case status.Of(err) == status.NoSpace:
		return status.Errorf(status.NoSpace, "%w; make room on the disk: nothing is changed without a record", err)
	case status.Of(err) == status.Busy:
		return status.Errorf(status.Busy, "%w; try again: nothing is changed without a record", err)
	default:
		return status.Errorf(status.NotReady,
			"%w; repair the disk below the audit log: nothing is changed without a record",
			err)
	}
}
