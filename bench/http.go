package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"allium/bench/measure"
)

// The threads and connections of wrk, and the length of each run.
const (
	httpThreads, httpConns = 2, 32
	httpFor                = 4 * time.Second
	rangeBytes             = 64 << 10
)

// httpCase describes the requests to a node and to the programs that it is
// compared with.
type httpCase struct {
	name      string
	size      int64
	ranges    bool // random ranges of rangeBytes, aligned to chunk groups
	unaligned bool // ranges that begin anywhere
	against   string
	target    string
	p99       string // target of p99 ÷ p99
	cpu       string // target of the node's CPU a request
}

var httpCases = []httpCase{
	{name: "4 KiB", size: 4 << 10, against: "bare handler", target: "≥ 0.8", p99: "≤ 1.3", cpu: "≤ 30"},
	{name: "64 KiB", size: 64 << 10, against: "bare handler", target: "≥ 0.7"},
	{name: "1 MiB, verified", size: 1 << 20, against: "nginx", target: "≥ 0.5"},
	{name: "ranges of 64 KiB, verified", size: 1 << 30, ranges: true, against: "ServeContent", target: "≥ 0.65"},
	{name: "the same, not aligned", size: 1 << 30, ranges: true, unaligned: true, against: "ServeContent"},
}

// A file among so many others in its directory is measured beside the same file by its address.
const siblings = 10_000

// siblingsName is the name of that directory, and of the file, in what httpContent returns.
const siblingsName, siblingName = "siblings", "sibling"

// benchHTTP measures the gateway under wrk beside a bare handler, ServeContent
// and nginx, which serve the same bytes.
func benchHTTP(ctx context.Context, s *settings) (rows []row, err error) {
	nginx, err := nginxPath()
	if _, missing := exec.LookPath("wrk"); err != nil || missing != nil {
		fmt.Println("the gateway under wrk: not measured, as it needs the programs wrk and nginx")
		return nil, nil
	}
	dir, home := filepath.Join(s.dir, "http"), filepath.Join(s.dir, "httphome")
	addrs, err := httpContent(ctx, s, dir, home)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	node, err := s.startNode(ctx, home)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = node.Stop() }()
	bare, err := measure.Start(ctx, nil, self, "reference-http", dir)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = bare.Stop() }()
	web, err := startNginx(ctx, nginx, dir, s.dir)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = web.Stop() }()

	for _, c := range httpCases {
		name := strconv.FormatInt(c.size, 10)
		other := bare
		if c.against == "nginx" {
			other = web
		}
		script, err := c.script(s.dir)
		if err != nil {
			return nil, err
		}
		speed := row{What: c.name + " ÷ " + c.against, Unit: "×", Target: c.target}
		tail := row{What: c.name + ": p99 ÷ " + c.against, Unit: "×", Target: c.p99}
		cpu := row{What: c.name + ": CPU", Unit: "µs/request", Target: c.cpu}
		otherCPU := row{What: c.name + ": CPU of " + c.against, Unit: "µs/request"}
		rate := row{What: c.name + ": requests", Unit: "/s"}
		for i := range s.rounds + 1 { // the first warms both
			ours, err := wrk(ctx, node, node.Gate+"/o/"+addrs[name], script)
			if err != nil {
				return nil, err
			}
			theirs, err := wrk(ctx, other, other.Gate+"/"+name, script)
			if err != nil {
				return nil, err
			}
			if i == 0 {
				continue
			}
			speed.Values = append(speed.Values, ours.rate/theirs.rate)
			tail.Values = append(tail.Values, ours.p99.Seconds()/theirs.p99.Seconds())
			cpu.Values = append(cpu.Values, ours.cpu.Seconds()*1e6)
			otherCPU.Values = append(otherCPU.Values, theirs.cpu.Seconds()*1e6)
			rate.Values = append(rate.Values, ours.rate)
		}
		rows = append(rows, speed, tail, cpu, rate)
		if other == bare { // the CPU time of nginx is in other processes
			rows = append(rows, otherCPU)
		}
	}
	beside, err := benchSiblings(ctx, s, node, addrs)
	return append(rows, beside...), err
}

// benchSiblings measures a file below /b3/, in a directory of 10,000, beside the same file below /o/.
func benchSiblings(ctx context.Context, s *settings, node *process, addrs map[string]string) ([]row, error) {
	const what = "a file among 10,000 below /b3/"
	speed := row{What: what + " ÷ /o/", Unit: "×", Target: "≥ 0.8"}
	cpu := row{What: what + ": CPU", Unit: "µs/request"}
	for i := range s.rounds + 1 { // the first warms both
		below, err := wrk(ctx, node, node.Gate+"/b3/"+addrs[siblingsName]+"/"+url.PathEscape(listedName(siblings/2)),
			"")
		if err != nil {
			return nil, err
		}
		alone, err := wrk(ctx, node, node.Gate+"/o/"+addrs[siblingName], "")
		if err != nil {
			return nil, err
		}
		if i > 0 {
			speed.Values = append(speed.Values, below.rate/alone.rate)
			cpu.Values = append(cpu.Values, below.cpu.Seconds()*1e6)
		}
	}
	return []row{speed, cpu}, nil
}

// httpContent makes a file of each size, named after it, and a store of them;
// it returns their addresses.
func httpContent(ctx context.Context, s *settings, dir, home string) (map[string]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := unlimited(home); err != nil {
		return nil, err
	}
	addrs := map[string]string{}
	for _, c := range httpCases {
		name := strconv.FormatInt(c.size, 10)
		file := filepath.Join(dir, name)
		if _, err := os.Stat(file); err == nil {
			continue
		}
		if err := randomFile(file, c.size); err != nil {
			return nil, err
		}
		key, _, err := s.add(ctx, home, file)
		if err != nil {
			return nil, err
		}
		addrs[name] = key
	}
	among := filepath.Join(dir, siblingsName)
	if err := listedFiles(among, siblings); err != nil {
		return nil, err
	}
	for name, path := range map[string]string{
		siblingsName: among, siblingName: filepath.Join(among, listedName(siblings/2)),
	} {
		key, _, err := s.add(ctx, home, path)
		if err != nil {
			return nil, err
		}
		addrs[name] = key
	}
	return addrs, nil
}

// unlimited lets one address ask a node of that home as often as it can: no limit
// may be the measure, and wrk comes from one address.
func unlimited(home string) error {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	config := "[gateway]\nrate = 0.0\ninflight_per_ip = 0\nconns_per_ip = 0\n"
	return os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600)
}

// nginxPath finds nginx, which is not on every user's path.
func nginxPath() (string, error) {
	if name, err := exec.LookPath("nginx"); err == nil {
		return name, nil
	}
	return exec.LookPath("/usr/sbin/nginx")
}

// freeAddr returns an address on loopback at which nobody listens.
func freeAddr(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// startNginx serves dir with one worker for each of wrk's threads.
func startNginx(ctx context.Context, binary, dir, tmp string) (*process, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(tmp, "nginx.conf")
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;\n"
	}
	text := fmt.Sprintf(`%sdaemon off;
master_process on;
worker_processes %d;
pid %[3]s/nginx.pid;
error_log %[3]s/nginx.log;
events { worker_connections 1024; }
http {
	access_log off;
	sendfile on;
	tcp_nopush on;
	keepalive_requests 1000000000;
	open_file_cache max=100;
	server { listen %[4]s; root %[5]s; }
}
`, user, httpThreads, tmp, addr, dir)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, binary, "-p", tmp, "-c", conf)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{Cmd: cmd, Gate: "http://" + addr}
	for range 100 {
		d := net.Dialer{Timeout: time.Second}
		if c, err := d.DialContext(ctx, "tcp", addr); err == nil {
			return p, c.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	_, err = p.Stop()
	return nil, fmt.Errorf("nginx does not listen on %s: %w", addr, err)
}

// script writes what makes wrk ask for ranges; empty for none.
func (c httpCase) script(dir string) (string, error) {
	if !c.ranges {
		return "", nil
	}
	align := rangeBytes
	if c.unaligned {
		align = 1
	}
	name := filepath.Join(dir, "ranges.lua")
	return name, os.WriteFile(name, fmt.Appendf(nil, `
function init(args) math.randomseed(tonumber(tostring({}):sub(8)) or 1) end
function request()
	local from = math.random(0, math.floor((%d - %d) / %d)) * %[3]d
	wrk.headers["Range"] = string.format("bytes=%%d-%%d", from, from + %[2]d - 1)
	return wrk.format()
end
`, c.size, rangeBytes, align), 0o600)
}

// loaded holds the results of wrk, and the CPU time that the server took.
type loaded struct {
	rate float64 // requests a second
	p99  time.Duration
	cpu  time.Duration // of the server, a request
}

var (
	wrkRate  = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkP99   = regexp.MustCompile(`99%\s+([\d.]+)(us|ms|s)`)
	wrkTotal = regexp.MustCompile(`(\d+) requests in`)
	wrkBad   = regexp.MustCompile(`Non-2xx or 3xx responses: \d+|Socket errors: .*`)
)

// wrk loads url, which p serves.
func wrk(ctx context.Context, p *process, url, script string) (l loaded, err error) {
	args := []string{"-t" + strconv.Itoa(httpThreads), "-c" + strconv.Itoa(httpConns), "-d" + httpFor.String(),
		"--latency"}
	if script != "" {
		args = append(args, "-s", script)
	}
	before, err := p.CPU()
	if err != nil {
		return l, err
	}
	u, err := run(ctx, "wrk", append(args, url)...)
	if err != nil {
		return l, err
	}
	after, err := p.CPU()
	if err != nil {
		return l, err
	}
	if bad := wrkBad.FindString(u.out); bad != "" {
		return l, fmt.Errorf("%s: %s", url, bad)
	}
	var requests float64
	for _, f := range []struct {
		re *regexp.Regexp
		to *float64
	}{{wrkRate, &l.rate}, {wrkTotal, &requests}} {
		m := f.re.FindStringSubmatch(u.out)
		if m == nil {
			return l, fmt.Errorf("wrk printed no %s: %s", f.re, u.out)
		}
		if *f.to, err = strconv.ParseFloat(m[1], 64); err != nil {
			return l, err
		}
	}
	m := wrkP99.FindStringSubmatch(u.out)
	if m == nil || requests == 0 {
		return l, fmt.Errorf("wrk printed no p99: %s", u.out)
	}
	if l.p99, err = time.ParseDuration(m[1] + strings.Replace(m[2], "us", "µs", 1)); err != nil {
		return l, err
	}
	l.cpu = time.Duration(float64(after-before) / requests)
	return l, nil
}

// files is the bare handler of dir: what is asked for whole comes from memory,
// what is asked for in ranges through ServeContent.
func files(dir string) (http.Handler, error) {
	mux := http.NewServeMux()
	for _, c := range httpCases {
		name := strconv.FormatInt(c.size, 10)
		switch {
		case c.unaligned: // the same file again
		case c.ranges:
			f, err := os.Open(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			mux.HandleFunc("/"+name, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/octet-stream")
				http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(f, 0, c.size))
			})
		default:
			body, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			mux.HandleFunc("/"+name, func(w http.ResponseWriter, _ *http.Request) {
				h := w.Header()
				h.Set("Content-Type", "application/octet-stream")
				h.Set("Content-Length", name)
				_, _ = w.Write(body) // wrk went away
			})
		}
	}
	return mux, nil
}
