package conns

import (
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"allium/internal/linked"
)

// Transfer is the body of one answer on its way to the client. It cuts off a client that takes nothing, and one of
// Transfers may evict it. The zero Transfer does neither. Its methods belong to the handler's goroutine.
type Transfer struct {
	conn   *Conn        // measures what the client takes; nil: nothing does, and the transfer cannot be cut
	stream *streamWatch // nil: the connection carries only this answer
	bytes  atomic.Int64 // bytes of the body so far
	in     *Transfers   // holds a place for it; nil: none does

	group         netip.Prefix
	began         time.Time
	writtenBefore int64 // bytes that the connection had written at began
	fetched       bool  // it holds a permit of the fetch gate
	listed        bool  // it is in perClient; guarded, like node, by the mu of in
	node          linked.Node[Transfer]
}

// Answer is an answer that Transfer.Watch watches.
type Answer struct {
	RC      *http.ResponseController
	Stall   time.Duration // the longest time in which the client takes nothing
	OnStall func()        // called when an answer over HTTP/2 is cut off for that; on HTTP/1 the write fails
}

// Watch makes the connection of r measure what the client takes of a, the answer to r, if the connection can. From here
// on a client that takes nothing is cut off. The caller calls Unwatch.
func (t *Transfer) Watch(r *http.Request, a Answer) {
	c := Of(r)
	if c == nil || !c.progress.enabled {
		return
	}
	t.conn = c
	if r.ProtoMajor == 2 {
		c.http2.Store(true)
		t.stream = watchStream(c, a)
	} else {
		c.progress.judge(a.Stall)
	}
}

// Unwatch ends Watch. The answer is not used afterwards.
func (t *Transfer) Unwatch() { t.stream.stop() }

// Arm sets the deadline of the next write, if the connection measures what the client takes. Else it returns false.
func (t *Transfer) Arm() bool {
	if t.conn != nil && t.stream == nil {
		t.conn.armDeadline()
	}
	return t.conn != nil
}

// Piece returns how many bytes of n to write at once, so that the progress shows.
func (t *Transfer) Piece(n int) int { return t.stream.piece(n) }

// BeginWrite notes that a write begins, and EndWrite that it wrote n bytes of the body.
func (t *Transfer) BeginWrite() { t.stream.begin() }

// EndWrite notes the end of a write.
func (t *Transfer) EndWrite(n int) {
	t.stream.end()
	t.bytes.Add(int64(n))
}

// Start takes a place in ts for an answer to group. fetched says that the answer holds a permit of the fetch gate. It
// returns busy if there is no place. The caller calls End.
func (t *Transfer) Start(ts *Transfers, group netip.Prefix, fetched bool) error {
	t.group, t.fetched, t.began = group, fetched, time.Now()
	if t.conn != nil {
		t.writtenBefore = t.conn.progress.written.Load()
	}
	if err := ts.begin(t); err != nil {
		return err
	}
	t.in = ts
	return nil
}

// Counted reports whether Start took a place.
func (t *Transfer) Counted() bool { return t.in != nil }

// End frees the place that Start took. It returns false if the transfer was evicted.
func (t *Transfer) End() bool { return t.in.end(t) }

func (t *Transfer) any() bool       { return true }
func (t *Transfer) isFetched() bool { return t.fetched }

// rate returns how many bytes per second the client has acknowledged since the transfer began. It
// counts receiveBuffer more, so that a client is not compared by what its kernel took at once. An
// HTTP/2 connection may not have acknowledged the latest bytes of any stream.
func (t *Transfer) rate(now time.Time) float64 {
	took := t.bytes.Load()
	switch {
	case t.conn == nil:
	case t.stream != nil:
		took -= t.conn.unacknowledged()
	default:
		took = t.conn.acknowledged() - t.writtenBefore
	}
	return float64(max(0, took)+receiveBuffer) / max(1, now.Sub(t.began).Seconds())
}

// cut ends the transfer. It ends the connection too, if that carries only this answer or does
// not take the reset of the stream.
func (t *Transfer) cut() {
	switch {
	case t.conn == nil:
	case t.stream != nil:
		t.stream.evictNow()
	default:
		t.conn.EndWrites()
	}
}
