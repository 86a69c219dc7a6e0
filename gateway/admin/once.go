package admin

import (
	"slices"
	"sync"
	"time"

	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Bounds of what is kept of requests with an Idempotency-Key.
const (
	onceKeys  = 1024 // keys; the oldest whose request has ended is forgotten
	onceFor   = 24 * time.Hour
	onceBytes = 64 << 10 // of an answer; a longer one is not kept
	onceKey   = 255      // characters of a key
)

// once lets a request with an Idempotency-Key happen once: the same one again
// gets the first one's answer. It is in RAM: a restart forgets it.
type once struct {
	limit *limits.Usage

	mu   sync.Mutex
	kept map[onceID]*outcome
	line []*outcome // in the order they began
}

// onceID names a request: a key is its bearer's own.
type onceID struct{ bearer, key string }

// outcome is what one request was answered.
type outcome struct {
	ID    onceID
	asked b3.Root // method, path and body
	began time.Time
	done  bool // false: it still runs
	body  []byte
	err   error
}

func newOnce(r *limits.Registry) *once {
	o := &once{kept: map[onceID]*outcome{}}
	o.limit = r.NewUsage(limits.Spec{
		Name: "admin.idempotency_keys", Path: "admin listener → answers kept", Policy: "the oldest whose request has ended is forgotten; while all run, busy",
	}, onceKeys, o.size)
	return o
}

func (o *once) size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return int64(len(o.line))
}

// do runs f, or returns what the same request was answered before. Another
// request with the same key is conflict, and so is the same while the first
// runs. What failed in a way that may pass is not kept: it may be tried again.
func (o *once) do(id onceID, asked b3.Root, f func() ([]byte, error)) (body []byte, replayed bool, err error) {
	if id.key == "" {
		body, err = f()
		return body, false, err
	}
	mine, old := o.begin(id, asked)
	switch {
	case mine != nil:
	case old == nil:
		full := o.limit.Refuse()
		full.RetryAfter = time.Second
		return nil, false, status.BusyError(status.Busy, full)
	case old.asked != asked:
		return nil, false, status.Errorf(status.Conflict, "this Idempotency-Key belongs to another request; use a new one for each")
	case !old.done:
		return nil, false, &status.Error{
			Outcome: status.Conflict, Message: "the request with this Idempotency-Key still runs; ask again for its answer",
			Limit: &status.Limit{Name: "admin.idempotency_keys", Current: 1, Cap: 1, RetryAfter: time.Second},
		}
	default:
		return old.body, true, old.err
	}
	defer func() { o.end(mine, body, err) }()
	err = status.Errorf(status.Internal, "it did not return") // what a panic leaves
	body, err = f()
	return body, false, err
}

// begin claims an id; old is a copy of who has it already. A request that runs
// keeps its place, or the same one could run beside it: while all do, both are nil.
func (o *once) begin(id onceID, asked b3.Root) (mine, old *outcome) {
	now := time.Now()
	defer o.limit.Grown()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.line = slices.DeleteFunc(o.line, func(at *outcome) bool {
		over := at.done && now.Sub(at.began) >= onceFor
		if over {
			delete(o.kept, at.ID)
		}
		return over
	})
	if had := o.kept[id]; had != nil {
		was := *had
		return nil, &was
	}
	if len(o.line) >= onceKeys {
		oldest := slices.IndexFunc(o.line, func(at *outcome) bool { return at.done })
		if oldest < 0 {
			return nil, nil
		}
		o.drop(oldest)
	}
	mine = &outcome{ID: id, asked: asked, began: now}
	o.kept[id] = mine
	o.line = append(o.line, mine)
	return mine, nil
}

// end keeps an answer, or forgets the request where it may be tried again.
func (o *once) end(mine *outcome, body []byte, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && status.Of(err).Retry() != status.RetryNever || status.Of(err) == status.Canceled || len(body) > onceBytes {
		o.drop(slices.Index(o.line, mine))
		return
	}
	mine.done, mine.body, mine.err = true, body, err
}

// drop forgets the i-th of the line.
func (o *once) drop(i int) {
	delete(o.kept, o.line[i].ID)
	o.line = append(o.line[:i], o.line[i+1:]...)
}

// onceIDOf is the request's Idempotency-Key, empty where it has none.
func onceIDOf(w *exchange.Response, values []string) (onceID, error) {
	if len(values) == 0 {
		return onceID{}, nil
	}
	key := values[0]
	if len(values) > 1 || key == "" || len(key) > onceKey {
		return onceID{}, status.Errorf(status.BadRequest, "Idempotency-Key must come once, with 1 to %d characters", onceKey)
	}
	for i := range len(key) {
		if key[i] < '!' || key[i] > '~' {
			return onceID{}, status.Errorf(status.BadRequest, "Idempotency-Key holds other than visible ASCII")
		}
	}
	return onceID{bearer: w.Grant.ID, key: key}, nil
}
