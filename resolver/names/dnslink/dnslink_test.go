package dnslink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"allium/protocols/name"
	"allium/protocols/status"
)

const object = "b3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"

var zone = name.Zone{1, 2}

// fixed has the TXT records of domains.
type fixed map[string][]string

func (f fixed) LookupTXT(_ context.Context, domain string) ([]string, error) {
	texts, ok := f[domain]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: domain, IsNotFound: true}
	}
	return texts, nil
}

// TestLookup: one link is taken, in each of its forms; anything else is refused with an outcome.
func TestLookup(t *testing.T) {
	t.Parallel()
	blog := "blog." + zone.String()
	for _, c := range []struct {
		texts []string
		err   status.Outcome
		want  string // object, name or domain, and path
	}{
		{[]string{"dnslink=/b3/" + object}, status.OK, object + " "},
		{[]string{"v=spf1 -all", "dnslink=/b3/" + object + "/a/b/"}, status.OK, object + " a/b"},
		{[]string{"dnslink=/n/" + blog}, status.OK, blog + " "},
		{[]string{"dnslink=/n/" + blog + "/a/b"}, status.OK, blog + " a/b"},
		{[]string{"dnslink=/n/Www.Example.org/x"}, status.OK, "www.example.org x"},
		{[]string{"dnslink=/n/" + blog, "dnslink=/n/" + blog}, status.OK, blog + " "},
		{[]string{"dnslink=/n/" + blog, "dnslink=/b3/" + object}, status.Conflict, ""},
		{nil, status.NotFound, ""},
		{[]string{"", "DNSLINK=/b3/" + object, " dnslink=/b3/" + object}, status.NotFound, ""},
		{[]string{"dnslink="}, status.NotFound, ""},
		{[]string{"dnslink=/ipfs/bafy"}, status.BadRequest, ""},
		{[]string{"dnslink=/b3/" + object[:60]}, status.BadRequest, ""},
		{[]string{"dnslink=/b3/hello"}, status.BadRequest, ""},
		{[]string{"dnslink=/b3/" + object + "/../x"}, status.BadRequest, ""},
		{[]string{"dnslink=/n/blog"}, status.BadRequest, ""},
		{[]string{"dnslink=/n/blog." + zone.String()[:50]}, status.BadRequest, ""},
		{[]string{"dnslink=/n/127.0.0.1"}, status.BadRequest, ""},
		{[]string{"dnslink=/n/a..b"}, status.BadRequest, ""},
		{[]string{"dnslink=/n/" + blog + "/" + strings.Repeat("x", 64<<10)}, status.BadRequest, ""},
		{slices.Repeat([]string{"x"}, maxTexts+1), status.BadRequest, ""},
	} {
		txt := fixed{}
		if c.texts != nil {
			txt["_dnslink.docs.example.org."] = c.texts
		}
		l, err := New(txt, nil).Lookup(t.Context(), "Docs.example.org.")
		if status.Of(err) != c.err {
			t.Errorf("%.80q: %v, want %s", c.texts, err, c.err)
			continue
		}
		got := l.Next + " " + l.Path
		switch {
		case !l.Root.IsZero():
			got = l.Root.String() + got
		case !l.Name.IsZero():
			got = l.Name.String() + got
		}
		if err == nil && (got != c.want || l.Domain != "docs.example.org") {
			t.Errorf("%q: %q of %q, want %q", c.texts, got, l.Domain, c.want)
		}
	}
}

// TestDomain: nothing that has the key of a zone, or nearly, is told to the DNS.
func TestDomain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"example.org": true, "docs.example.org": true, "bücher.example": true, "docs.alice": true,
		"blog." + zone.String(): false, "blog." + zone.String()[:40]: false, "blog." + zone.ID().String(): false,
		"blog": false, "": false, ".": false, "a..b": false, "127.0.0.1": false, "a b.org": false,
		"r3---sn-x.example": true, "a_b.example": true, "_a.example": true, "ab--c.example": true, "a-.example": true,
		"xn--a.example": false, "a/b.example": false, "a:b.example": false, "a%b.example": false, "a@b.example": false,
		"*.example": false, "a<b.example": false,
		strings.Repeat("a.", 130) + "org": false, strings.Repeat("a", 64) + ".org": false, "a\x00b.org": false,
	} {
		if _, got := Domain(text); got != want {
			t.Errorf("%.80q: %t", text, got)
		}
	}
}

// TestDomainForm: a domain has one form, however it is spelled.
func TestDomainForm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"STRAẞE.example": "xn--strae-oqa.example", "straße.example": "xn--strae-oqa.example",
		"xn--strae-oqa.example.": "xn--strae-oqa.example", "A_B。Example": "a_b.example",
		"R3---sn-x.example": "r3---sn-x.example",
	} {
		if got, ok := Domain(text); !ok || got != want {
			t.Errorf("%q is %q, %t", text, got, ok)
		}
	}
}

// stuck never answers before its context ends, if then.
type stuck struct{ until chan struct{} }

func (s stuck) LookupTXT(ctx context.Context, _ string) ([]string, error) {
	select {
	case <-s.until:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestSlow: a lookup ends after Timeout, and those beyond the bounds are busy at once.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(stuck{make(chan struct{})}, nil)
		begun, results := time.Now(), make(chan error, lookups+waiting)
		for range lookups + waiting {
			go func() {
				_, err := r.Lookup(t.Context(), "example.org")
				results <- err
			}()
		}
		synctest.Wait()
		if _, err := r.Lookup(t.Context(), "example.org"); status.Of(err) != status.Busy {
			t.Errorf("beyond the bounds: %v", err)
		}
		for range lookups + waiting {
			if err := <-results; status.Of(err) != status.Timeout {
				t.Error(err)
			}
		}
		if took := time.Since(begun); took != Timeout {
			t.Errorf("took %s", took)
		}
	})
}

// server is a DNS server on loopback that answers each TXT question by the domain's name.
func server(t *testing.T, answer func(domain string, b *dnsmessage.Builder) dnsmessage.RCode) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-done })
	go func() {
		defer close(done)
		p := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(p)
			if err != nil {
				return
			}
			if reply, ok := respond(p[:n], answer); ok {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// respond makes the response to a request.
func respond(p []byte, answer func(string, *dnsmessage.Builder) dnsmessage.RCode) ([]byte, bool) {
	var parser dnsmessage.Parser
	head, err := parser.Start(p)
	if err != nil {
		return nil, false
	}
	q, err := parser.Question()
	if err != nil {
		return nil, false
	}
	build := func(code dnsmessage.RCode) (*dnsmessage.Builder, error) {
		b := dnsmessage.NewBuilder(nil, dnsmessage.Header{
			ID: head.ID, Response: true, RecursionAvailable: true, Authoritative: true, RCode: code,
		})
		return &b, errors.Join(b.StartQuestions(), b.Question(q), b.StartAnswers())
	}
	b, err := build(dnsmessage.RCodeSuccess)
	if err != nil {
		return nil, false
	}
	if code := answer(q.Name.String(), b); code != dnsmessage.RCodeSuccess {
		if b, err = build(code); err != nil {
			return nil, false
		}
	}
	reply, err := b.Finish()
	return reply, err == nil
}

// TestServer asks a real server through the resolver of the system: a record in several strings, aliases
// in a loop, no domain, a failing server and a silent one.
func TestServer(t *testing.T) {
	t.Parallel()
	head := func(domain string) dnsmessage.ResourceHeader {
		return dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(domain), Class: dnsmessage.ClassINET, TTL: 60}
	}
	r := New(server(t, func(domain string, b *dnsmessage.Builder) dnsmessage.RCode {
		label, _, _ := strings.Cut(strings.TrimPrefix(domain, linkLabel), ".")
		switch label {
		case "good":
			_ = b.TXTResource(head(domain),
				dnsmessage.TXTResource{TXT: []string{"dnslink=/b3/" + object[:20], object[20:]}})
		case "loop":
			_ = b.CNAMEResource(head(domain), dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(domain)})
		case "many":
			for i := range maxTexts + 1 {
				_ = b.TXTResource(head(domain), dnsmessage.TXTResource{TXT: []string{fmt.Sprint(i)}})
			}
		case "failing":
			return dnsmessage.RCodeServerFailure
		default:
			return dnsmessage.RCodeNameError
		}
		return dnsmessage.RCodeSuccess
	}), nil)
	for label, want := range map[string][]status.Outcome{
		"good": {status.OK}, "missing": {status.NotFound},
		"loop": {status.NotFound, status.Upstream}, "many": {status.BadRequest, status.Upstream, status.Timeout},
		"failing": {status.Upstream, status.Timeout},
	} {
		l, err := r.Lookup(t.Context(), label+".example.org")
		if !slices.Contains(want, status.Of(err)) || (err == nil) != (l.Root.String() == object) {
			t.Errorf("%s: %+v, %v", label, l, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"/b3/" + object + "/x", "/n/blog." + zone.String(), "/n/example.org", "/n/", "/b3/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parse(text)
		targets := 0
		for _, set := range []bool{!l.Root.IsZero(), !l.Name.IsZero(), l.Next != ""} {
			if set {
				targets++
			}
		}
		if err == nil && targets != 1 {
			t.Errorf("%q has %d targets: %+v", text, targets, l)
		}
	})
}
