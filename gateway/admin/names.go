package admin

import (
	"net/http"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/capability"
)

// authorizeName returns the name that text stands for, with the key of its zone, if the capability
// of the request allows op on it, and on the object that is its new value. A value that is no whole
// address is no object.
func (g *verbs) authorizeName(
	w *exchange.Response, r *http.Request, op capability.Op, text, value string,
) (string, error) {
	full, err := g.node.ExpandName(r.Context(), text)
	if err != nil {
		return "", exchange.CauseOf(r.Context(), err)
	}
	ask := capability.Request{Op: op, Name: full, Recursive: true}
	if root, err := b3.Parse(value); err == nil {
		ask.Object = root
	}
	return full, w.Authorize(r, ask)
}
