package gateway

import (
	"context"
	"net/http"
	"net/url"
	"slices"
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
	object, later := rt.acts(r)
	var grant capability.Grant
	err = s.g.guarded(func() (err error) {
		grant, err = s.g.deps.Capabilities.Verify(r.Context(), token, capability.Ask{Op: rt.op, Object: object, Later: later, Method: r.Method, Bytes: bodyBytes(r)})
		return err
	})
	if err == nil && rt.op == capability.Fetch && grant.MaxBytes >= 0 {
		err = status.Errorf(status.Forbidden, "the capability stores up to %d bytes in one request, and how many are fetched shows at the end; ask for one without that bound", grant.MaxBytes)
	}
	return grant, err
}

// allows asks whether the request's capability allows one more thing. A client
// that needs none may do it.
func (g *Gateway) allows(w *response, r *http.Request, op capability.Op, object b3.Root, length int64) error {
	if w.grant.ID == "" && w.grant.Expires.IsZero() {
		return nil
	}
	token, err := bearer(r)
	if err != nil {
		return err
	}
	_, err = g.deps.Capabilities.Verify(r.Context(), token, capability.Ask{Op: op, Object: object, Method: r.Method, Bytes: length, Again: true})
	return err
}

// acting is where the object is that a request acts on.
type acting uint8

const (
	onNamed    acting = iota // in the path, or the parameter that is a key
	onExpected               // in Upload-Expect
	onUpload                 // the upload in the path knows it: Gateway.upload asks about it
)

// acts is the object that a request acts on. It is zero where the request names
// none or several, or what is at a path below one: a capability for some objects
// does not allow that. later is that the handler finds it, and asks about it.
func (rt route) acts(r *http.Request) (object b3.Root, later bool) {
	if rt.of == nil {
		return rt.object, false
	}
	switch rt.of.acts {
	case onExpected:
		object, err := expectHeader(r.Header)
		if err != nil {
			return b3.Root{}, false // the handler says what is wrong with it
		}
		return object, false
	case onUpload:
		return b3.Root{}, true
	default:
		return rt.named(r), false
	}
}

// named is the object in a request's path or its key.
func (rt route) named(r *http.Request) b3.Root {
	if !rt.object.IsZero() || !slices.ContainsFunc(rt.of.params, func(p param) bool { return p.name == keyParam.name }) {
		return rt.object
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(q[keyParam.name]) != 1 {
		return b3.Root{}
	}
	root, err := b3.Parse(q.Get(keyParam.name))
	if err != nil {
		return b3.Root{} // the handler says what is wrong with it
	}
	return root
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
