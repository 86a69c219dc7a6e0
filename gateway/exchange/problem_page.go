package exchange

import (
	"bytes"
	"net/http"
	"strings"

	"allium/gateway/api"
	"allium/internal/lazyregexp"
	"allium/protocols/status"
)

// Pages says whether errors are pages, and of what host.
type Pages uint8

// The kinds of pages that errors are.
const (
	NoPages   Pages = iota
	OwnPages        // of a host of the gateway
	SitePages       // of the host of a website, where nothing of the gateway is found
)

// WantsPage reports whether the client prefers a page to JSON: its Accept names text/html and
// prefers no JSON.
func WantsPage(r *http.Request) bool {
	page, problem := 0.0, 0.0
	for t, q := range Accepted(r.Header.Values("Accept")) {
		switch t {
		case "text/html":
			page = max(page, q)
		case MediaProblem, MediaJSON:
			problem = max(problem, q)
		}
	}
	return page > 0 && page >= problem
}

// problemPage renders a problem as a page, in words for a visitor, with links to the directory above and to the same
// page again where that may help.
func problemPage(f Frame, r *http.Request, p api.Problem) ([]byte, error) {
	var out bytes.Buffer
	words, again := forVisitor(p)
	err := PageTemplates().ExecuteTemplate(&out, "problem", struct {
		Frame
		api.Problem
		Words          string
		Again          bool
		Above, Request string
	}{
		f, p, words, again && (r.Method == http.MethodGet || r.Method == http.MethodHead),
		above(r.URL.EscapedPath()), strings.TrimPrefix(p.Instance, "urn:allium:request:"),
	})
	return out.Bytes(), err
}

// visitorWords has sentences for visitors about outcomes whose details are for the operator, who finds them in the log.
var visitorWords = map[status.Outcome]string{
	status.Timeout: "This did not arrive in time. Those who have it may be busy or offline. Try again in a while.",
	status.Upstream: "Those who have this content did not send it as they should. " +
		"Try again in a while.",
	status.BreakerOpen: "Those who have this content failed several times in a row. Try again in a minute.",
	status.Corrupt: "What arrived is not what the address promises, so nothing of it is shown. " +
		"Try again: somebody else may have it whole.",
	status.NotReady:      "This gateway is not ready yet. Try again in a minute.",
	status.Amnesia:       "This gateway is not ready yet. Try again in a minute.",
	status.Draining:      "This gateway is about to stop. Try again in a minute.",
	status.TransportDown: "This gateway has no connection to the network at the moment. Try again in a while.",
	status.NoBootstrap:   "This gateway has no connection to the network at the moment. Try again in a while.",
	status.Busy:          "This gateway has too much to do at the moment. Try again in some seconds.",
	status.RateLimit:     "Too many requests came from your network in a short time. Try again in some seconds.",
	status.Quota:         "Your network has used up what this gateway gives it for now. Try again later.",
	status.Internal:      "This gateway failed to answer, which is not your fault. Try again in a while.",
	status.NoSpace:       "This gateway has no space left for what it would have to fetch. Try again later.",
	status.Denied:        "The operator of this gateway does not let it show this content.",
}

// nobody says to a visitor that an object was not found in the network.
const nobody = "Nobody who can be reached at the moment has this content. Check the link, or try again later: " +
	"those who have it may be offline."

// Parts of a detail. quoted matches what comes from a request or from content. toOperator matches commands, keys of the
// configuration, and the words for those whom a visitor does not know.
var (
	quoted     = lazyregexp.New(`"(?:[^"\\]|\\.)*"`)
	toOperator = lazyregexp.New("`" + `|\b(?:gateway|dht|store|listen|admin|node|edge|names|tls)\.[a-z]|` +
		`\b(?:[Pp]roviders?|[Pp]eers?|allium|--[a-z])\b`)
)

// forVisitor returns what a visitor reads about a problem: the sentences of its detail that speak to everybody, or else
// other words. again says that the same page may be there later.
func forVisitor(p api.Problem) (words string, again bool) {
	out, _ := status.Parse(p.Reason)
	words = visitorWords[out]
	detailed := out == status.RateLimit || out == status.Upstream // some of their details are for visitors
	if words != "" && !detailed {
		return words, out.Retry() != status.RetryNever
	}
	var kept []string
	for sentence := range strings.SplitAfterSeq(p.Detail, ". ") {
		if toOperator().MatchString(quoted().ReplaceAllString(sentence, "")) {
			if len(kept) == 0 { // what it goes on with is about that
				break
			}
			continue
		}
		kept = append(kept, sentence)
	}
	switch whole := strings.TrimSpace(strings.Join(kept, "")); {
	case whole != "":
		return whole, false
	case words != "":
		return words, true
	case out == status.NotFound:
		return nobody, true
	}
	return "This link leads to nothing that this gateway can show. Check it, or ask whoever gave it to you.", false
}

// above returns a relative link from a path below an address or a name to the directory above, and "" for other paths.
func above(path string) string {
	steps := strings.Split(strings.TrimSuffix(path, "/"), "/") // "", "b3", the address, and the names below it
	if len(steps) < 4 || steps[1] != "b3" && steps[1] != "n" {
		return ""
	}
	if strings.HasSuffix(path, "/") {
		return "../"
	}
	return "./"
}
