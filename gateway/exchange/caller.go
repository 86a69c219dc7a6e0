package exchange

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/netip"
	"strings"

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

// Origin is where a request comes from: the peer of its connection or, behind a
// trusted proxy, the client that the proxy names.
type Origin struct {
	Addr  netip.Addr   // zero on a Unix socket
	Group netip.Prefix // what limits are counted by
}

// Caller is what the listener knows of the client of a request, and what the client
// may do.
type Caller struct {
	From         Origin
	Patient      bool             // the client may stand still as long as it wants
	Grant        capability.Grant // what the request's capability leaves it
	Capabilities Capabilities     // nil: the node has no keys to check capabilities with
}

// Allows asks whether the request's capability allows one more thing. A client
// that needs none may do it.
func (c *Caller) Allows(r *http.Request, ask capability.Ask) error {
	if c.Grant.ID == "" && c.Grant.Expires.IsZero() {
		return nil
	}
	token, err := Bearer(r)
	if err != nil {
		return err
	}
	ask.Method, ask.Again = r.Method, true
	_, err = c.Capabilities.Verify(r.Context(), token, ask)
	return err
}

// Label is that of a pin that a request makes or removes: what it asks for, or
// else what its capability is bound to.
func (c *Caller) Label(asked string) string { return cmp.Or(asked, c.Grant.Label) }

// Bearer is the token of a request: in Authorization and nowhere else, so that
// it is in no log, history or Referer.
func Bearer(r *http.Request) (string, error) {
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

// BodyBytes is how much a request stores, as far as its header says: a body
// that is encoded has another length than what it decodes to.
func BodyBytes(r *http.Request) int64 {
	if len(r.Header.Values("Content-Encoding")) > 0 {
		return -1
	}
	return r.ContentLength
}

// AllowsLength holds a length against what the request's capability allows.
func (c *Caller) AllowsLength(length int64) error {
	if most := c.Grant.MaxBytes; most >= 0 && length > most {
		return status.Errorf(status.Forbidden, "the capability stores objects of up to %d bytes, and this one has %d", most, length)
	}
	return nil
}

// Within cuts a body at what the request's capability allows.
func (c *Caller) Within(body io.Reader) io.Reader {
	most := c.Grant.MaxBytes
	if most < 0 {
		return body
	}
	return &capped{r: body, left: most, most: most, name: "what this capability stores in one request"}
}
