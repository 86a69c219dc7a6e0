package testnet

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/protocols/status"
	"allium/testnet/script"
)

// up is a network that ends with the test.
func up(t *testing.T, n int, seed uint64) *Net {
	t.Helper()
	parallel <- struct{}{}
	net, err := Up(t.Context(), Options{N: n, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := net.Down(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(net.Dir()); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", net.Dir(), err)
		}
		<-parallel
	})
	return net
}

// TestVerbs kills, restarts and refuses, and looks at what every node was told.
func TestVerbs(t *testing.T) {
	t.Parallel()
	net := up(t, 3, 201)
	ctx := t.Context()
	before := net.Members[1].ID()

	if said, err := net.Do(ctx, verb(script.Kill, 2)); err != nil || !strings.Contains(said.String(), "node 2") {
		t.Fatal(said, err)
	}
	for what, err := range map[string]error{
		"does not run; `restart 2` starts it": second(net.Do(ctx, verb(script.Kill, 1, 2))),
		"there is no node 4":                  second(net.Do(ctx, verb(script.Restart, 4))),
		"is no verb of chaos":                 second(net.Do(ctx, script.Step{Op: script.Add, Nodes: script.Nodes{1}})),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %q", err, what)
		}
	}
	if !net.Members[0].Running() {
		t.Error("a kill that was refused has killed another")
	}

	// Told while it is dead, it knows when it is back.
	if _, err := net.Do(ctx,
		script.Step{Op: script.ClockSkew, Nodes: script.Nodes{2}, Skew: 48 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Do(ctx, verb(script.Restart, 2)); err != nil {
		t.Fatal(err)
	}
	if got := net.Members[1].ID().ID; got != before.ID {
		t.Errorf("node 2 came back as %s, it was %s", got, before.ID)
	}
	f, err := net.Members[1].API.Faults(ctx)
	if err != nil || f.ClockSkew() != 48*time.Hour {
		t.Errorf("node 2 knows %+v, %v", f, err)
	}
	if s := net.Status(ctx).String(); !strings.Contains(s, "node 2") || !strings.Contains(s, "clock 48h0m0s ahead") {
		t.Errorf("status is %q", s)
	}

	refused := refusing(t, net.Members[2])
	err = second(net.Do(ctx, script.Step{Op: script.Corrupt, Nodes: script.All()}))
	if status.Of(err) != status.Unsupported || !strings.Contains(err.Error(), "node 3 takes no faults") {
		t.Errorf("a node that refuses gives %v", err)
	}
	refused()
	for _, m := range net.Members {
		if f, err := m.API.Faults(ctx); err != nil || f.Corrupt {
			t.Errorf("%s was left with %+v, %v", m.Name, f, err)
		}
	}
	if _, err := net.Do(ctx, script.Step{Op: script.Heal}); err != nil {
		t.Fatal(err)
	}
	if f, err := net.Members[1].API.Faults(ctx); err != nil || !reflect.DeepEqual(f, api.Faults{}) {
		t.Errorf("after heal node 2 knows %+v, %v", f, err)
	}
}

func second[T any](_ T, err error) error { return err }

// refusing lets a member be a node that takes no faults, until undone.
func refusing(t *testing.T, m *Member) (undo func()) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnsupportedMediaType)
		_ = json.NewEncoder(w).Encode(api.Problem{Reason: "unsupported", Detail: "not a testnet"})
	}))
	api, err := client.New(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	was := m.API
	m.API = api
	return func() {
		m.API = was
		api.Close()
		srv.Close()
	}
}

// TestControlAndRecording works on a network over its socket, and plays what
// was recorded again.
func TestControlAndRecording(t *testing.T) {
	t.Parallel()
	var recorded bytes.Buffer
	net := up(t, 3, 202)
	ctx := t.Context()
	if err := net.Formed(ctx); err != nil {
		t.Fatal(err)
	}
	head := &script.File{Nodes: 3, Seed: 203, Deadline: script.DefaultDeadline, Within: script.DefaultWithin}
	record := NewRecorder(net, head, &recorded)
	control := NewControl(net, NewPlayer(net, script.DefaultWithin), record)
	var serving sync.WaitGroup
	run, cancel := context.WithCancel(ctx)
	ready := make(chan struct{})
	serving.Go(func() {
		if err := control.Run(run, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	})
	stop := func() {
		cancel()
		serving.Wait()
	}
	defer stop()
	<-ready

	dir, err := Find(net.Dir())
	if err != nil {
		t.Fatal(err)
	}
	r, err := Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	play := func(want status.Outcome, lines ...string) {
		t.Helper()
		var events []Event
		err := r.Run(ctx, lines, func(e Event) { events = append(events, e) })
		if status.Of(err) != want {
			t.Fatalf("%q gives %v after %+v, want %s", lines, err, events, want)
		}
		if want == status.OK && (len(events) != len(lines) || events[0].Step != lines[0]) {
			t.Fatalf("%q gives events %+v", lines, events)
		}
	}
	play(status.OK, "add 1 a tree 64KiB", "get 2 a")
	play(status.BadRequest, "kil 3")
	play(status.BadRequest, "kill 3 &")
	play(status.BadRequest, "get 1 nothing")
	play(status.OK, "kill 2")
	play(status.NotReady, "kill 2")
	play(status.OK, "corrupt 1")
	play(status.Corrupt, "get 3 a within 2s")
	play(status.OK, "heal", "get 3 a", "restart 2", "expect ready all", "gc 2", "expect lacks 2 a")

	s, err := r.Status(ctx)
	if err != nil || len(s.Nodes) != 3 || !s.Nodes[1].Running || s.Dir != net.Dir() {
		t.Fatalf("%+v, %v", s, err)
	}
	fi, err := os.Stat(filepath.Join(net.Dir(), "run", "api.sock"))
	if err == nil && fi.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %o", fi.Mode().Perm())
	}
	stop()
	if err := record.Close(ctx); err != nil {
		t.Fatal(err)
	}
	f, err := script.ParseFile("recorded", recorded.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, &recorded)
	}
	if text := recorded.String(); !strings.Contains(text, "! get 3 a corrupt within 2s\n") ||
		!strings.Contains(text, "# kill 2: node 2 does not run") {
		t.Errorf("recorded:\n%s", text)
	}
	var again bytes.Buffer
	if err := Play(ctx, f, PlayOptions{Record: &again, Seed: 204}); err != nil {
		t.Errorf("%v\n%s", err, &recorded)
	}
	if _, err := script.ParseFile("again", again.Bytes()); err != nil {
		t.Errorf("%v\n%s", err, &again)
	}
}

// TestScenarioFails: what is expected and does not come true is an error that
// names the line and shows the network.
func TestScenarioFails(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"nodes 1\nexpect ready 1\nexpect peers 1 >= 3 within 1s": "x.txt:3: expect peers 1 >= 3 within 1s: it " +
			"did not come true within 1s; last seen on node 1: peers 0\nnode 1   ready, 0 peers",
		"nodes 1\n! add 1 a file 1KiB no_space": "x.txt:2: ! add 1 a file 1KiB no_space: wanted " +
			"no_space, and it succeeded",
		"nodes 1\nexpect not-ready 1 nogate": `x.txt:2: expect not-ready 1 nogate: ` +
			`there is no gate "nogate"; there are started,`,
		"nodes 1\nkill 1 &\nwait 200ms\nget 1 a":       "nothing is called a yet",
		"nodes 1\nkill 1\nadd 1 a file 1KiB within 1s": "no node is running",
		"nodes 1\ndeadline 2s\nwait 1m":                "not played within its deadline of 2s",
	} {
		f, err := script.ParseFile("x.txt", []byte(text))
		if err == nil {
			parallel <- struct{}{}
			err = Play(t.Context(), f, PlayOptions{Seed: 205})
			<-parallel
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q", text, err, want)
		}
	}
}

// TestFind looks for networks in a temporary directory of its own.
func TestFind(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	make1 := func(name string) *os.File {
		t.Helper()
		dir := filepath.Join(tmp, dirPrefix+name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := lockDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	fails := func(dir string, o status.Outcome, want string) {
		t.Helper()
		if _, err := Find(dir); status.Of(err) != o || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %s %q", dir, err, o, want)
		}
	}
	fails("", status.NotReady, "no testnet is running")
	dead := make1("dead")
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	fails("", status.NotReady, "dead; `allium testnet down --net "+filepath.Join(tmp, dirPrefix+"dead"))
	fails(filepath.Join(tmp, dirPrefix+"dead"), status.NotReady, "is dead")
	fails(tmp, status.NotFound, "is not the directory of a testnet")
	one := make1("one")
	defer one.Close()
	if dir, err := Find(""); err != nil || filepath.Base(dir) != dirPrefix+"one" {
		t.Errorf("found %s, %v", dir, err)
	}
	two := make1("two")
	defer two.Close()
	fails("", status.Conflict, "2 testnets are running; name one with --net\n  "+tmp)

	if _, err := Clear(t.Context(), filepath.Join(tmp, dirPrefix+"one")); status.Of(err) != status.Conflict {
		t.Errorf("a network that runs is cleared: %v", err)
	}
	if _, err := Clear(t.Context(), filepath.Join(tmp, dirPrefix+"dead")); err != nil {
		t.Error(err)
	}
	if all, err := List(); err != nil || len(all) != 2 {
		t.Errorf("left are %+v, %v", all, err)
	}
}

// verb is a step of chaos on nodes.
func verb(op script.Op, nodes ...int) script.Step { return script.Step{Op: op, Nodes: nodes} }
