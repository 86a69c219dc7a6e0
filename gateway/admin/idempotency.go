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

// The limits of saved requests with an Idempotency-Key.
const (
	maxRequests    = 1024           // saved requests; a new one replaces the oldest that has ended
	savedFor       = 24 * time.Hour // how long an answer is saved
	maxSavedAnswer = 64 << 10       // bytes of an answer; a longer one is not saved
	maxKeyLength   = 255            // characters of a key
)

// idempotency runs a request with an Idempotency-Key once. Repeating the request returns the first
// answer. The answers are in RAM, so a restart loses them. It is safe for concurrent use.
type idempotency struct {
	limit *limits.Usage

	mu       sync.Mutex // lock: leaf
	requests map[requestID]*savedRequest
	order    []*savedRequest // oldest first
}

// requestID identifies a request: each bearer has its own keys.
type requestID struct{ bearer, key string }

// savedRequest is a request and its answer.
type savedRequest struct {
	ID     requestID
	digest b3.Root // of the method, path, label and body
	began  time.Time
	done   bool // false: it still runs
	body   []byte
	err    error
}

func newIdempotency(r *limits.Registry) *idempotency {
	o := &idempotency{requests: map[requestID]*savedRequest{}}
	o.limit = r.NewUsage(limits.Spec{
		Name: "admin.idempotency_keys", Path: "admin listener → saved answers",
		Policy: "the oldest ended request is dropped; busy while all run",
	}, maxRequests, o.size)
	return o
}

func (o *idempotency) size() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return int64(len(o.order))
}

// do runs f, or returns the saved answer of the same request. It returns conflict for another
// request with the same key, and for the same request while the first one runs. It does not save
// an error that a retry may cure.
func (o *idempotency) do(id requestID, asked b3.Root, f func() ([]byte, error)) (body []byte, replayed bool,
	err error) {
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
	case old.digest != asked:
		return nil, false, status.Errorf(status.Conflict,
			"the Idempotency-Key was used for another request. Use a new key for each request")
	case !old.done:
		return nil, false, &status.Error{
			Outcome: status.Conflict, Message: "the request with this Idempotency-Key still runs. Repeat it later",
			Limit: &status.Limit{Name: "admin.idempotency_keys", Current: 1, Cap: 1, RetryAfter: time.Second},
		}
	default:
		return old.body, true, old.err
	}
	defer func() { o.end(mine, body, err) }()
	err = status.Errorf(status.Internal, "the request panicked") // stays if f panics
	body, err = f()
	return body, false, err
}

// begin saves a new request as mine, or returns a copy of the saved one as old. A running request
// is never dropped, because it could then run twice. If all saved requests run, both are nil.
func (o *idempotency) begin(id requestID, asked b3.Root) (mine, old *savedRequest) {
	now := time.Now()
	defer o.limit.Grown()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.order = slices.DeleteFunc(o.order, func(at *savedRequest) bool {
		over := at.done && now.Sub(at.began) >= savedFor
		if over {
			delete(o.requests, at.ID)
		}
		return over
	})
	if had := o.requests[id]; had != nil {
		was := *had
		return nil, &was
	}
	if len(o.order) >= maxRequests {
		oldest := slices.IndexFunc(o.order, func(at *savedRequest) bool { return at.done })
		if oldest < 0 {
			return nil, nil
		}
		o.drop(oldest)
	}
	mine = &savedRequest{ID: id, digest: asked, began: now}
	o.requests[id] = mine
	o.order = append(o.order, mine)
	return mine, nil
}

// end saves an answer, or drops the request if it may be tried again.
func (o *idempotency) end(mine *savedRequest, body []byte, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	mayPass := err != nil && status.Of(err).Retry() != status.RetryNever || status.Of(err) == status.Canceled
	if mayPass || len(body) > maxSavedAnswer {
		o.drop(slices.Index(o.order, mine))
		return
	}
	mine.done, mine.body, mine.err = true, body, err
}

// drop removes the i-th request of order.
func (o *idempotency) drop(i int) {
	delete(o.requests, o.order[i].ID)
	o.order = append(o.order[:i], o.order[i+1:]...)
}

// requestIDOf returns the identity of a request. Its key is empty if the request has no
// Idempotency-Key.
func requestIDOf(w *exchange.Response, values []string) (requestID, error) {
	if len(values) == 0 {
		return requestID{}, nil
	}
	key := values[0]
	if len(values) > 1 || key == "" || len(key) > maxKeyLength {
		return requestID{}, status.Errorf(status.BadRequest,
			"cannot use the header Idempotency-Key. Send it once, with 1 to %d characters", maxKeyLength)
	}
	for i := range len(key) {
		if key[i] < '!' || key[i] > '~' {
			return requestID{}, status.Errorf(status.BadRequest,
				"cannot use the header Idempotency-Key: character %d is not visible ASCII", i+1)
		}
	}
	return requestID{bearer: w.Grant.ID, key: key}, nil
}
