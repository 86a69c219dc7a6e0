package admin

import (
	"net/http"
	"strings"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// asking returns the node, which asks the peers that the request names before others. That makes the
// node dial addresses that the request chose. So it takes the Unix socket, or a capability for connect.
func (g *verbs) asking(w *exchange.Response, r *http.Request, in exchange.Input) (api.Node, error) {
	text := in.Query.Text("ask")
	if text == "" {
		return g.node, nil
	}
	if w.From.Addr.IsValid() {
		if w.Grant.ID == "" && w.Grant.Expires.IsZero() {
			return nil, status.Errorf(status.Unauthenticated,
				"ask makes the node dial, which needs a capability that allows connect; use the Unix socket, or "+
					"`allium get`")
		}
		if err := w.Authorize(r, capability.Request{Op: capability.Connect}); err != nil {
			return nil, err
		}
	}
	return g.node.AskFirst(strings.SplitN(text, ",", api.MaxAsked+1))
}
