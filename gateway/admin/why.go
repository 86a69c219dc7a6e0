package admin

import (
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/status"
)

func (p *pages) whyPageEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "getTrace", Name: "why", Methods: exchange.Reading, Path: "/why/{lookup_id}",
		On: exchange.OnAdmin, Exempt: true, AnyQuery: true,
		Doc:     "Returns the record of a lookup, as the verb why does.",
		Answers: exchange.JSONReplies[api.Why]("the lookup"),
		Fails:   []status.Outcome{status.NotFound, status.BadRequest},
		Serve:   p.whyPage,
	}
}

// whyPage returns the record of the lookup whose ID the path ends with.
func (p *pages) whyPage(w *exchange.Response, r *http.Request, in exchange.Input) error {
	if _, ok := status.ParseLookupID(in.Rest); !ok {
		return api.ErrLookupID(exchange.Clip(in.Rest))
	}
	why, err := p.node.Why(r.Context(), in.Rest)
	if err != nil {
		return err
	}
	return w.SendJSON(r, http.StatusOK, why)
}
