package discovery

import (
	"net/http"
	"slices"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/status"
)

// Endpoints returns the routes of the public listener.
func (h *Handlers) Endpoints() []exchange.Endpoint {
	const more = "Without fresh, an answer may be remembered for 10 s; Cache-Control says for how long. " +
		"The ETag changes with the providers, not with their age. Searches take at most `resolver.deadline`."
	return []exchange.Endpoint{
		{
			ID: "resolveKey", Name: "resolve", Methods: exchange.Reading, Path: "/resolve/{key}", On: exchange.OnPublic,
			Doc: "Finds the object that a key names and some of its providers, the best first.",
			More: "A key is an address or a name, LABEL.ZONE. Of a name the answer has the records that lead to the " +
				"address, and age and time are the name's; a name that stands for text has a value and no target. " +
				"A record that has ended is an answer where max_stale, or max-stale of Cache-Control, allows it: the " +
				"answer says stale and its Age, and the node looks the name up behind it. " +
				"The search ends soon after the first provider is known. A node that has the object names itself. " +
				more,
			Params: exchange.NameParams(), Headers: append(slices.Clone(headers), "Cache-Control"),
			Fails:   append(slices.Clone(fails), status.Gone, status.Stale, status.Equivocation, status.Unsupported),
			Answers: answers[api.Resolved]("the object and its providers", "Age"), Serve: h.resolve,
		},
		{
			ID: "providers", Name: "providers", Methods: exchange.Reading,
			Path: "/providers/{b3}", On: exchange.OnPublic,
			Doc:    "Finds the providers of an object, the best first.",
			More:   "The search goes on until it knows as many as the limit or has asked everyone. " + more,
			Params: exchange.QueryParams(), Headers: headers, Fails: fails,
			Answers: answers[api.Providers]("the providers"), Serve: h.providers,
		},
	}
}

var (
	headers = []string{"If-Match", "If-None-Match", "Request-Timeout"}
	fails   = []status.Outcome{
		status.BadAddress, status.NotFound, status.Precondition, status.Denied, status.NotReady, status.TransportDown,
		status.NoBootstrap, status.Timeout, status.HopExceeded,
	}
)

// answers returns the answers of an endpoint. headers are those of its result, beside the usual ones.
func answers[T any](doc string, headers ...string) []exchange.Reply {
	of := exchange.JSONReplies[T](doc)
	of[0].Headers = slices.Concat(of[0].Headers, []string{"ETag"}, headers)
	return append(of, exchange.Reply{
		Code: http.StatusNotModified, Headers: []string{"ETag", "Cache-Control"}, Doc: "the client's copy is current",
	}, exchange.Reply{
		Code: http.StatusPermanentRedirect, Headers: []string{"Location", "Cache-Control"},
		Doc: "the address in its one form, b3: and 64 lowercase digits",
	})
}
