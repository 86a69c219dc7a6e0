package website_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"allium/gateway/api"
	"allium/gateway/certs/certstest"
	"allium/node/doctor"
	"allium/node/website"
	"allium/protocols/b3"
	"allium/protocols/status"
)

const (
	domain = "www.example.org"
	zone   = "k51qzi5uqu5djmw2yvf8kk5cdjc1ddc00o4d5sjwi6f79xzcay9j3gkddw5uu4"
)

var (
	here  = netip.MustParseAddr("8.8.4.4") // the node's
	here6 = netip.MustParseAddr("2a00::1")
	page  = b3.Sum([]byte("<h1>page</h1>"))
	other = b3.Sum([]byte("other"))
)

// world is a website, all well at first.
type world struct {
	t     *testing.T
	addrs []netip.Addr
	texts map[string][]string // by domain, with _dnslink. and the dot at its end
	err   error               // of the DNS

	authority *certstest.Authority
	from, to  time.Time // of the certificate
	names     []string
	signer    *certstest.Authority
	plain     bool             // the server speaks no TLS
	shut      map[string]error // addresses without a listener
	answer    http.HandlerFunc

	down    bool // no node runs
	reach   []api.ReachAddr
	value   string // of the name; text
	resolve error
}

func newWorld(t *testing.T) *world {
	confirmed := func(addr string) api.ReachAddr {
		return api.ReachAddr{Addr: addr, Via: "interface", State: api.ReachConfirmed}
	}
	w := &world{
		t: t, addrs: []netip.Addr{here, here6}, authority: certstest.New(t), names: []string{domain},
		texts: map[string][]string{"_dnslink." + domain + ".": {"v=spf1 -all", "dnslink=/n/blog." + zone}},
		from:  time.Now().Add(-time.Hour), to: time.Now().Add(89 * 24 * time.Hour),
		reach: []api.ReachAddr{confirmed("/ip4/8.8.4.4/tcp/4901"), confirmed("/ip6/2a00::1/tcp/4901")},
		answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"`+page.String()+`"`)
			fmt.Fprint(w, "<h1>page</h1>")
		},
	}
	w.signer = w.authority
	return w
}

// lasts sets the times of the certificate, from now.
func (w *world) lasts(from, to time.Duration) {
	w.from, w.to = time.Now().Add(from), time.Now().Add(to)
}

func (w *world) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	switch {
	case w.err != nil:
		return nil, w.err
	case host != domain+"." || len(w.addrs) == 0:
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return w.addrs, ctx.Err()
}

func (w *world) LookupTXT(_ context.Context, host string) ([]string, error) {
	if w.err != nil {
		return nil, w.err
	}
	if texts, ok := w.texts[host]; ok {
		return texts, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (w *world) Reach(context.Context) (api.Reach, error) { return api.Reach{Addrs: w.reach}, nil }

func (w *world) Resolve(_ context.Context, _ string, _ api.Query) (api.Resolved, error) {
	return api.Resolved{Target: b3.Sum([]byte("directory")), Value: w.value}, w.resolve
}

func (w *world) Stat(_ context.Context, key string) (api.Stat, error) {
	if strings.HasSuffix(key, "/index.html") {
		return api.Stat{Root: page, Kind: api.File}, nil
	}
	return api.Stat{Root: other, Kind: api.Directory}, nil
}

// listen starts the server of the website.
func (w *world) listen() string {
	w.t.Helper()
	server := httptest.NewUnstartedServer(w.answer)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.t.Cleanup(server.Close)
	if w.plain {
		server.Start()
		return server.Listener.Addr().String()
	}
	leaf := certstest.Leaf(w.to, w.names...)
	leaf.NotBefore = w.from
	cert, key := w.signer.Sign(w.t, leaf)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{
		Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert,
	}}}
	if len(w.names) == 0 {
		server.TLS = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return nil, errors.New("there is none")
		}}
	}
	server.StartTLS()
	return server.Listener.Addr().String()
}

func (w *world) run() website.Report {
	at := w.listen()
	d := website.Deps{
		Domain: domain, Port: 443, DNS: w, Roots: w.authority.Pool, Node: w, Now: time.Now,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(addr)
			if err != nil || port != "443" || network != "tcp" {
				w.t.Errorf("%s %s is dialled", network, addr)
			}
			if err := w.shut[host]; err != nil {
				return nil, err
			}
			return (&net.Dialer{}).DialContext(ctx, network, at)
		},
	}
	if w.down {
		d.Node = nil
	}
	return website.Diagnose(w.t.Context(), d)
}

var errRefused = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}

// steps are those that are not ok, and how bad they are; empty: skipped.
type steps map[string]doctor.Severity

const (
	note = doctor.Note
	warn = doctor.Warning
	bad  = doctor.Error
)

// TestSteps breaks one step at a time: it is the one that fails, the others do not, and what to do is said.
func TestSteps(t *testing.T) {
	t.Parallel()
	record := "_dnslink." + domain + "."
	for _, c := range []struct {
		name  string
		plant func(w *world)
		bad   steps  // steps that are not ok
		says  string // the first of them
		fix   string
	}{
		{"all well", func(*world) {}, nil, "", ""},
		{"no node runs", func(w *world) { w.down, w.addrs = true, []netip.Addr{here} },
			steps{"address": note}, "not known here", "allium doctor reach"},
		{"no address", func(w *world) { w.addrs = nil },
			steps{"dns": bad, "address": "", "port": "", "certificate": "", "content": ""},
			"no A and no AAAA", "add the record `www.example.org. IN A 8.8.4.4`; `allium name link www.example.org`"},
		{"a silent DNS", func(w *world) { w.err = &net.DNSError{Err: "i/o timeout", IsTimeout: true} },
			steps{
				"dns": bad, "address": "", "port": "", "certificate": "", "record": bad, "content": "",
			}, "did not answer", "--dns"},
		{"a DNS that fails", func(w *world) { w.err = &net.DNSError{Err: "server \x1b[31mmisbehaving"} },
			steps{
				"dns": bad, "address": "", "port": "", "certificate": "", "record": bad, "content": "",
			}, `\x1b[31m`, "name servers"},
		{"a private address", func(w *world) { w.addrs = []netip.Addr{netip.MustParseAddr("10.0.0.7"), here} },
			steps{"address": warn}, "10.0.0.7 is no address", "a public address"},
		{"another server's address", func(w *world) { w.addrs = []netip.Addr{netip.MustParseAddr("1.1.1.1")} },
			steps{"address": warn}, "none of this node's", "IN A 8.8.4.4"},
		{"another one's too", func(w *world) { w.addrs = []netip.Addr{here, netip.MustParseAddr("2a00::99")} },
			steps{"address": warn}, "2a00::99 is not", "remove the record of 2a00::99"},
		{"a closed port", func(w *world) { w.shut = map[string]error{"8.8.4.4": errRefused, "2a00::1": errRefused} },
			steps{"port": bad, "certificate": "", "content": ""},
			"connection refused", "0.0.0.0:443"},
		{"one port closed", func(w *world) { w.shut = map[string]error{"2a00::1": errRefused} },
			steps{"port": warn}, "not at [2a00::1]:443", "remove the record"},
		{"no TLS", func(w *world) { w.plain = true },
			steps{"certificate": bad, "content": bad}, "does not speak TLS", "gateway.tls"},
		{"no certificate", func(w *world) { w.names = nil },
			steps{"certificate": bad, "content": bad}, "shows no certificate for", "acme_domains"},
		{"another host's certificate", func(w *world) { w.names = []string{"a.test", "192.0.2.1"} },
			steps{"certificate": bad}, "another host: a.test, 192.0.2.1", "acme_on_demand"},
		{"an old certificate", func(w *world) { w.lasts(-48*time.Hour, -time.Hour) },
			steps{"certificate": bad}, "that ended at", "log of the node"},
		{"a future certificate", func(w *world) { w.from = time.Now().Add(time.Hour) },
			steps{"certificate": bad}, "that begins at", "clock"},
		{"an unknown authority", func(w *world) { w.signer = certstest.New(w.t) },
			steps{"certificate": bad}, "no known authority", "public authority"},
		{"a certificate that ends soon", func(w *world) { w.lasts(-80*24*time.Hour, 5*24*time.Hour) },
			steps{"certificate": warn}, "ends in", "renewed"},
		{"a certificate for some days", func(w *world) { w.lasts(-100*time.Hour, 60*time.Hour) },
			nil, "", ""},
		{"no record, and the page is there", func(w *world) { w.texts = nil },
			steps{"record": note}, "no TXT record", "`allium name link NAME --domain www.example.org`"},
		{"no record, and a page of the gateway", func(w *world) {
			w.texts, w.answer = nil, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("ETag", `W/"x"`) }
		}, steps{"record": warn}, "no TXT record", "allium name link"},
		{"no record, and no page", func(w *world) { w.texts, w.answer = nil, http.NotFound },
			steps{"record": bad, "content": bad}, "no TXT record", "allium name link"},
		{"two records", func(w *world) { w.texts[record] = []string{"dnslink=/n/a.test", "dnslink=/n/b.test"} },
			steps{"record": note}, "several links", "allium name link"},
		{"a bad record", func(w *world) { w.texts[record] = []string{"dnslink=/ipfs/Qm"} },
			steps{"record": note}, "begins neither with", "allium name link"},
		{"a circle", func(w *world) { w.texts[record] = []string{"dnslink=/n/" + domain} },
			steps{"record": note}, "in a circle", "in one of them"},
		{"a link to nothing", func(w *world) { w.texts[record] = []string{"dnslink=/n/gone.example.org"} },
			steps{"record": note}, "leads to /n/gone.example.org", "the last of them"},
		{"a link to another domain", func(w *world) {
			w.texts[record] = []string{"dnslink=/n/site.example.org/docs"}
			w.texts["_dnslink.site.example.org."] = []string{"dnslink=/b3/" + page.String()}
		}, nil, "", ""},
		{"a name that nobody has", func(w *world) { w.resolve = status.Errorf(status.NotFound, "no record is known") },
			steps{"record": bad}, "no record is known", "allium name publish"},
		{"a name that is text", func(w *world) { w.value = "hello" },
			steps{"record": bad}, "stands for text", "allium name publish"},
		{"an error page", func(w *world) {
			w.answer = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Reason", "not_found")
				w.WriteHeader(http.StatusNotFound)
			}
		}, steps{"content": bad}, "404 Not Found (not_found)", "gateway.sites"},
		{"another page", func(w *world) {
			w.answer = func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("ETag", `"`+other.String()+`"`) }
		}, steps{"content": warn}, "the page of the record is", "publish again"},
		{"the gateway's own page", func(w *world) {
			w.answer = func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("ETag", `W/"x"`) }
		}, steps{"content": warn}, "but not with", "gateway.dnslink"},
		{"a redirect", func(w *world) {
			w.answer = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/de/", http.StatusFound) }
		}, nil, "", ""},
		{"a server that says nothing", func(w *world) {
			w.answer = func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }
		}, steps{"content": bad}, "GET / at", "certificate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.plant(w)
			begun := time.Now()
			r := w.run()
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
			worst, first := doctor.OK, ""
			for _, f := range r.Steps {
				want, wrong := c.bad[f.Check]
				if !wrong {
					want = doctor.OK
				}
				if f.Severity != want || f.Evidence == "" || (f.Impact == "") != (want == doctor.OK) ||
					(f.Fix == "") != (want == doctor.OK) {
					t.Errorf("%+v, want %s", f, want)
				}
				if wrong && first == "" && want != "" {
					first = f.Check
					if !strings.Contains(f.Evidence, c.says) || !strings.Contains(f.Fix, c.fix) {
						t.Errorf("%+v does not say %q and %q", f, c.says, c.fix)
					}
				}
				if f.Severity.Worse(worst) {
					worst = f.Severity
				}
			}
			if r.Worst != worst || r.Domain != domain || len(r.Steps)+len(r.Skipped) != 6 {
				t.Errorf("%+v", r)
			}
			for _, s := range r.Skipped {
				if want, wrong := c.bad[s.Check]; !wrong || want != "" || s.Why == "" {
					t.Errorf("%+v is skipped", s)
				}
			}
		})
	}
}

// TestSlow: each step ends in its own time, and the whole within 10 s.
func TestSlow(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for the time of each step")
	}
	w := newWorld(t)
	hang, cancel := context.WithCancel(t.Context())
	defer cancel() // before the server is closed
	w.answer = func(http.ResponseWriter, *http.Request) { <-hang.Done() }
	begun := time.Now()
	r := w.run()
	if took := time.Since(begun); took > 10*time.Second || r.Worst != doctor.Error {
		t.Errorf("%s, %+v", took, r)
	}
}

// TestThis asks a DNS server of its own, and refuses what cannot be asked.
func TestThis(t *testing.T) {
	t.Parallel()
	d, err := website.This("WWW.Example.org.", 8443, serveDNS(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if d.Domain != domain || d.Port != 8443 || d.Node != nil {
		t.Errorf("%+v", d)
	}
	addrs, err := d.DNS.LookupNetIP(t.Context(), "ip", domain+".")
	if err != nil || len(addrs) != 1 || addrs[0].Unmap() != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("%v, %v", addrs, err)
	}
	texts, err := d.DNS.LookupTXT(t.Context(), "_dnslink."+domain+".")
	if err != nil || len(texts) != 1 || texts[0] != "dnslink=/b3/"+page.String() {
		t.Errorf("%v, %v", texts, err)
	}
	d.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errRefused }
	d.Roots = x509.NewCertPool()
	r := website.Diagnose(t.Context(), d)
	if len(r.Steps) != 4 || r.Steps[1].Severity != doctor.Warning || r.Steps[2].Severity != doctor.Error ||
		!strings.Contains(r.Steps[3].Evidence, page.String()) {
		t.Errorf("%+v", r)
	}
	d, err = website.This(domain, 443, "127.0.0.1:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := website.Diagnose(t.Context(), d); !strings.Contains(r.Steps[0].Evidence, "127.0.0.1:1") {
		t.Errorf("the DNS server that was asked is not named: %s", r.Steps[0].Evidence)
	}
	for _, bad := range []struct {
		domain string
		port   int
		dns    string
	}{
		{"localhost", 443, ""}, {"192.0.2.1", 443, ""}, {"https://www.example.org", 443, ""}, {"", 443, ""},
		{strings.Repeat("a", 64) + ".org", 443, ""}, {domain, 0, ""}, {domain, 65536, ""}, {domain, 443, "dns.test"},
		{domain, 443, "1.1.1.1:x"}, {"blog." + zone, 443, ""},
	} {
		if _, err := website.This(bad.domain, bad.port, bad.dns, nil); status.Of(err) != status.BadRequest {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := website.This(domain, 443, "1.1.1.1", nil); err != nil {
		t.Error(err)
	}
}

// serveDNS answers over UDP: every name is 127.0.0.1 and links to page.
func serveDNS(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		packet := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return // closed
			}
			var m dnsmessage.Message
			if m.Unpack(packet[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.Additionals = true, nil
			head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
			switch q.Type {
			case dnsmessage.TypeA:
				m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
			case dnsmessage.TypeTXT:
				m.Answers = []dnsmessage.Resource{{
					Header: head, Body: &dnsmessage.TXTResource{TXT: []string{"dnslink=/b3/" + page.String()}},
				}}
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(answer, from) // who asked asks again
			}
		}
	})
	t.Cleanup(func() { conn.Close(); serving.Wait() })
	return conn.LocalAddr().String()
}

// TestPublicAddrs: relays and private addresses are left out, and confirmed ones come first.
func TestPublicAddrs(t *testing.T) {
	t.Parallel()
	got := website.PublicAddrs(api.Reach{Addrs: []api.ReachAddr{
		{Addr: "/ip4/1.0.0.1/tcp/1"}, {Addr: "/ip4/10.0.0.1/tcp/1"}, {Addr: "/ip4/9.9.9.9/tcp/1", Via: "relay"},
		{Addr: "nonsense"}, {Addr: "/dns4/a.test/tcp/1"},
		{Addr: "/ip6/2a00::1/udp/1/quic-v1", State: api.ReachConfirmed}, {Addr: "/ip6/2a00::1/tcp/1"},
	}})
	if len(got) != 2 || got[0] != here6 || got[1] != netip.MustParseAddr("1.0.0.1") {
		t.Errorf("%v", got)
	}
}
