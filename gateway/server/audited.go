package server

import (
	"cmp"
	"net"
	"net/http"
	"strconv"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// record writes down a mutation before it begins. A request that changes
// nothing costs nothing.
func (l *listener) record(rt route, w *delivery, r *http.Request) error {
	if rt.op == "" || rt.endpoint != nil && rt.endpoint.Records || l.server.deps.Audit == nil || r.Method == http.MethodHead {
		return nil
	}
	q := r.URL.Query()
	if rt.endpoint != nil && rt.endpoint.Looks != nil && rt.endpoint.Looks(exchange.Params(q)) {
		return nil
	}
	e := w.Event(rt.name, r)
	e.Op, e.Bytes = string(rt.op), max(0, r.ContentLength)
	if rt.endpoint != nil && rt.endpoint.Has(exchange.LabelParam) {
		e.Label = w.Label(q.Get(exchange.LabelParam.Name))
	}
	e.Name = cmp.Or(q.Get("addr"), q.Get("peer"))
	e.Object = q.Get("key")
	if !rt.object.IsZero() {
		e.Object = rt.object.String()
	}
	e.Frees = exchange.FreesSpace(rt.op, r)
	return w.Response.Record(r, e)
}

// conclude writes down how a mutation ended, or that a request was refused.
func (l *listener) conclude(rt route, w *delivery, r *http.Request, err error) {
	if l.server.deps.Audit == nil {
		return
	}
	if err == nil {
		err = w.Told
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

// refusal reports whether an outcome says that somebody may not do something.
func refusal(o status.Outcome) bool {
	switch o {
	case status.Unauthenticated, status.Forbidden, status.NotAllowed, status.Denied:
		return true
	default:
		return false
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
