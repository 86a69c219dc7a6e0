package upload

import (
	"net/http"

	"allium/gateway/exchange"
	"allium/gateway/policy"
	"allium/protocols/b3"
)

// Handlers serve uploads. Their methods may be called from any goroutine.
type Handlers struct {
	uploads  Store // nil: the node accepts no uploads
	denylist policy.Filter
	bodies   *exchange.Bodies
}

// New returns handlers that store uploads in s. A nil s refuses every upload.
func New(s Store, denied policy.Filter, b *exchange.Bodies) *Handlers {
	return &Handlers{uploads: s, denylist: denied, bodies: b}
}

// expected returns the address in a request's Upload-Expect, or zero.
func expected(r *http.Request) b3.Root {
	object, err := expectHeader(r.Header)
	if err != nil {
		return b3.Root{}
	}
	return object
}
