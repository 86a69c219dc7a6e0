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
	return s.g.deps.Capabilities.Verify(r.Context(), token, capability.Ask{Op: rt.op, Object: rt.acts(r), Method: r.Method, Bytes: bodyBytes(r)})
}

// acts is the object that a request acts on, by its path or its key. It is zero
// where it names none or several, or what is at a path below one: a capability
// for some objects does not allow that.
func (rt route) acts(r *http.Request) b3.Root {
	if !rt.object.IsZero() || rt.of == nil || !slices.ContainsFunc(rt.of.params, func(p param) bool { return p.name == keyParam.name }) {
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
	if r.Header.Get("Content-Encoding") != "" {
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
