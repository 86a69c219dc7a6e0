package upload

import (
	"net/http"

	"allium/gateway/exchange"
	"allium/protocols/b3"
)

// Handlers take what clients send.
type Handlers struct {
	uploads  Store // nil: the node takes none
	denylist exchange.Denylist
	bodies   *exchange.Bodies
}

// New returns handlers that store what they take in s; nil takes nothing.
func New(s Store, denied exchange.Denylist, b *exchange.Bodies) *Handlers {
	return &Handlers{uploads: s, denylist: denied, bodies: b}
}

// expected returns the object that a request says it is about to send, zero where
// that is not said.
func expected(r *http.Request) b3.Root {
	object, err := expectHeader(r.Header)
	if err != nil {
		return b3.Root{}
	}
	return object
}
