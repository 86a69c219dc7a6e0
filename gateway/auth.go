package gateway

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"

	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// Capabilities decides who may change something.
type Capabilities interface {
	// Verify returns what a token leaves its bearer, unauthenticated where it is
	// none of this node's, and forbidden where it does not allow what is asked.
	// It neither waits nor keeps the token.
	Verify(ctx context.Context, token string, ask capability.Ask) (capability.Grant, error)
}

// authorize checks the capability of a request that changes something. It runs
// before anything is queued or read of the body.
func (s *side) authorize(rt route, r *http.Request) (capability.Grant, error) {
	if rt.op == "" || s.trusted {
		return capability.Grant{MaxBytes: -1}, nil
	}
	token, err := bearer(r)
	if err != nil {
		return capability.Grant{}, err
	}
	if s.g.deps.Capabilities == nil {
		return capability.Grant{}, status.Errorf(status.Forbidden, "this node has no keys to check capabilities with; make one with `allium token mint`")
	}
	var grant capability.Grant
	err = s.g.guarded(func() (err error) {
		grant, err = s.g.deps.Capabilities.Verify(r.Context(), token, rt.ask(r))
		return err
	})
	if err == nil && rt.op == capability.Fetch && grant.MaxBytes >= 0 {
		err = status.Errorf(status.Forbidden, "the capability stores up to %d bytes in one request, and how many are fetched shows at the end; ask for one without that bound", grant.MaxBytes)
	}
	return grant, err
}

// allows asks whether the request's capability allows one more thing. A client
// that needs none may do it.
func (g *Gateway) allows(w *response, r *http.Request, ask capability.Ask) error {
	if w.grant.ID == "" && w.grant.Expires.IsZero() {
		return nil
	}
	token, err := bearer(r)
	if err != nil {
		return err
	}
	ask.Method, ask.Again = r.Method, true
	_, err = g.deps.Capabilities.Verify(r.Context(), token, ask)
	return err
}

// label is that of a pin that a request makes or removes: what it asks for, or
// else what its capability is bound to.
func (w *response) label(asked string) string { return cmp.Or(asked, w.grant.Label) }

// acting is where the object is that a request acts on.
type acting uint8

const (
	onNamed    acting = iota // in the path, or the parameter that is a key
	onTree                   // the same, and what that leads to; where there is a parameter "recursive", if that is true
	onExpected               // in Upload-Expect
	onUpload                 // the upload in the path knows it: Gateway.upload asks about it
)

// ask is what a request wants, as far as its header says. The object is zero
// where it names none or several, or what is at a path below one: a capability
// for some objects does not allow that. What is wrong with a parameter or header
// the handler says.
func (rt route) ask(r *http.Request) capability.Ask {
	ask := capability.Ask{Op: rt.op, Object: rt.object, Method: r.Method, Bytes: bodyBytes(r)}
	if rt.of == nil {
		return ask
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if rt.of.has(labelParam) {
		ask.Label = q.Get(labelParam.name)
	}
	switch rt.of.acts {
	case onExpected:
		if object, err := expectHeader(r.Header); err == nil {
			ask.Object = object
		}
	case onUpload:
		ask.Later = true
	case onNamed, onTree:
		if err == nil && rt.of.has(keyParam) && len(q[keyParam.name]) == 1 {
			if object, err := b3.Parse(q.Get(keyParam.name)); err == nil {
				ask.Object = object
			}
		}
		ask.Below = rt.of.acts == onTree && (!rt.of.has(recursiveParam) || q.Get(recursiveParam.name) == "true")
	}
	return ask
}

// bodyBytes is how much a request stores, as far as its header says: a body
// that is encoded has another length than what it decodes to.
func bodyBytes(r *http.Request) int64 {
	if len(r.Header.Values("Content-Encoding")) > 0 {
		return -1
	}
	return r.ContentLength
}

// bearer is the token of a request: in Authorization and nowhere else, so that
// it is in no log, history or Referer.
func bearer(r *http.Request) (string, error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", status.Errorf(status.Unauthenticated, "this needs a capability; send \"Authorization: Bearer TOKEN\" (`allium token mint` makes one)")
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(values[0]), " ")
	token = strings.TrimSpace(token)
	if len(values) > 1 || token == "" || !strings.EqualFold(scheme, "Bearer") && !strings.EqualFold(scheme, "Macaroon") {
		return "", status.Errorf(status.Unauthenticated, "Authorization must be once \"Bearer TOKEN\" or \"Macaroon TOKEN\"")
	}
	return token, nil
}
