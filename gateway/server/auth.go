package server

import (
	"net/http"
	"net/url"

	"allium/gateway/exchange"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// authorize verifies the capability of a request that changes something, and returns its
// grant. It runs before the body is read. If the body is a form that may bring the
// capability, it grants nothing and leaves the check to the handler.
func (l *listener) authorize(rt route, w *exchange.Response, r *http.Request) (capability.Grant, error) {
	if rt.op == "" || l.trustsClients {
		return capability.Grant{MaxBytes: -1}, nil
	}
	if rt.endpoint != nil && rt.endpoint.TokenInForm &&
		len(r.Header.Values("Authorization")) == 0 && exchange.IsForm(r) {
		w.NeedsToken = true
		return capability.Grant{}, nil
	}
	token, err := exchange.Bearer(r)
	if err != nil {
		return capability.Grant{}, err
	}
	if l.server.deps.Capabilities == nil {
		return capability.Grant{}, exchange.ErrNoKeys()
	}
	var grant capability.Grant
	err = l.server.deps.Guard.Run(func() (err error) {
		grant, err = l.server.deps.Capabilities.Verify(r.Context(), token, rt.ask(r))
		return err
	})
	if err == nil && rt.op == capability.Fetch && grant.MaxBytes >= 0 {
		err = status.Errorf(status.Forbidden,
			"cannot fetch: the capability allows up to %d bytes in a request, and the "+
				"size of a fetch is known only at its end. Use a capability without that bound", grant.MaxBytes)
	}
	return grant, err
}

// ask returns what a request wants to do, as far as its header tells. The object is zero if the
// request names no object, several, or a path below one. A capability that is limited to
// objects allows none of these. Malformed parameters are left to the handler.
func (rt route) ask(r *http.Request) capability.Request {
	ask := capability.Request{Op: rt.op, Object: rt.object, Method: r.Method, Bytes: exchange.BodyBytes(r)}
	if rt.endpoint == nil {
		return ask
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if rt.endpoint.Has(exchange.LabelParam) {
		ask.Label = q.Get(exchange.LabelParam)
	}
	if rt.endpoint.Object != nil {
		ask.Object = rt.endpoint.Object(r)
		return ask
	}
	if rt.endpoint.Target == exchange.TargetByHandler {
		ask.ObjectLater, ask.NameLater = true, rt.op == capability.Publish
		return ask
	}
	if err == nil && rt.endpoint.Has(exchange.KeyParam) && len(q[exchange.KeyParam]) == 1 {
		ask.Object = exchange.KeyObject(q.Get(exchange.KeyParam))
	}
	recursive := !rt.endpoint.Has(exchange.RecursiveParam) || q.Get(exchange.RecursiveParam) == "true"
	ask.Recursive = rt.endpoint.Target == exchange.TargetTree && recursive
	return ask
}
