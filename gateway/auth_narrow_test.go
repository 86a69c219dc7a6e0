package gateway

import (
	"bytes"
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"allium/gateway/exchange"
	"allium/gateway/policy/audit"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// minted takes what its ring minted, as a node does.
type minted struct {
	ring     capability.Ring
	verifier *capability.Verifier
}

func newMinted(t testing.TB) *minted {
	t.Helper()
	ring, err := capability.Ring{}.Rotate(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m := &minted{ring, capability.NewVerifier("self", nil, nil)}
	m.verifier.Set(ring, capability.Revocations{})
	return m
}

func (m *minted) Verify(_ context.Context, token string, ask capability.Request) (capability.Grant, error) {
	return m.verifier.Verify(token, ask)
}

// mint returns the header of a capability for an hour.
func (m *minted) mint(t testing.TB, caveats ...string) []string {
	t.Helper()
	var all []capability.Caveat
	for _, s := range append(caveats, "exp < "+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)) {
		c, err := capability.ParseCaveat(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	token, err := m.ring.Mint(time.Now(), all...)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"Authorization", "Bearer " + token}
}

// TestLabelIsBound: whatever makes or removes a pin does so under the label that
// the capability is bound to, or not at all; the audit log says under which.
func TestLabelIsBound(t *testing.T) {
	t.Parallel()
	caps := newMinted(t)
	log := &fakeAudit{state: func() int { return 0 }}
	n := startWith(t, hooks{deps: func(d *Deps) { d.Capabilities, d.Audit = caps, log }})
	admin, key := n.Addrs().Admin, fakeRoot.String()
	bound, free := caps.mint(t, "label = photos"), caps.mint(t)
	covered := map[string]bool{"putObject": true, "postObject": true, "beginUpload": true, "postTree": true} // below
	for _, c := range []struct {
		ID, target, body, with string // body: of JSON, with LABEL where the label goes
		heard                  func(label string) string
	}{
		{"Pin", "/api/v1/pin/add?key=" + key, "", "&label=", func(l string) string {
			return "pin " + key + " {Recursive:false Label:" + l + "}"
		}},
		{"Unpin", "/api/v1/pin/rm?key=" + key, "", "&label=",
			func(l string) string { return "unpin " + key + " " + l }},
		{"Add", "/api/v1/add?no_pin=false", "", "&label=", func(l string) string {
			return `add "" {NoPin:false Label:` + l + " OnBadEntry: Ordered:false Roots:<nil> File:<nil> Count:<nil>}"
		}},
		{"AdminPin", "/admin/pin", `{"key":"` + key + `"LABEL}`, "", func(l string) string {
			return "pin " + key + " {Recursive:false Label:" + l + "}"
		}},
		{"AdminUnpin", "/admin/unpin", `{"key":"` + key + `"LABEL}`, "", func(l string) string {
			return "unpin " + key + " " + l
		}},
	} {
		covered[c.ID] = true
		ask := func(label string, token []string) answer {
			t.Helper()
			target, body := c.target, strings.Replace(c.body, "LABEL", "", 1)
			if label != "" {
				body = strings.Replace(c.body, "LABEL", `,"label":"`+label+`"`, 1)
			}
			if label != "" && c.body == "" {
				target += c.with + label
			}
			log.take()
			return doBody(t, "POST", admin+target, strings.NewReader(body), token...)
		}
		before := len(n.node.calls())
		a := ask("docs", bound)
		a.problem(t, status.Forbidden)
		if got := n.node.calls()[before:]; len(got) != 0 || !strings.Contains(a.body, "caveat_label") ||
			!strings.Contains(a.body, `photos`) {
			t.Errorf("%s: it was refused with %s, and %v done", c.ID, a.body, got)
		}
		for _, v := range []struct {
			asked string
			token []string
			want  string
		}{{"", bound, "photos"}, {"photos", bound, "photos"}, {"", free, ""}, {"docs", free, "docs"}} {
			if a := ask(v.asked, v.token); a.StatusCode != http.StatusOK {
				t.Errorf("%s with the label %q: %s %s", c.ID, v.asked, a.Status, a.body)
			}
			got := n.node.calls()
			if want := c.heard(v.want); got[len(got)-1] != want {
				t.Errorf("%s with the label %q: the node heard %q, want %q", c.ID, v.asked, got[len(got)-1], want)
			}
			if events, _ := log.take(); len(events) != 2 || events[0].Label != v.want || len(events[0].Branch) != 32 ||
				events[0].Kind != audit.Mutation {
				t.Errorf("%s with the label %q: %+v", c.ID, v.asked, events)
			}
		}
	}
	covered["AddFile"] = true // no file is passed over TCP, so one with the right label is unsupported
	for label, want := range map[string]status.Outcome{
		"docs": status.Forbidden, "photos": status.Unsupported, "": status.Unsupported,
	} {
		target := admin + "/api/v1/add/file?name=x&label=" + label
		doBody(t, "POST", target, strings.NewReader(""), bound...).problem(t, want)
	}
	for _, e := range routes() {
		named := e.Has(exchange.LabelParam)
		for _, p := range e.Body {
			if p.Of != nil && p.Of.Kind() == reflect.Struct {
				_, member := p.Of.FieldByName("Label")
				named = named || member
			}
		}
		if named != covered[e.ID] {
			t.Errorf("%s has a label: %v, and is tried: %v", e.ID, named, covered[e.ID])
		}
	}
}

// TestLabelOfUploadIsBound: the same for what is uploaded; what is not pinned has
// no label.
func TestLabelOfUploadIsBound(t *testing.T) {
	t.Parallel()
	caps := newMinted(t)
	n := startWith(t, hooks{deps: func(d *Deps) { d.Capabilities = caps }})
	base := n.Addrs().Gateway
	bound, free := caps.mint(t, "label = photos"), caps.mint(t)
	putOnly := caps.mint(t, "op in put", "label = photos")
	for i, c := range []struct {
		query string
		token []string
		want  int
		label string // "-": it is not pinned
	}{
		{"", bound, http.StatusCreated, "photos"},
		{"?pin=true", bound, http.StatusCreated, "photos"},
		{"?label=photos", bound, http.StatusCreated, "photos"},
		{"?label=docs", bound, http.StatusForbidden, "-"},
		{"?pin=true&label=docs", bound, http.StatusForbidden, "-"},
		{"?pin=false", bound, http.StatusCreated, "-"},
		{"", putOnly, http.StatusCreated, "-"},
		{"?label=photos", putOnly, http.StatusForbidden, "-"},
		{"?label=docs", putOnly, http.StatusForbidden, "-"},
		{"?label=docs", free, http.StatusCreated, "docs"},
		{"", free, http.StatusCreated, ""},
	} {
		for way, send := range map[string]func(p []byte, root b3.Root) answer{
			"PUT": func(p []byte, root b3.Root) answer {
				return sendBody(t, "PUT", base+"/o/"+root.String()+c.query, bytes.NewReader(p), c.token...)
			},
			"POST": func(p []byte, _ b3.Root) answer {
				return sendBody(t, "POST", base+"/o"+c.query, bytes.NewReader(p), c.token...)
			},
			"pieces": func(p []byte, _ b3.Root) answer {
				a := sendBody(t, "POST", base+"/u"+c.query, nil,
					append([]string{"Upload-Length", "100"}, c.token...)...)
				if a.StatusCode != http.StatusCreated {
					return a
				}
				return piece(t, base+a.Header.Get("Location"), 0, bytes.NewReader(p), c.token...)
			},
		} {
			p := noise(100)
			copy(p, way+string(rune('a'+i)))
			root := b3.Sum(p)
			a := send(p, root)
			if a.StatusCode != c.want {
				t.Errorf("%s %q: %s %s, want %d", way, c.query, a.Status, a.body, c.want)
			}
			label, pinned := n.sent.pinned(root)
			if !pinned {
				label = "-"
			}
			if label != c.label {
				t.Errorf("%s %q: the label is %q, want %q", way, c.query, label, c.label)
			}
			if way != "PUT" || c.want != http.StatusCreated {
				continue
			}
			// What is here already is pinned in the same way.
			sendBody(t, "PUT", base+"/o/"+root.String()+"?label=docs", bytes.NewReader(p),
				bound...).problem(t, status.Forbidden)
			if a := send(p, root); a.StatusCode != http.StatusOK {
				t.Errorf("again %q: %s", c.query, a.Status)
			}
			if again, _ := n.sent.pinned(root); pinned && again != c.label {
				t.Errorf("again %q: the label is %q, want %q", c.query, again, c.label)
			}
		}
	}

	// An upload under another label is somebody else's.
	theirs := begin(t, n, 100, "?label=docs", free...)
	if a := sendBody(t, "HEAD", theirs, nil, bound...); a.StatusCode != http.StatusForbidden {
		t.Errorf("%s", a.Status)
	}
	piece(t, theirs, 0, bytes.NewReader(noise(100)), bound...).problem(t, status.Forbidden)
	sendBody(t, "DELETE", theirs, nil, bound...).problem(t, status.Forbidden)
	if a := sendBody(t, "DELETE", theirs, nil, free...); a.StatusCode != http.StatusNoContent {
		t.Errorf("%s %s", a.Status, a.body)
	}
}

// TestLabelsDoNotShareAnswers: one capability narrowed to two labels does not get
// the answer to the other's request.
func TestLabelsDoNotShareAnswers(t *testing.T) {
	t.Parallel()
	caps := newMinted(t)
	n := startWith(t, hooks{deps: func(d *Deps) { d.Capabilities = caps }})
	origin := caps.mint(t)
	narrow := func(label string) []string {
		c, err := capability.ParseCaveat("label = " + label)
		if err != nil {
			t.Fatal(err)
		}
		token, err := capability.Attenuate(strings.TrimPrefix(origin[1], "Bearer "), c)
		if err != nil {
			t.Fatal(err)
		}
		return []string{"Authorization", "Bearer " + token, "Idempotency-Key", "k"}
	}
	page := n.Addrs().Admin + "/admin/pin"
	for range 2 {
		if a := post(t, page, `{"key":"x"}`, narrow("photos")...); a.StatusCode != http.StatusOK {
			t.Errorf("%s %s", a.Status, a.body)
		}
	}
	post(t, page, `{"key":"x"}`, narrow("docs")...).problem(t, status.Conflict)
	if got := n.node.calls(); !slices.Equal(got, []string{"pin x {Recursive:false Label:photos}"}) {
		t.Errorf("the node heard %q", got)
	}
}

// TestObjectsBelow: what acts on all that an object leads to needs a capability
// that names the object whole, or none for certain objects.
func TestObjectsBelow(t *testing.T) {
	t.Parallel()
	caps := newMinted(t)
	n := startWith(t, hooks{deps: func(d *Deps) { d.Capabilities = caps }})
	admin, key := n.Addrs().Admin, fakeRoot.String()
	part, whole, free := caps.mint(t, "obj ^= "+key[:10]), caps.mint(t, "obj ^= "+key), caps.mint(t)
	both := caps.mint(t, "obj ^= "+key[:10], "obj ^= "+key)
	for _, c := range []struct {
		target      string
		part, whole bool // allowed for a part of the address; for the whole of it
	}{
		{"/api/v1/pin/add?key=" + key, true, true},
		{"/api/v1/pin/add?recursive=false&key=" + key, true, true},
		{"/api/v1/pin/add?recursive=true&key=" + key, false, true},
		{"/api/v1/pin/rm?key=" + key, true, true},
		{"/api/v1/announce?key=" + key, true, true},
		{"/api/v1/fetch?key=" + key, false, true},
		{"/api/v1/verify?key=" + key, false, true},
		{"/api/v1/verify?repair=true&key=" + key, false, true},
		{"/api/v1/fetch?key=" + key + "/below", false, false},
		{"/api/v1/verify", false, false},
		{"/api/v1/gc/run", false, false},
		{"/api/v1/add", false, false},
		{"/api/v1/add?no_pin=true", false, false},
		{"/admin/pin", false, false}, // its body is not looked at before
	} {
		for _, v := range []struct {
			name  string
			token []string
			may   bool
		}{{"a part", part, c.part}, {"the whole", whole, c.whole}, {"both", both, c.part}, {"anything", free, true}} {
			before := len(n.node.calls())
			body := ""
			if strings.HasPrefix(c.target, "/admin") {
				body = `{"key":"` + key + `","recursive":true}`
			}
			a := doBody(t, "POST", admin+c.target, strings.NewReader(body), v.token...)
			if done := len(n.node.calls()) - before; v.may && (a.StatusCode != http.StatusOK || done != 1) || !v.may &&
				(a.StatusCode != http.StatusForbidden || done != 0) {
				t.Errorf("%s with %s: %s %s, and %d things done", c.target, v.name, a.Status, a.body, done)
			}
		}
	}
}
