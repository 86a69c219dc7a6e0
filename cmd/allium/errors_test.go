package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/protocols/status"
)

var update = flag.Bool("update", false, "write the golden files")

const nowhere = "b3:00000000000000000000000000000000000000000000000000000000000000ff"

// errorCase is a command line that fails.
type errorCase struct {
	args  []string
	env   []string
	stdin string
	node  error // what a node answers, where a test cannot bring a real one to it
}

// notAtCLI lists the outcomes that no command ends with, and why.
var notAtCLI = map[status.Outcome]string{
	status.OK:            "no error",
	status.Partial:       "no error",
	status.NotModified:   "no error",
	status.Method:        "the commands use the methods that the routes have",
	status.Precondition:  "only diff --exit-code, which is a case",
	status.EtagInvalid:   "the commands send no entity tags",
	status.DecompressCap: "the commands send nothing that is compressed",
	status.FrameOversize: "frames are between nodes; a lookup moves on to another peer",
	status.Equivocation:  "no record that can contradict itself is read yet",
	status.BreakerOpen:   "the resolver asks another provider instead",
	status.BadDigest:     "commands let the node work the address out",
}

// errorCases provokes every outcome that a command can end with. $A and $B are
// homes: of a node that runs, and of none. Objects are in $A unless said.
func errorCases() []errorCase {
	const gone = "http://127.0.0.1:1"
	a := func(args ...string) errorCase { return errorCase{args: append([]string{"--home", "$A"}, args...)} }
	b := func(args ...string) errorCase { return errorCase{args: append([]string{"--home", "$B"}, args...)} }
	node := func(err error, args ...string) errorCase {
		return errorCase{args: append([]string{"--api", "$STUB"}, args...), node: err}
	}
	with := func(c errorCase, env ...string) errorCase { c.env = env; return c }
	stdin := func(c errorCase, text string) errorCase { c.stdin = text; return c }
	return []errorCase{
		// The command line.
		b("gett"), b("pin", "ad"), b("help", "nonsense"), b("get"), b("get", "a", "b"),
		b("get", "--outptu", "x", nowhere),
		b("get", "-z"), b("get", "-o"), b("cat", "$FILE", "--start", "x"), b("version", "nonsense"),
		b("get", nowhere, "--delete"),
		b("add", "-", "f"), stdin(b("add", "-", "--name", "a/b"), "x"), b("add", "--on-bad-entry", "foo", "f"),
		b("add", "odd"), b("ping", "x", "-n", "0"), b("token", "mint", "--op", "foo"),
		b("token", "mint", "--op", "put", "--expires", "9y"),
		b("token", "inspect", "x"), b("token", "revoke"), b("token", "key", "retire", "x"), b("seeds", "sign", "x"),
		b("testnet", "chaos", "kil", "1"), b("sim", "dht", "-n", "1"), b("sim", "dht", "--churn", "3"),
		b("--api", "foo", "id"),
		b("--token-file", "f", "id"), b("cat", nowhere, "--gateway", "foo"), b("config", "explain", "dht.alpa"),
		b("--log-level", "loud", "config", "check"), b("--config", "f", "config", "check"),
		b("audit", "verify", "--head", "x"),
		b("run", "--gateway", "nonsense"), b("run", "--listen", "foo"), a("cat", "$DIR"), a("ls", "$FILE"),
		with(b("config", "check"), "ALLIUM_DHT__ALPA=1", "ALLIUM_LOG__LEVEL=loud"),
		// Addresses.
		b("cat", "hello"), b("cat", "b3:123"), b("cat", nowhere+"00"),
		b("cat", strings.Replace(nowhere, "ff", "FF", 1)),
		b("cat", strings.Replace(nowhere, "ff", "gg", 1)), b("cat", strings.ToUpper(nowhere)), a("cat", "hello"),
		a("pin", "add", "b3:123"), a("why", "hello"), a("why", nowhere+"/a"),
		// Who may.
		{args: []string{"--api", "$ADMIN", "node", "drain"}},
		b("--api", "$ADMIN", "--token-file", "open-token", "peers"),
		b("add", "f", "--gateway", "$GATEWAY", "--no-pin"), with(b("add", "f", "--gateway", "$GATEWAY"),
			"ALLIUM_TOKEN=$GETTOKEN"),
		with(b("add", "f", "--gateway", "$GATEWAY"), "ALLIUM_TOKEN=$PUTTOKEN"), a("cat", "$DENIED"),
		node(status.Errorf(status.NotAllowed, "this node is a seed and serves no content; use another node"), "cat",
			nowhere),
		node(status.Errorf(status.Unsupported, "this is no node of a testnet, and only those have faults"), "id"),
		// What is not there.
		b("get", nowhere), b("pin", "rm", nowhere), b("pin", "rm", "$FILE", "--label", "x"), b("verify", nowhere),
		b("gc", "why", "x"),
		b("add", "nosuch"), b("--config", "nosuch", "config", "show"), a("cat", "$DIR/nosuch"),
		a("get", "$FILE", "-o", "nosuch/x"),
		b("audit", "verify", "nosuch"), a("disconnect", "12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6"),
		a("why", "00000000000000a1"), a("why", strings.Replace(nowhere, "ff", "fe", 1)),
		a("providers", nowhere), a("resolve", nowhere), a("resolve", nowhere, "--limit", "33"), a("get", nowhere),
		a("pin", "add", nowhere), a("announce", nowhere),
		b("--token-file", "nosuch", "--api", gone, "id"),
		node(status.Errorf(status.Gone, "the upload has ended; begin a new one"), "id"),
		// What is in the way.
		a("get", "$FILE", "-o", "f"), a("store", "rebuild"), b("token", "key", "retire", "1"),
		b("diff", "$FILE", "$DIR", "--exit-code"),
		a("init"), with(b("add", "big"), "ALLIUM_STORE__MAX_BYTES=1MiB"),
		a("cat", "$FILE", "--start", "50", "--end", "99"),
		a("cat", "$FILE", "--end", "-2"),
		with(b("add", "big", "--label", "x"), "ALLIUM_STORE__QUOTAS=x=100KiB"),
		node(status.BusyError(status.Busy, status.Limit{Name: "gateway.inflight", Current: 64, Cap: 64,
			RetryAfter: 2 * time.Second}), "id"),
		node(status.BusyError(status.RateLimit, status.Limit{Name: "token.rate", Current: 20, Cap: 20,
			RetryAfter: time.Second}), "id"),
		node(status.Errorf(status.BodyCap, "the body has 2 GiB, and 1 GiB is the most"), "id"),
		// What was received.
		b("verify", "$BAD"), b("seeds", "inspect", "f"), b("seeds", "inspect", "seeds-false"),
		b("seeds", "inspect", "nosuch"),
		b("cat", nowhere, "--gateway", "$STUB"), b("audit", "verify", "audit-false"),
		node(status.Errorf(status.Internal, "the index named a segment twice"), "id"),
		// Names.
		a("name", "publish", "blog", "x"), a("name", "publish", "blog.nobody", "x"), a("name", "publish", "a b", "x"),
		a("name", "publish", "blog", "x", "--life", "1y"), a("name", "publish", "blog", "x", "--ttl", "0s"),
		a("name", "publish", "a.b", "x", "--zone", "c"), a("name", "publish", "blog", ""),
		a("name", "withdraw", "blog"),
		a("name", "publish", "blog.k51qzi5uqu5djmw2yvf8kk5cdjc1ddc00o4d5sjwi6f79xzcay9j3gkddw5uu4", "x"),
		b("name", "ls"), b("name", "publish", "blog", "x"),
		// Zones.
		b("zone", "new", "a b"), b("zone", "new", "pаypal"), b("zone", "export", "bob"),
		b("zone", "export", "x", "--days", "3"),
		b("zone", "import", "nosuch"), b("zone", "import", "f"), b("zone", "import", strings.Repeat("k51", 21)),
		b("zone", "import", "12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6"),
		stdin(b("zone", "import", "-"), "CAES"),
		with(b("zone", "new"), "ALLIUM_NODE__AMNESIA=true"), with(b("zone", "ls"), "ALLIUM_NAMES__MAPS=f"),
		with(b("zone", "ls"), "ALLIUM_NAMES__MAPS=12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6=nosuch"),
		// The node and the network.
		b("peers"), b("--api", gone, "peers"), with(b("cat", "$FILE"), "ALLIUM_NODE__AMNESIA=true"),
		b("cat", "$FILE", "--gateway", gone),
		a("connect", "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6"),
		b("testnet", "status"),
		a("connect", "nonsense"), b("verify", "--repair", "$FILE"),
		node(status.Errorf(status.Draining, "this node is stopping"), "id"),
		node(status.Errorf(status.Timeout, "none of the 12 peers asked answered: check the network"), "providers",
			nowhere),
		node(status.Errorf(status.HopExceeded, "the lookup needs more than 20 hops"), "providers", nowhere),
		node(status.Errorf(status.Stale, "the record has expired"), "providers", nowhere),
		b("add", "-"), // which the test interrupts
	}
}

// TestErrors compares what each failing command says with testdata/errors.golden.
// -update writes that file.
func TestErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a node and a hundred commands")
	}
	w := newErrorWorld(t)
	type answer struct {
		outcome status.Outcome
		text    string
	}
	var answers []answer
	seen := map[status.Outcome]bool{status.Precondition: true}
	for _, c := range errorCases() {
		exit, said, report := w.run(t, c)
		o, ok := status.Parse(report.Reason)
		if !ok || exit != o.Exit() {
			t.Errorf("%q ended with %d and %+v", c.args, exit, report)
		}
		seen[o] = true
		command := w.neutral("allium " + strings.Join(c.args, " "))
		for _, v := range c.env {
			command = w.neutral(v) + " " + command
		}
		said = w.neutral(said)
		want := "allium: " + w.neutral(report.Message)
		if report.LookupID != "" {
			want += " `allium why 0123456789abcdef` shows what was asked."
		}
		if said != want {
			t.Errorf("%s\n  says        %s\n  with --json %s", command, said, want)
		}
		for _, wrong := range badSentence(said) {
			t.Errorf("%s\n  %s\n  %s", command, said, wrong)
		}
		answers = append(answers, answer{o, "$ " + command + "\n" + said + "\n"})
	}
	slices.SortStableFunc(answers, func(a, b answer) int { return int(a.outcome) - int(b.outcome) })
	var got strings.Builder
	got.WriteString("# What commands say when they fail; go test ./cmd/allium -run TestErrors -update writes it.\n")
	var last status.Outcome
	for _, a := range answers {
		if a.outcome != last {
			fmt.Fprintf(&got, "\n## %s, exit code %d\n", a.outcome, a.outcome.Exit())
			last = a.outcome
		}
		got.WriteString("\n" + a.text)
	}
	for _, o := range status.All() {
		if why := notAtCLI[o]; seen[o] == (why != "") && o != status.Precondition {
			t.Errorf("%s is in the list: %t; no command ends with it: %q", o, seen[o], why)
		}
	}
	golden := filepath.Join("testdata", "errors.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != got.String() {
		t.Errorf("%v; %s differs from what commands say now:\n%s", err, golden, got.String())
	}
}

// badSentence says what of a sentence is not "what failed: why. What to do."
func badSentence(said string) (wrong []string) {
	head, _, _ := strings.Cut(said, "\n")
	for what, bad := range map[string]*regexp.Regexp{
		"it does not end as a sentence": regexp.MustCompile(`[^.?:]$`),
		"it has a whole address":        regexp.MustCompile(`b3:[0-9a-f]{64}`),
		"it has a package's name": regexp.MustCompile(
			`: b3: |\b(store|dht|config|resolver|client|localapi|verified|dhtsim|audit|p2p): `),
		"it has a Go type or a system call": regexp.MustCompile(`\*\w+\.\w+|\b(open|lstat|strconv\.\w+) [^ ]+: `),
	} {
		if bad.MatchString(head) {
			wrong = append(wrong, what)
		}
	}
	if shorts := regexp.MustCompile(`b3:[0-9a-f]{4}…[0-9a-f]{4}`).FindAllString(head, -1); len(shorts) > 1 &&
		shorts[0] == shorts[1] {
		wrong = append(wrong, "it has the address twice")
	}
	if len(head) > 400 {
		wrong = append(wrong, "it is too long")
	}
	return wrong
}

// errorWorld is what the failing commands work on.
type errorWorld struct {
	dir  string
	vars map[string]string
	stub error // what the stub node answers
}

func newErrorWorld(t *testing.T) *errorWorld {
	t.Helper()
	w := &errorWorld{dir: t.TempDir(), vars: map[string]string{}}
	stub := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if w.stub == nil {
			_, _ = io.WriteString(rw, "<html>hello</html>") // no gateway
			return
		}
		r := status.ReportOf(w.stub)
		rw.Header().Set("Content-Type", "application/problem+json")
		rw.WriteHeader(status.Of(w.stub).Code())
		_ = json.NewEncoder(rw).Encode(api.Problem{
			Status: status.Of(w.stub).Code(), Detail: r.Message, Reason: r.Reason, Label: r.Detail,
			Limit: r.Limit, Current: r.Current, Cap: r.Cap, RetryAfterMS: r.RetryAfterMS, LookupID: r.LookupID,
		})
	}))
	t.Cleanup(stub.Close)
	w.vars["$STUB"], w.vars["$A"], w.vars["$B"] = stub.URL, filepath.Join(w.dir, "A"), filepath.Join(w.dir, "B")
	for name, text := range map[string]string{
		"f": "hello\n", "denied": "denied\n", "bad": strings.Repeat("bad", 1000), "dir/x": "x\n",
		"big": strings.Repeat("big\n", 1<<20), "open-token": "secret\n",
	} {
		file := filepath.Join(w.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	odd := filepath.Join(w.dir, "odd")
	if err := errors.Join(os.Mkdir(odd, 0o755), syscall.Mkfifo(filepath.Join(odd, "pipe\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, home := range []string{"$A", "$B"} {
		w.must(t, "--home", home, "init", "--profile", "testnet")
		w.vars["$FILE"] = w.must(t, "--home", home, "add", "-q", "f")
		w.vars["$DIR"] = w.must(t, "--home", home, "add", "-q", "dir")
		w.vars["$DENIED"] = w.must(t, "--home", home, "add", "-q", "denied")
		w.vars["$BAD"] = w.must(t, "--home", home, "add", "-q", "bad")
	}
	w.vars["$GETTOKEN"] = w.must(t, "--home", "$A", "token", "mint", "--op", "get")
	w.vars["$PUTTOKEN"] = w.must(t, "--home", "$A", "token", "mint", "--op", "put")
	w.must(t, "--home", "$B", "token", "mint", "--op", "get")
	w.damage(t)
	denylist := filepath.Join(w.vars["$A"], "denylist.txt")
	if err := os.WriteFile(denylist, []byte(w.vars["$DENIED"]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.seeds(t)
	w.start(t)
	return w
}

// damage flips a bit of the object "bad" in $B's segment.
func (w *errorWorld) damage(t *testing.T) {
	t.Helper()
	flipped := false
	err := filepath.WalkDir(filepath.Join(w.vars["$B"], "store"), func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || flipped {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if at := bytes.Index(content, []byte("badbadbad")); at > 0 {
			content[at] ^= 1
			flipped = true
			return os.WriteFile(name, content, 0o600)
		}
		return nil
	})
	if err != nil || !flipped {
		t.Fatalf("no file of the store has the object: %v", err)
	}
}

// seeds writes a manifest that was changed, and an audit log that was.
func (w *errorWorld) seeds(t *testing.T) {
	t.Helper()
	peer := w.must(t, "--home", "$A", "--json", "seeds", "sign", "--key", filepath.Join(w.vars["$A"], "identity.key"),
		"/ip4/127.0.0.1/tcp/1/p2p/12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6")
	var signed struct{ Manifest string }
	if err := json.Unmarshal([]byte(peer), &signed); err != nil {
		t.Fatal(err)
	}
	middle := len(signed.Manifest) / 2
	changed := signed.Manifest[:middle] + swap(signed.Manifest[middle:middle+1]) + signed.Manifest[middle+1:]
	for name, text := range map[string]string{"seeds-false": changed, "audit-false": "{\"seq\":1}\n"} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// swap returns another letter of base64.
func swap(letter string) string {
	if letter == "A" {
		return "B"
	}
	return "A"
}

// start runs the node of $A until the test ends.
func (w *errorWorld) start(t *testing.T) {
	t.Helper()
	cmd := w.command("--home", "$A", "--json", "run", "--profile", "testnet", "--end-with-stdin",
		"--listen", "/ip4/127.0.0.1/tcp/0", "--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	n, id := startJSON(t, cmd)
	t.Cleanup(func() { n.stop(t) })
	w.vars["$ADMIN"], w.vars["$GATEWAY"] = id.Admin, id.Gateway
}

// command is a command in the world's directory.
func (w *errorWorld) command(args ...string) *exec.Cmd {
	for i, arg := range args {
		args[i] = w.expand(arg)
	}
	cmd := exec.Command("allium", args...)
	cmd.Dir = w.dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ALLIUM_") }),
		"HOME="+w.dir, "TMPDIR="+w.dir)
	return cmd
}

// must runs a command that succeeds and returns what it prints.
func (w *errorWorld) must(t *testing.T, args ...string) string {
	t.Helper()
	cmd := w.command(args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v: %s", args, err, errs.String())
	}
	return strings.TrimSpace(string(out))
}

// run runs a case twice, the second time with --json, and returns the exit code,
// what it says, and the report.
func (w *errorWorld) run(t *testing.T, c errorCase) (exit int, said string, report status.Report) {
	t.Helper()
	w.stub = c.node
	for _, asJSON := range []bool{false, true} {
		args := slices.Clone(c.args)
		if asJSON {
			args = append([]string{"--json"}, args...)
		}
		cmd := w.command(args...)
		for _, v := range c.env {
			cmd.Env = append(cmd.Env, w.expand(v))
		}
		var errs bytes.Buffer
		cmd.Stderr = &errs
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if c.stdin == "" && slices.Equal(c.args[2:], []string{"add", "-"}) {
			time.Sleep(2 * time.Second) // until it reads
			_ = cmd.Process.Signal(os.Interrupt)
		}
		_, _ = io.WriteString(stdin, c.stdin)
		if c.stdin != "" || !slices.Contains(c.args, "-") {
			_ = stdin.Close()
		}
		_ = cmd.Wait()
		exit = cmd.ProcessState.ExitCode()
		if !asJSON {
			said = strings.TrimSpace(errs.String())
			continue
		}
		if err := json.Unmarshal(errs.Bytes(), &report); err != nil {
			t.Errorf("%q: %v: %s", c.args, err, errs.String())
		}
	}
	return exit, said, report
}

// expand puts the world's values in the place of its variables.
func (w *errorWorld) expand(s string) string {
	for name, value := range w.vars {
		if s == name || strings.HasPrefix(s, name+"/") || strings.HasSuffix(s, "="+name) {
			return strings.Replace(s, name, value, 1)
		}
	}
	return s
}

var (
	port   = regexp.MustCompile(`127\.0\.0\.1:[0-9]{4,5}`)
	lookup = regexp.MustCompile("`allium why [0-9a-f]{16}`")
	peerID = regexp.MustCompile(`12D3KooW[0-9A-Za-z]{44}`)
	whole  = regexp.MustCompile(`(b3:[0-9a-f]{4})[0-9a-f]{56}([0-9a-f]{4})( |$)`)
	dated  = regexp.MustCompile(`20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z`)
)

// neutral returns text without what differs from one run to the next.
func (w *errorWorld) neutral(text string) string {
	text = strings.ReplaceAll(text, w.dir, "/work")
	text = port.ReplaceAllString(text, "127.0.0.1:8080")
	text = strings.ReplaceAll(text, "dial backoff", "dial tcp4 127.0.0.1:1: connect: connection refused")
	text = peerID.ReplaceAllString(text, "12D3KooW…")
	text = lookup.ReplaceAllString(text, "`allium why 0123456789abcdef`")
	text = whole.ReplaceAllString(text, "$1…$2$3")
	return dated.ReplaceAllString(text, "2026-01-02T15:04:05Z")
}
