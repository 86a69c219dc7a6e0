package server

import (
	"cmp"
	"net/http"
	"strconv"

	"allium/gateway/exchange"
	"allium/gateway/server/conns"
	"allium/gateway/server/sockets"
	"allium/protocols/status"
)

// recordMutation records a mutation before it begins. It does nothing for a request that
// changes nothing, or that its handler records itself.
func (l *listener) recordMutation(rt route, w *delivery, r *http.Request) error {
	if rt.op == "" || l.server.deps.Audit == nil || r.Method == http.MethodHead {
		return nil
	}
	if rt.endpoint != nil && rt.endpoint.RecordsItself {
		return nil
	}
	q := r.URL.Query()
	if rt.endpoint != nil && rt.endpoint.ReadOnly != nil && rt.endpoint.ReadOnly(exchange.Params(q)) {
		return nil
	}
	e := w.Event(rt.name, r)
	e.Op, e.Bytes = string(rt.op), max(0, r.ContentLength)
	if rt.endpoint != nil && rt.endpoint.Has(exchange.LabelParam) {
		e.Label = w.Label(q.Get(exchange.LabelParam))
	}
	e.Name = cmp.Or(q.Get("addr"), q.Get("peer"))
	e.Object = q.Get("key")
	if !rt.object.IsZero() {
		e.Object = rt.object.String()
	}
	e.Frees = exchange.FreesSpace(rt.op, r)
	return w.Response.Record(r, e)
}

// recordOutcome records how a mutation ended, or that a request was refused.
func (l *listener) recordOutcome(rt route, w *delivery, r *http.Request, err error) {
	if l.server.deps.Audit == nil {
		return
	}
	if err == nil {
		err = w.Reported
	}
	o := status.Of(err)
	switch {
	case w.Recorded != 0:
		e := w.Event(rt.name, r)
		e.Of, e.Outcome, e.Frees = w.Recorded, o.String(), exchange.FreesSpace(rt.op, r)
		if w.ReadsBody() {
			e.Bytes = w.Received()
		}
		if !w.Root.IsZero() {
			e.Object = w.Root.String()
		}
		l.server.deps.Audit.Outcome(r.Context(), e)
	case refusal(o):
		e := w.Event(rt.name, r)
		e.Op, e.Outcome, e.Detail = string(rt.op), o.String(), r.URL.EscapedPath()
		l.server.deps.Audit.Refused(e)
	}
}

// refusal reports whether an outcome means that the client lacks permission.
func refusal(o status.Outcome) bool {
	switch o {
	case status.Unauthenticated, status.Forbidden, status.NotAllowed, status.Denied:
		return true
	default:
		return false
	}
}

// userOf returns the user at the other end of a Unix socket as "uid:" and a number, or "" on
// other connections.
func userOf(r *http.Request) string {
	c := conns.Of(r)
	if c == nil {
		return ""
	}
	uid, err := sockets.PeerUID(c.Conn)
	if err != nil {
		return "" // another connection, or the system does not report it
	}
	return "uid:" + strconv.Itoa(uid)
}
