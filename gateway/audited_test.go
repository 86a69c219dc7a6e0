package gateway

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/gateway/policy/audit"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// fakeAudit remembers what it is given, and in which state the node was then.
type fakeAudit struct {
	state func() int // how much was done

	mu     sync.Mutex
	err    error // of mutations
	events []audit.Event
	at     []int
}

func (f *fakeAudit) add(e audit.Event, kind audit.Kind) uint64 {
	done := f.state()
	f.mu.Lock()
	defer f.mu.Unlock()
	e.Kind = kind
	f.events, f.at = append(f.events, e), append(f.at, done)
	return uint64(len(f.events))
}

func (f *fakeAudit) fail(err error) { f.mu.Lock(); defer f.mu.Unlock(); f.err = err }

func (f *fakeAudit) Mutation(_ context.Context, e audit.Event) (uint64, error) {
	f.mu.Lock()
	err := f.err
	f.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return f.add(e, audit.Mutation), nil
}

func (f *fakeAudit) Outcome(_ context.Context, e audit.Event) { f.add(e, audit.Outcome) }
func (f *fakeAudit) Refused(e audit.Event)                    { f.add(e, audit.Refusal) }

// take returns the records since the last time, and what was done when each came.
func (f *fakeAudit) take() (events []audit.Event, at []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	events, at = f.events, f.at
	f.events, f.at = nil, nil
	return events, at
}

// audited runs a gateway with a log that it returns.
func audited(t testing.TB, opts ...option) (*testNode, *fakeAudit) {
	t.Helper()
	log := &fakeAudit{}
	n := startWith(t, hooks{deps: func(d *Deps) {
		node, sent := d.Node.(*fakeNode), d.Uploads.(*fakeUploads)
		log.state = func() int { return len(node.calls()) + int(sent.wasRead()) }
		d.Audit = log
	}}, opts...)
	return n, log
}

// TestMutationsAreRecorded: before anything was done, and how it ended, on every
// listener; what changes nothing is not.
func TestMutationsAreRecorded(t *testing.T) {
	t.Parallel()
	n, log := audited(t)
	gw, admin := n.Addrs().Gateway, n.Addrs().Admin
	hello := b3.Sum([]byte("hello"))
	key := fakeRoot.String()
	const token = "Bearer may-put,pin,unpin,announce,publish,repair,gc,reload,drain,fetch,connect"
	for _, c := range []struct {
		method, url, body string
		op, object, label string
		outcome           status.Outcome
		bytes             int64
	}{
		{"PUT", gw + "/o/" + hello.String() + "?label=l", "hello", "put", hello.String(), "l", status.OK, 5},
		{"POST", gw + "/o", "hello", "put", hello.String(), "", status.OK, 5},
		{"PUT", gw + "/o/" + key, "hello", "put", key, "", status.BadDigest, 5},
		{"POST", admin + "/api/v1/pin/add?key=" + key + "&label=x", "", "pin", key, "x", status.OK, 0},
		{"POST", admin + "/api/v1/pin/add?key=fail", "", "pin", "fail", "", status.Busy, 0},
		{"POST", admin + "/api/v1/gc/run", "", "gc", "", "", status.OK, 0},
		{"POST", admin + "/api/v1/store/damage/accept", "", "repair", "", "", status.OK, 0},
		{"POST", admin + "/admin/pin", `{"key":"` + key + `","label":"y"}`, "pin", key, "y", status.OK, -1},
		{"POST", admin + "/admin/unpin", `{"key":"fail"}`, "unpin", "fail", "", status.Busy, -1},
		{"POST", admin + "/admin/reload", "", "reload", "", "", status.OK, 0},
		{"POST", admin + "/admin/drain", "", "drain", "", "", status.OK, 0},
		{
			"POST", admin + "/api/v1/name/publish", `{"name":"blog","value":"` + key + `"}`,
			"publish", key, "", status.OK, -1,
		},
	} {
		before := log.state()
		a := doBody(t, c.method, c.url, strings.NewReader(c.body), "Authorization", token)
		events, at := log.take()
		if len(events) != 2 {
			t.Fatalf("%s %s: %s, %+v", c.method, c.url, a.Status, events)
		}
		m, o := events[0], events[1]
		object := c.object
		if c.url == gw+"/o" {
			object = "" // known when it has come
		}
		if m.Kind != audit.Mutation || m.Op != c.op || m.Object != object ||
			m.Label != c.label || m.Method != c.method ||
			m.Actor == "" || !strings.HasPrefix(m.Addr, "127.0.0.1:") || m.CorrID == "" ||
			m.CorrID != a.Header.Get("X-Corr-ID") {
			t.Errorf("%s %s: %+v", c.method, c.url, m)
		}
		if at[0] != before {
			t.Errorf("%s %s: something was done before the record", c.method, c.url)
		}
		if o.Kind != audit.Outcome || o.Of != 1 || o.Outcome != c.outcome.String() || o.CorrID != m.CorrID ||
			c.object != "" && c.outcome == status.OK && c.method == "PUT" && o.Object != c.object || c.bytes >= 0 &&
			o.Bytes != c.bytes {
			t.Errorf("%s %s: %+v, want %s", c.method, c.url, o, c.outcome)
		}
	}
	for _, c := range []struct{ method, url string }{
		{"GET", gw + "/o/" + hello.String()}, {"HEAD", gw + "/o/" + hello.String()}, {
			"GET", gw + "/o/" + b3.Sum([]byte("none")).String(),
		}, {"OPTIONS", gw + "/o"},
		{"GET", admin + "/api/v1/pins"}, {"GET", admin + "/metrics"}, {"GET", admin + "/none"},
		{"PUT", admin + "/readyz"},
	} {
		do(t, c.method, c.url)
		if events, _ := log.take(); len(events) != 0 {
			t.Errorf("%s %s: %+v", c.method, c.url, events)
		}
	}
}

// TestReplaysAreNotRecorded: what happens once is in the log once.
func TestReplaysAreNotRecorded(t *testing.T) {
	t.Parallel()
	n, log := audited(t)
	for i := range 2 {
		a := post(t, n.Addrs().Admin+"/admin/pin", `{"key":"x"}`, "Authorization",
			"Bearer may-pin", "Idempotency-Key", "k")
		if events, _ := log.take(); a.StatusCode != http.StatusOK || len(events) != 2-2*i {
			t.Errorf("%s, %+v", a.Status, events)
		}
	}
}

// TestSocketUserIsRecorded: on the socket the kernel says who it was.
func TestSocketUserIsRecorded(t *testing.T) {
	t.Parallel()
	n, log := audited(t)
	c, err := client.New(n.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Pin(t.Context(), fakeRoot.String(), api.PinOptions{}); err != nil {
		t.Fatal(err)
	}
	events, _ := log.take()
	if len(events) != 2 || events[0].Actor != fmt.Sprintf("uid:%d", os.Getuid()) || events[1].Actor != events[0].Actor {
		t.Errorf("%+v", events)
	}
}

// TestNothingIsDoneWithoutRecord: a log that cannot be written refuses what
// changes something, and nothing else.
func TestNothingIsDoneWithoutRecord(t *testing.T) {
	t.Parallel()
	n, log := audited(t)
	root := n.objects.put([]byte("page"))
	gw, admin := n.Addrs().Gateway, n.Addrs().Admin
	for _, failure := range []status.Outcome{status.NotReady, status.NoSpace, status.Busy, status.Timeout} {
		log.fail(status.Errorf(failure, "audit: it cannot be written"))
		before := log.state()
		for _, c := range []struct{ method, url, body string }{
			{"PUT", gw + "/o/" + b3.Sum([]byte("hello")).String(), "hello"}, {"POST", gw + "/o", "hello"},
			{"POST", gw + "/u", ""},
			{"POST", admin + "/api/v1/pin/add?key=x", ""}, {"POST", admin + "/api/v1/gc/run", ""}, {
				"POST", admin + "/api/v1/drain", "",
			},
			{"POST", admin + "/admin/pin", `{"key":"x"}`}, {"POST", admin + "/admin/reload", ""},
		} {
			headers := []string{"Authorization", "Bearer may-put,pin,gc,drain,reload", "Upload-Length", "5"}
			a := doBody(t, c.method, c.url, strings.NewReader(c.body), headers...)
			if a.StatusCode != failure.Code() || a.Header.Get("X-Reason") != failure.String() {
				t.Errorf("%s %s: %s %s, want %s", c.method, c.url, a.Status, a.body, failure)
			}
		}
		if a := do(t, "GET", gw+"/o/"+root.String()); a.body != "page" {
			t.Errorf("a read: %s", a.Status)
		}
		if got := log.state(); got != before {
			t.Errorf("%d things were done without a record", got-before)
		}
	}
	log.fail(nil)
	if a := post(t, admin+"/admin/pin", `{"key":"x"}`, "Authorization", "Bearer may-pin", "Idempotency-Key",
		"k"); a.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %s", a.Status)
	}
}

// TestLooksAreNotRecorded: what only looks works where nothing can be recorded.
func TestLooksAreNotRecorded(t *testing.T) {
	t.Parallel()
	n, log := audited(t)
	log.fail(status.Errorf(status.NotReady, "audit: it cannot be written"))
	for target, want := range map[string]int{
		"verify": http.StatusOK, "verify?repair=false": http.StatusOK, "gc/run?dry=true": http.StatusOK,
		"gc/run?dry=true&all=true": http.StatusOK,
		"verify?repair=true":       status.NotReady.Code(), "gc/run?dry=false": status.NotReady.Code(),
	} {
		a := doBody(t, "POST", n.Addrs().Admin+"/api/v1/"+target, nil, "Authorization", "Bearer may-repair,gc")
		if events, _ := log.take(); a.StatusCode != want || len(events) != 0 {
			t.Errorf("%s: %s %s, want %d; %+v", target, a.Status, a.body, want, events)
		}
	}
}

// TestRefusalsAreRecorded with who asked for what.
func TestRefusalsAreRecorded(t *testing.T) {
	t.Parallel()
	n, log := audited(t)
	admin, gw := n.Addrs().Admin, n.Addrs().Gateway
	for _, c := range []struct {
		method, url string
		headers     []string
		want        status.Outcome
	}{
		{"POST", admin + "/admin/drain", nil, status.Unauthenticated},
		{"POST", admin + "/admin/drain", []string{"Authorization", "Bearer nonsense"}, status.Unauthenticated},
		{"POST", admin + "/api/v1/pin/add?key=x", []string{"Authorization", "Bearer may-nothing"}, status.Forbidden},
		{"PUT", gw + "/o/" + fakeRoot.String(), nil, status.Unauthenticated},
		{"GET", admin + "/api/v1/pins", []string{"Host", "evil.example"}, status.NotAllowed},
		{
			"POST", admin + "/admin/drain", []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"},
			status.NotAllowed,
		},
		{"GET", gw + "/o/" + fakeRoot.String(), []string{"Service-Worker", "script"}, status.NotAllowed},
	} {
		a := do(t, c.method, c.url, c.headers...)
		events, _ := log.take()
		if a.Header.Get("X-Reason") != c.want.String() || len(events) != 1 {
			t.Errorf("%s %s %v: %s %s, %+v", c.method, c.url, c.headers, a.Status, a.body, events)
			continue
		}
		e := events[0]
		if e.Kind != audit.Refusal || e.Outcome != c.want.String() || !strings.HasPrefix(e.Addr, "127.0.0.1:") ||
			e.Detail == "" || strings.Contains(e.Detail, "nonsense") || e.CorrID != a.Header.Get("X-Corr-ID") {
			t.Errorf("%s %s: %+v", c.method, c.url, e)
		}
	}
	if calls := n.node.calls(); len(calls) != 0 {
		t.Errorf("the node was asked to %v", calls)
	}
}

// TestAuditLogOfAGateway: a real log of a flood of refusals beside changes
// verifies, and has each change.
func TestAuditLogOfAGateway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, err := audit.New(audit.DefaultConfig(), dir, audit.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	stop := testkit.Start(t, log.Run)
	n := startWith(t, hooks{deps: func(d *Deps) { d.Audit = log }})
	var asked sync.WaitGroup
	for range 4 {
		asked.Go(func() {
			for range 50 {
				do(t, "POST", n.Addrs().Admin+"/admin/drain").problem(t, status.Unauthenticated)
			}
		})
	}
	asked.Go(func() {
		for range 20 {
			post(t, n.Addrs().Admin+"/admin/pin", `{"key":"x"}`, "Authorization", "Bearer may-pin")
		}
	})
	asked.Wait()
	stop()
	counts := map[audit.Kind]int{}
	rep, err := audit.Verify(t.Context(), []string{dir}, audit.VerifyOptions{Record: func(r audit.Record) error {
		counts[r.Kind]++
		return nil
	}})
	if err != nil || counts[audit.Mutation] != 20 || counts[audit.Outcome] != 20 || counts[audit.Refusal] < 1 {
		t.Errorf("%+v, %v, %v", rep, counts, err)
	}
}
