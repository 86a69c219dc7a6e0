package updates

import (
	"context"
	"time"

	"allium/protocols/status"
)

// How records are sent: at most ownAtOnce of this node and othersAtOnce of other nodes in a sendWindow, which
// begins when the one before is over and something is due. This is less than gossip lets a node publish, so that
// other topics have a part.
const (
	ownAtOnce    = 16
	othersAtOnce = 8
	sendWindow   = 250 * time.Millisecond

	again       = time.Second     // until a record that could not be sent is tried again
	relayFor    = time.Minute     // after which the record of another node is dropped if it could not be sent
	sendTimeout = 2 * time.Second // of one message
	idle        = time.Hour       // the longest wait of Run
)

// Run sends the records that are due until ctx ends.
func (u *Updates) Run(ctx context.Context, ready func()) error {
	ready()
	for ctx.Err() == nil {
		due, wait := u.due(time.Now())
		for _, r := range due {
			u.send(ctx, r)
		}
		if len(due) > 0 {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-u.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// due returns the records to send now, or how long to wait for the next one.
func (u *Updates) due(now time.Time) (due []heldRecord, wait time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.renew(now)
	due, next := u.held.take(now, u.window.own, u.window.others)
	for _, r := range due {
		if r.via == "" {
			u.window.own--
		} else {
			u.window.others--
		}
	}
	u.sent.WithLabelValues(resultDropped).Add(float64(u.held.dropped))
	u.held.dropped = 0
	if next.IsZero() {
		return due, idle
	}
	if !next.After(now) { // no place in this window
		next = u.window.begun.Add(sendWindow)
	}
	return due, next.Sub(now)
}

// window is a time in which so many more records may be sent.
type window struct {
	begun       time.Time
	own, others int
}

// renew begins the next window if the last one is over. u.mu must be held.
func (u *Updates) renew(now time.Time) {
	if now.Sub(u.window.begun) >= sendWindow {
		u.window = window{begun: now, own: ownAtOnce, others: othersAtOnce}
	}
}

// send sends a record. One that cannot be sent now waits.
func (u *Updates) send(ctx context.Context, r heldRecord) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	begun := time.Now()
	if r.via != "" && !r.learned {
		u.deps.Learned(r.rec)
		r.learned = true
	}
	err := error(status.Errorf(status.NotReady, "no peer follows %s", Topic))
	if u.deps.HasPeers() {
		err = u.deps.Publish(ctx, r.rec.Envelope)
	}
	switch status.Of(err) {
	case status.OK:
		u.sent.WithLabelValues(resultSent).Inc()
	case status.Busy, status.RateLimit, status.NotReady, status.Timeout, status.Canceled:
		u.later(r, begun)
		u.grown()
	case status.Stale: // a newer record of the name was announced
	default:
		u.sent.WithLabelValues(resultFailed).Inc()
	}
}

// later holds a record back again, unless a record that is not older was announced. The record's own message
// does not count if it was validated since begun: it was not sent.
func (u *Updates) later(r heldRecord, begun time.Time) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	r.due = now.Add(again)
	if last, ok := u.last.Peek(r.rec.Name); ok {
		switch {
		case last.own && last.seq == r.rec.Seq && !last.at.Before(begun):
			u.last.Add(r.rec.Name, message{seq: last.seq})
		case last.seq >= r.rec.Seq:
			return
		default:
			if end := last.at.Add(Gap); end.After(r.due) {
				r.due = end
			}
		}
	}
	u.held.put(r)
}
