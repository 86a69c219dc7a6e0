package exchange

import (
	"cmp"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"

	"allium/gateway/policy"
	"allium/internal/limits"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// Origin is the client of a request: the peer of the connection or, behind a trusted proxy,
// the client that the proxy names.
type Origin struct {
	Addr  netip.Addr   // zero on a Unix socket
	Group netip.Prefix // the IPv4 address or IPv6 /64 that limits count by

	Secure bool // the client sent the request over TLS, to this node or to a trusted proxy
}

// Near reports whether the client is on this machine or in its network. A client of the Unix socket is.
func (o Origin) Near() bool { return !o.Addr.IsValid() || limits.Near(o.Addr) }

// BandwidthKey returns the key of the client in a [limits.Bandwidth].
func (o Origin) BandwidthKey() string { return "http " + o.Group.String() }

// Caller is the client of a request, its permissions, and what the audit log has of it.
type Caller struct {
	peer          interface{ User() string }
	From          Origin
	NoReadTimeout bool                // the client may take any time to send its body
	Grant         capability.Grant    // what the request's capability allows
	Capabilities  policy.Capabilities // nil: the node has no keys to verify capabilities with

	// NeedsToken is true until Present has verified the capability that the body brings.
	NeedsToken bool
	token      string // what Present verified; empty: the header Authorization has it

	CorrID   string       // X-Corr-ID
	Audit    policy.Audit // nil: nothing is recorded
	Recorded uint64       // the mutation's number in the audit log, 0 for none
}

// Present verifies the capability that a form brings, for ask. It returns unauthenticated if the request
// has one already.
func (c *Caller) Present(r *http.Request, token string, ask capability.Request) error {
	if !c.NeedsToken {
		return status.Errorf(status.Unauthenticated,
			"the request has two capabilities. Send it once: in the header Authorization, or in the field token")
	}
	if c.Capabilities == nil {
		return ErrNoKeys()
	}
	ask.Method = r.Method
	grant, err := c.Capabilities.Verify(r.Context(), token, ask)
	if err != nil {
		return err
	}
	c.Grant, c.token, c.NeedsToken = grant, token, false
	return nil
}

// ErrNoKeys returns the error of a node that cannot verify capabilities.
func ErrNoKeys() error {
	return status.Errorf(status.Forbidden, "cannot check the capability: this node has no keys. "+
		"Make one with `allium token mint` on the node")
}

// Authorize checks that the request's capability also allows ask. A client that needs no
// capability may do everything.
func (c *Caller) Authorize(r *http.Request, ask capability.Request) error {
	if c.NeedsToken {
		return errNoToken()
	}
	if c.Grant.ID == "" && c.Grant.Expires.IsZero() {
		return nil
	}
	token := c.token
	if token == "" {
		var err error
		if token, err = Bearer(r); err != nil {
			return err
		}
	}
	ask.Method, ask.RateTaken = r.Method, true
	_, err := c.Capabilities.Verify(r.Context(), token, ask)
	return err
}

// Label returns the label of a pin to make or remove: the label that the request asks for, or
// else the label that its capability is bound to.
func (c *Caller) Label(asked string) string { return cmp.Or(asked, c.Grant.Label) }

// Bearer returns the token of a request. It reads the header Authorization alone, because a
// token in the URL would appear in logs, histories and Referer headers.
func Bearer(r *http.Request) (string, error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", errNoToken()
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(values[0]), " ")
	token = strings.TrimSpace(token)
	known := strings.EqualFold(scheme, "Bearer") || strings.EqualFold(scheme, "Macaroon")
	if len(values) > 1 || token == "" || !known {
		return "", status.Errorf(status.Unauthenticated,
			"cannot read the header Authorization. Send it once, as \"Bearer TOKEN\" or \"Macaroon TOKEN\"")
	}
	return token, nil
}

func errNoToken() error {
	return status.Errorf(status.Unauthenticated, "the request needs a capability and has none. "+
		"Send \"Authorization: Bearer TOKEN\"; `allium token mint` makes a token")
}

// BodyBytes returns the length of the decoded body in bytes, or -1 if the header does not
// tell: the length is missing, or the body is encoded.
func BodyBytes(r *http.Request) int64 {
	if len(r.Header.Values("Content-Encoding")) > 0 {
		return -1
	}
	return r.ContentLength
}

// CheckLength returns forbidden if the request's capability allows fewer bytes than length.
func (c *Caller) CheckLength(length int64) error {
	if most := c.Grant.MaxBytes; most >= 0 && length > most {
		return status.Errorf(status.Forbidden,
			"cannot store %d bytes: the capability allows objects of up to %d bytes. "+
				"Use a capability with a higher bound", length, most)
	}
	return nil
}

// LimitBody limits body to the bytes that the request's capability allows. A read beyond them
// returns body_cap.
func (c *Caller) LimitBody(body io.Reader) io.Reader {
	most := c.Grant.MaxBytes
	if most < 0 {
		return body
	}
	return &cappedReader{r: body, left: most, max: most, name: "the body", why: "the capability allows"}
}

// LimitFiles returns a function that counts bytes of files in an archive, which may be more
// than the bytes of its body. It returns body_cap above what the request's capability allows.
// It is safe for concurrent use, and nil if the capability allows any number.
func (c *Caller) LimitFiles() func(n int64) error {
	most := c.Grant.MaxBytes
	if most < 0 {
		return nil
	}
	var sum atomic.Int64
	return func(n int64) error {
		if n > most || sum.Add(n) > most {
			return status.Errorf(status.BodyCap,
				"cannot store the archive: its files have more than %s, which is what the "+
					"capability allows. Use a capability with a higher bound", limits.Bytes(most).Human())
		}
		return nil
	}
}
