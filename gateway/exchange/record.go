package exchange

import (
	"cmp"
	"net/http"
	"net/netip"

	"allium/gateway/policy/audit"
	"allium/protocols/capability"
)

// FreesSpace reports whether a request frees disk space or stops the node. The audit log
// records such a request on a full disk too.
func FreesSpace(op capability.Op, r *http.Request) bool {
	return op == capability.Unpin || op == capability.GC || op == capability.Drain ||
		r.Method == http.MethodDelete
}

// Record records a mutation before it begins. If it returns an error, the mutation must not
// begin.
func (c *Caller) Record(r *http.Request, e audit.Event) (err error) {
	if c.Audit == nil {
		return nil
	}
	c.Recorded, err = c.Audit.Mutation(r.Context(), e)
	return err
}

// Event returns an audit event with the fields that every request has.
func (c *Caller) Event(route string, r *http.Request) audit.Event {
	return audit.Event{
		Actor: cmp.Or(c.Grant.ID, c.peer.User()), Branch: c.Grant.Branch, Addr: c.addr(r),
		Method: r.Method, Route: route, CorrID: c.CorrID,
	}
}

// addr returns the client's address, and the address of the proxy if there is one.
func (c *Caller) addr(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if from := c.From.Addr; from.IsValid() && (err != nil || at.Addr().Unmap() != from) {
		return from.String() + " through " + r.RemoteAddr
	}
	return r.RemoteAddr
}
