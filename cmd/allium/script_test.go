package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"allium/internal/testkit"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"allium": func() { os.Exit(run(os.Args[1:])) },
	})
}

// patience is how long a test waits for what is bound to come: a hang is a
// failure, and a busy machine is none.
const patience = 2 * time.Minute

// TestScripts runs testdata/script/*.txt: real processes of this program, each
// node with a home below $WORK. Beside testscript's own commands there are
//
//	node NAME [ARG…]     start `allium run` with home $WORK/NAME; sets $NAME_ADDR,
//	                     $NAME_ID, $NAME_GATEWAY and $NAME_ADMIN
//	signal NAME SIG      send TERM, INT or KILL to it and wait; TERM must end with 0
//	flip FILE OFFSET     turn a bit of the file's byte
//	home ARCHIVE DIR     unpack testdata/ARCHIVE, a home of an earlier version
//	random FILE SIZE     write that many bytes that no compressor likes
//	get URL [HEADER: V]  GET; status line, headers and body go to the file "response",
//	                     the version of HTTP to "proto"; trusts $CA
//	cert NAME…           write ca.pem, cert.pem and key.pem for names and addresses
//	send METHOD PAGE FILE [HEADER: V]…  the same with FILE (- for nothing) as the body, the
//	                     capability in the file "token", and $LOCATION for the answer's
//	await CODE METHOD PAGE FILE  send, again and again until the answer has that status
//	root VAR FILE        set $VAR to the first b3: address in the file
//	sees FILE PATTERN    wait until a line of the file, which may grow, matches
//	share VAR FILE       set $VAR to the ticket in the file
//	liar VAR HOW URL     set $VAR to a gateway that passes on what URL answers, changed: see liar_test.go
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: false,
		Setup: func(env *testscript.Env) error {
			env.Setenv("ALLIUM_HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("TMPDIR", env.WorkDir)
			env.Setenv("ALLIUM_LISTEN__MDNS", "false") // no packet leaves the machine
			scenarios, err := filepath.Abs("../../testnet/testdata")
			if err != nil {
				return err
			}
			env.Setenv("SCENARIOS", scenarios)
			docs, err := filepath.Abs("../../docs")
			if err != nil {
				return err
			}
			env.Setenv("DOCS", docs)
			packs, err := filepath.Abs("../../gateway/pack")
			if err != nil {
				return err
			}
			env.Setenv("PACKS", packs)
			nodes := &scriptNodes{running: map[string]*scriptNode{}}
			env.Values[nodesKey{}] = nodes
			env.Defer(nodes.killAll)
			env.Values[deferKey{}] = env.Defer
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"node": cmdNode, "signal": cmdSignal, "flip": cmdFlip, "random": cmdRandom, "get": cmdGet, "send": cmdSend,
			"await": cmdAwait, "root": cmdRoot, "liar": cmdLiar, "cert": cmdCert, "home": cmdHome,
			"sees":  cmdSees,
			"share": cmdShare, "pack": cmdPack,
		},
	})
}

func cmdShare(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: share VAR FILE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

type nodesKey struct{}

type scriptNodes struct {
	mu      sync.Mutex
	running map[string]*scriptNode
}

type scriptNode struct {
	cmd  *exec.Cmd
	errs bytes.Buffer
}

func (n *scriptNodes) killAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.running {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

func nodesOf(ts *testscript.TestScript) *scriptNodes { return ts.Value(nodesKey{}).(*scriptNodes) }

func cmdNode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: node NAME [ARG…]")
	}
	name := args[0]
	s := &scriptNode{}
	s.cmd = exec.Command("allium", append([]string{"--home", ts.MkAbs(name), "run", "--profile", "testnet"},
		args[1:]...)...)
	s.cmd.Dir = ts.MkAbs(".")
	s.cmd.Stderr = &s.errs
	s.cmd.Env = append(os.Environ(), "TMPDIR="+ts.Getenv("TMPDIR"))
	out, err := s.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(s.cmd.Start())
	nodes := nodesOf(ts)
	nodes.mu.Lock()
	nodes.running[name] = s
	nodes.mu.Unlock()
	ready := false
	for sc := bufio.NewScanner(out); !ready && sc.Scan(); {
		line := sc.Text()
		for prefix, v := range map[string]string{"peer ": "_ID", "gateway on ": "_GATEWAY", "admin on ": "_ADMIN"} {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				ts.Setenv(name+v, rest)
			}
		}
		if addr, ok := strings.CutPrefix(line, "listening on "); ok && strings.Contains(addr, "/tcp/") {
			ts.Setenv(name+"_ADDR", addr)
		}
		ready = strings.HasPrefix(line, "ready")
	}
	if !ready {
		_ = s.cmd.Wait()
		ts.Fatalf("node %s ended before it was ready: %s", name, s.errs.String())
	}
	if slices.Contains(args, "--bootstrap") {
		awaitBootstrap(ts, name)
	}
}

// awaitBootstrap waits until a node knows a peer: it is ready to be asked before
// that, and then says so.
func awaitBootstrap(ts *testscript.TestScript, name string) {
	var body []byte
	joined := testkit.Within(patience, func() bool {
		res, err := http.Get(ts.Getenv(name+"_ADMIN") + "/readyz")
		ts.Check(err)
		body, err = io.ReadAll(res.Body)
		ts.Check(errors.Join(err, res.Body.Close()))
		var ready struct {
			Gates []struct {
				Name  string
				Ready bool
			}
		}
		ts.Check(json.Unmarshal(body, &ready))
		open := map[string]bool{}
		for _, g := range ready.Gates {
			open[g.Name] = g.Ready
		}
		return open["bootstrap"] && open["routing_table"] // connected, and in the table that lookups begin with
	})
	if !joined {
		ts.Fatalf("node %s reached no seed: %s", name, body)
	}
}

func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal NAME TERM|INT|KILL")
	}
	sig, ok := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT,
		"KILL": syscall.SIGKILL}[args[1]]
	nodes := nodesOf(ts)
	nodes.mu.Lock()
	s := nodes.running[args[0]]
	delete(nodes.running, args[0])
	nodes.mu.Unlock()
	if !ok || s == nil {
		ts.Fatalf("no signal %s or no node %s", args[1], args[0])
	}
	ts.Check(s.cmd.Process.Signal(sig))
	err := s.cmd.Wait()
	if sig != syscall.SIGKILL && err != nil {
		ts.Fatalf("node %s: %v: %s", args[0], err, s.errs.String())
	}
}

func cmdSees(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sees FILE PATTERN")
	}
	line, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	var text []byte
	matches := testkit.Within(patience, func() bool {
		text, err = os.ReadFile(ts.MkAbs(args[0])) // it may not exist yet
		return line.Match(text)
	})
	if !matches {
		ts.Fatalf("no line of %s matches %s: %v\n%s", args[0], args[1], err, text)
	}
}

func cmdFlip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip FILE OFFSET")
	}
	at, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	names, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(names) != 1 {
		ts.Fatalf("%s names %d files", args[0], len(names))
	}
	f, err := os.OpenFile(names[0], os.O_RDWR, 0)
	ts.Check(err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	ts.Check(err)
	b[0] ^= 0x10
	_, err = f.WriteAt(b[:], at)
	ts.Check(err)
}

func cmdRandom(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: random FILE SIZE")
	}
	size, err := strconv.Atoi(args[1])
	ts.Check(err)
	p := make([]byte, size)
	x := uint64(size) + 0x9e3779b97f4a7c15
	for i := range p {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		p[i] = byte(x)
	}
	ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(args[0])), 0o755))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), p, 0o644))
}

func cmdGet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: get URL [HEADER: VALUE…]")
	}
	req, err := http.NewRequest(http.MethodGet, args[0], nil)
	ts.Check(err)
	fetch(ts, req, args[1:])
}

func cmdSend(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: send METHOD URL FILE [HEADER: VALUE…]")
	}
	var body io.Reader
	if args[2] != "-" {
		body = strings.NewReader(ts.ReadFile(args[2]))
	}
	req, err := http.NewRequest(args[0], args[1], body)
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile("token")))
	if at := fetch(ts, req, args[3:]).Get("Location"); at != "" {
		ts.Setenv("LOCATION", at)
	}
}

func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: await CODE METHOD URL FILE [HEADER: VALUE…]")
	}
	answered := testkit.Within(patience, func() bool {
		cmdSend(ts, false, args[1:])
		return strings.HasPrefix(ts.ReadFile("response"), args[0]+" ")
	})
	if !answered {
		ts.Fatalf("there was no %s, but %s", args[0], ts.ReadFile("response"))
	}
}

// fetch sends a request and keeps its answer in the files "response" and "body".
func fetch(ts *testscript.TestScript, req *http.Request, headers []string) http.Header {
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		req.Header.Set(k, v)
	}
	client := &http.Client{
		Timeout:       patience,
		Transport:     transportOf(ts),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	var b bytes.Buffer
	b.WriteString(resp.Status + "\n")
	_ = resp.Header.Write(&b)
	b.WriteString("\n")
	b.Write(body)
	if err != nil {
		b.WriteString("\ncut: " + err.Error() + "\n")
	}
	ts.Check(os.WriteFile(ts.MkAbs("response"), b.Bytes(), 0o644))
	ts.Check(os.WriteFile(ts.MkAbs("body"), body, 0o644))
	ts.Check(os.WriteFile(ts.MkAbs("proto"), []byte(resp.Proto+"\n"), 0o644))
	return resp.Header
}

func cmdRoot(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: root VAR FILE")
	}
	text := ts.ReadFile(args[1])
	i := strings.Index(text, "b3:")
	if i < 0 || len(text) < i+67 {
		ts.Fatalf("no address in %q", text)
	}
	ts.Setenv(args[0], text[i:i+67])
}
