package exchange

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"

	"allium/gateway/audit"
	"allium/protocols/capability"
)

// Audit records mutations and refusals; see [audit.Log]. It is safe for concurrent use.
type Audit interface {
	// Mutation returns when the record is durable. If it returns an error, the mutation must
	// not begin.
	Mutation(ctx context.Context, e audit.Event) (seq uint64, err error)
	// Outcome records how the mutation with the number e.Of ended.
	Outcome(ctx context.Context, e audit.Event)
	// Refused records a refusal if its rate limit permits. It never waits.
	Refused(e audit.Event)
}

// FreesSpace reports whether a request frees disk space or stops the node. The audit log
// records such a request on a full disk too.
func FreesSpace(op capability.Op, r *http.Request) bool {
	return op == capability.Unpin || op == capability.GC || op == capability.Drain ||
		r.Method == http.MethodDelete
}

// Record records a mutation before it begins. If it returns an error, the mutation must not
// begin.
func (w *Response) Record(r *http.Request, e audit.Event) (err error) {
	if w.Audit == nil {
		return nil
	}
	w.Recorded, err = w.Audit.Mutation(r.Context(), e)
	return err
}

// Event returns an audit event with the fields that every request has.
func (w *Response) Event(route string, r *http.Request) audit.Event {
	return audit.Event{
		Actor: cmp.Or(w.Grant.ID, w.t.User()), Branch: w.Grant.Branch, Addr: w.addr(r),
		Method: r.Method, Route: route, CorrID: w.CorrID,
	}
}

// addr returns the client's address, and the address of the proxy if there is one.
func (w *Response) addr(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if from := w.From.Addr; from.IsValid() && (err != nil || at.Addr().Unmap() != from) {
		return from.String() + " through " + r.RemoteAddr
	}
	return r.RemoteAddr
}
