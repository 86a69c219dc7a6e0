package server

import (
	"net/http"
	"net/url"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// authorize checks the capability of a request that changes something. It runs
// before anything is queued or read of the body.
func (l *listener) authorize(rt route, r *http.Request) (capability.Grant, error) {
	if rt.op == "" || l.trusted {
		return capability.Grant{MaxBytes: -1}, nil
	}
	token, err := exchange.Bearer(r)
	if err != nil {
		return capability.Grant{}, err
	}
	if l.server.deps.Capabilities == nil {
		return capability.Grant{}, status.Errorf(status.Forbidden, "this node has no keys to check capabilities with; make one with `allium token mint`")
	}
	var grant capability.Grant
	err = l.server.deps.Guard.Run(func() (err error) {
		grant, err = l.server.deps.Capabilities.Verify(r.Context(), token, rt.ask(r))
		return err
	})
	if err == nil && rt.op == capability.Fetch && grant.MaxBytes >= 0 {
		err = status.Errorf(status.Forbidden, "the capability stores up to %d bytes in one request, and how many are fetched shows at the end; ask for one without that bound", grant.MaxBytes)
	}
	return grant, err
}

// ask is what a request wants, as far as its header says. The object is zero
// where it names none or several, or what is at a path below one: a capability
// for some objects does not allow that. What is wrong with a parameter or header
// the handler says.
func (rt route) ask(r *http.Request) capability.Ask {
	ask := capability.Ask{Op: rt.op, Object: rt.object, Method: r.Method, Bytes: exchange.BodyBytes(r)}
	if rt.endpoint == nil {
		return ask
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if rt.endpoint.Has(exchange.LabelParam) {
		ask.Label = q.Get(exchange.LabelParam.Name)
	}
	if rt.endpoint.Object != nil {
		ask.Object = rt.endpoint.Object(r)
		return ask
	}
	if rt.endpoint.Acts == exchange.ActsLater {
		ask.Later = true
		return ask
	}
	if err == nil && rt.endpoint.Has(exchange.KeyParam) && len(q[exchange.KeyParam.Name]) == 1 {
		if object, err := b3.Parse(q.Get(exchange.KeyParam.Name)); err == nil {
			ask.Object = object
		}
	}
	ask.Below = rt.endpoint.Acts == exchange.ActsOnTree && (!rt.endpoint.Has(exchange.RecursiveParam) || q.Get(exchange.RecursiveParam.Name) == "true")
	return ask
}
