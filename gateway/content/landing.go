package content

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"allium/gateway/api"
	"allium/gateway/console"
	"allium/gateway/content/pages"
	"allium/gateway/exchange"
	"allium/protocols/address"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/protocols/ticket"
)

// landing serves the first page of a listener.
type landing struct {
	ready   func() api.Readiness
	example b3.Root // a directory that the page offers; zero: none
	version string
}

func (l *landing) endpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "landing", Name: "landing", Methods: exchange.Reading, Path: "/",
		On: exchange.OnEvery, AnyQuery: true, ErrorPages: true,
		Doc:  "Shows the first page: what the gateway is, whether the node is ready, and a field for an address.",
		More: "The first page of the admin listener is its console.",
		Answers: []exchange.Reply{
			{
				Code: http.StatusOK, Payload: exchange.Payload{Media: exchange.MediaHTML},
				Headers: []string{"Cache-Control", "Content-Security-Policy"}, Doc: "the page",
			},
			{
				Code: http.StatusSeeOther, Headers: []string{"Location", "Cache-Control"},
				Doc: "the console, on the admin listener",
			},
		},
		Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
			if in.On == exchange.OnAdmin {
				return console.Redirect(w, r)
			}
			return l.serve(w, r)
		},
	}
}

// serve serves the first page: what the gateway is, whether the node is ready, and a field
// for an address.
func (l *landing) serve(w *exchange.Response, r *http.Request) error {
	page := l.ready()
	var waiting []api.Gate
	for _, gate := range page.Gates {
		if !gate.Ready {
			waiting = append(waiting, gate)
		}
	}
	var out bytes.Buffer
	example := ""
	if !l.example.IsZero() {
		example = target{root: l.example}.url(true)
	}
	err := pages.Execute(&out, "landing", struct {
		exchange.Frame
		Ready   bool
		Waiting []api.Gate
		Version string
		Example string
	}{w.Frame(), page.Ready, waiting, l.version, example})
	if err != nil {
		return fmt.Errorf("render the first page: %w", err)
	}
	h := w.Header()
	h.Set("Content-Security-Policy", exchange.PagePolicy)
	h.Set("Cache-Control", "no-store")
	return w.Send(r, http.StatusOK, "text/html; charset=utf-8", out.Bytes())
}

func openEndpoint(id, path string) exchange.Endpoint {
	return exchange.Endpoint{
		ID: id, Name: "open", Methods: exchange.Reading, Path: path, On: exchange.OnPublic,
		AnyQuery: true, ErrorPages: true,
		Doc: "Redirects to the page of an address, a name or a ticket. The form of the first page leads here.",
		Params: []exchange.Param{{
			Name: "key", Kind: exchange.TextParam,
			Doc: "b3:… or LABEL.ZONE, with or without a path below it, or a ticket",
		}},
		Answers: []exchange.Reply{{
			Code: http.StatusSeeOther, Headers: []string{"Location", "Cache-Control"}, Doc: "the page of that key",
		}},
		Fails: []status.Outcome{status.BadAddress},
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error { return openKey(w, r) },
	}
}

// openKey serves /b3?key=…, the form of the first page. It redirects to the page of an address, which may be
// written in any way that address.Canonical understands, of a name, or of what a ticket names.
func openKey(w *exchange.Response, r *http.Request) error {
	key, err := address.Canonical(strings.TrimSpace(r.URL.Query().Get("key")))
	if err != nil {
		return err
	}
	first, rest, _ := strings.Cut(key, "/")
	var names []string
	for part := range strings.SplitSeq(strings.Trim(rest, "/"), "/") {
		if part != "" {
			names = append(names, part)
		}
	}
	to, called, err := keyPage(first, names, strings.HasSuffix(rest, "/"))
	if err != nil {
		return err
	}
	if _, _, err := parsePath(strings.TrimPrefix(to, "/")); err != nil {
		return err // browsers resolve ".." themselves and would go elsewhere
	}
	r.URL.RawQuery = ""
	return seeOther(w, r, to, called)
}

// seeOther redirects to another page of this gateway, for now. The query says what the page is called, unless that is
// "".
func seeOther(w *exchange.Response, r *http.Request, to, called string) error {
	if called != "" {
		values := r.URL.Query()
		values.Set("name", called)
		r.URL.RawQuery = values.Encode()
	}
	w.Caching = "no-store"
	return w.Redirect(r, http.StatusSeeOther, to)
}

// keyPage returns the path of the page of a root, a name or a ticket, and of what is below it. A file that a
// ticket names keeps its name, and a directory is called by it. Nothing else in a ticket counts here: a visitor does
// not make the gateway dial. The error is bad_address.
func keyPage(key string, names []string, slash bool) (path, called string, err error) {
	if ticket.Is(key) {
		t, err := ticket.Parse(key)
		switch {
		case err != nil:
			return "", "", err
		case len(names) == 0 && !t.Directory && t.Name != "":
			return "/o/" + t.Root.String() + "/" + url.PathEscape(t.Name), "", nil
		case len(names) == 0 && manifest.NameProblem(t.Name) == "":
			called = t.Name
		}
		return target{root: t.Root, names: names}.url(slash || len(names) == 0 && t.Directory), called, nil
	}
	lower := strings.ToLower(key)
	if isName(lower) {
		return target{name: lower, names: names}.url(slash), "", nil
	}
	root, err := b3.Parse(lower)
	if err != nil && !strings.HasPrefix(lower, "b3:") {
		err = status.Errorf(status.BadAddress,
			"%q is no address of this gateway: an address is b3: and 64 hex digits, "+
				"a name is LABEL.ZONE, and a ticket begins with allium1", exchange.Clip(key))
	}
	return target{root: root, names: names}.url(slash), "", err
}

// isName reports whether a key is meant as LABEL.ZONE: parts of letters, digits and hyphens. Whether it is a
// name, the page of it says.
func isName(key string) bool {
	parts := strings.Split(key, ".")
	return len(parts) > 1 && !slices.Contains(parts, "") && !strings.ContainsFunc(key, func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.M, unicode.Nd) && r != '-' && r != '.'
	})
}
