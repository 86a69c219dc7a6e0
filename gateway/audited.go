package gateway

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"strconv"

	"allium/gateway/audit"
	"allium/protocols/status"
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

// record writes down a mutation before it begins. A request that changes
// nothing costs nothing.
func (s *side) record(rt route, w *response, r *http.Request) error {
	if rt.op == "" || rt.of != nil && rt.of.records || s.g.deps.Audit == nil || r.Method == http.MethodHead {
		return nil
	}
	e := eventOf(rt.name, w, r)
	q := r.URL.Query()
	e.Op, e.Bytes = string(rt.op), max(0, r.ContentLength)
	if rt.of != nil && rt.of.has(labelParam) {
		e.Label = w.label(q.Get(labelParam.name))
	}
	e.Name = cmp.Or(q.Get("addr"), q.Get("peer"))
	e.Object = q.Get("key")
	if !rt.object.IsZero() {
		e.Object = rt.object.String()
	}
	return s.g.record(w, r, e)
}

// record writes down a mutation; with an error it must not be done.
func (g *Gateway) record(w *response, r *http.Request, e audit.Event) (err error) {
	if g.deps.Audit == nil {
		return nil
	}
	w.recorded, err = g.deps.Audit.Mutation(r.Context(), e)
	return err
}

// conclude writes down how a mutation ended, or that a request was refused.
func (s *side) conclude(rt route, w *response, r *http.Request, err error) {
	if s.g.deps.Audit == nil {
		return
	}
	if err == nil {
		err = w.told
	}
	o := status.Of(err)
	switch {
	case w.recorded != 0:
		e := eventOf(rt.name, w, r)
		e.Of, e.Outcome = w.recorded, o.String()
		if w.body != nil {
			e.Bytes = w.body.n
		}
		if !w.root.IsZero() {
			e.Object = w.root.String()
		}
		s.g.deps.Audit.Outcome(r.Context(), e)
	case refusal(o):
		e := eventOf(rt.name, w, r)
		e.Op, e.Outcome, e.Detail = string(rt.op), o.String(), r.URL.EscapedPath()
		s.g.deps.Audit.Refused(e)
	}
}

// refusal reports whether an outcome says that somebody may not do something.
func refusal(o status.Outcome) bool {
	switch o {
	case status.Unauthenticated, status.Forbidden, status.NotAllowed, status.Denied:
		return true
	default:
		return false
	}
}

// eventOf is what every record of a request holds.
func eventOf(route string, w *response, r *http.Request) audit.Event {
	return audit.Event{
		Actor: cmp.Or(w.grant.ID, userOf(r)), Branch: w.grant.Branch, Addr: addrOf(w, r),
		Method: r.Method, Route: route, CorrID: w.corr,
	}
}

// userOf is who is on the other end of a Unix socket, "uid:" and a number;
// nothing elsewhere.
func userOf(r *http.Request) string {
	c := connOf(r)
	if c == nil {
		return ""
	}
	u, ok := c.Conn.(*net.UnixConn)
	if !ok {
		return ""
	}
	uid, err := peerUID(u)
	if err != nil {
		return "" // the system does not say
	}
	return "uid:" + strconv.Itoa(uid)
}

// addrOf is the client's address, and that of the proxy it came through.
func addrOf(w *response, r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if from := w.from.addr; from.IsValid() && (err != nil || at.Addr().Unmap() != from) {
		return from.String() + " through " + r.RemoteAddr
	}
	return r.RemoteAddr
}

// refusedUser writes down that somebody else's process was at the socket.
func (g *Gateway) refusedUser(err error) {
	if g.deps.Audit != nil {
		g.deps.Audit.Refused(audit.Event{Route: "socket", Outcome: status.Of(err).String(), Detail: err.Error()})
	}
}
