package exchange

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"

	"allium/gateway/audit"
	"allium/protocols/capability"
)

// Audit records what is changed and what is refused; see [audit.Log].
type Audit interface {
	// Mutation returns when the record is durable. With an error the mutation is
	// refused.
	Mutation(ctx context.Context, e audit.Event) (seq uint64, err error)
	// Outcome records how the mutation with the number e.Of ended.
	Outcome(ctx context.Context, e audit.Event)
	// Refused records a refusal, if it may, and never waits.
	Refused(e audit.Event)
}

// FreesSpace reports whether a request gives space back, or ends the node: it is
// recorded on a full disk too.
func FreesSpace(op capability.Op, r *http.Request) bool {
	return op == capability.Unpin || op == capability.GC || op == capability.Drain || r.Method == http.MethodDelete
}

// Record writes down a mutation; with an error it must not be done.
func (w *Response) Record(r *http.Request, e audit.Event) (err error) {
	if w.Audit == nil {
		return nil
	}
	w.Recorded, err = w.Audit.Mutation(r.Context(), e)
	return err
}

// Event is what every record of a request holds.
func (w *Response) Event(route string, r *http.Request) audit.Event {
	return audit.Event{
		Actor: cmp.Or(w.Grant.ID, w.t.User()), Branch: w.Grant.Branch, Addr: w.addr(r),
		Method: r.Method, Route: route, CorrID: w.CorrID,
	}
}

// addr is the client's address, and that of the proxy it came through.
func (w *Response) addr(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if from := w.From.Addr; from.IsValid() && (err != nil || at.Addr().Unmap() != from) {
		return from.String() + " through " + r.RemoteAddr
	}
	return r.RemoteAddr
}
