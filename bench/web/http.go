// Package web measures the gateway of a whole node, beside servers that do the same.
package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"allium/bench/bed"
	"allium/bench/measure"
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

// HTTP measures the gateway under wrk beside a bare handler, ServeContent
// and nginx, which serve the same bytes.
func HTTP(ctx context.Context, s *bed.Settings) (rows []measure.Row, err error) {
	nginx, err := nginxPath()
	if _, missing := exec.LookPath("wrk"); err != nil || missing != nil {
		fmt.Println("the gateway under wrk: not measured, as it needs the programs wrk and nginx")
		return nil, nil
	}
	dir, home := filepath.Join(s.Dir, "http"), filepath.Join(s.Dir, "httphome")
	addrs, err := httpContent(ctx, s, dir, home)
	if err != nil {
		return nil, err
	}
	node, err := s.StartNode(ctx, home)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = node.Stop() }()
	bare, err := bed.Reference(ctx, "http", dir)
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = bare.Stop() }()
	web, err := startNginx(ctx, nginx, dir, s.Dir)
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
		script, err := c.script(s.Dir)
		if err != nil {
			return nil, err
		}
		speed := measure.Row{What: c.name + " ÷ " + c.against, Unit: "×", Target: c.target}
		tail := measure.Row{What: c.name + ": p99 ÷ " + c.against, Unit: "×", Target: c.p99}
		cpu := measure.Row{What: c.name + ": CPU", Unit: "µs/request", Target: c.cpu}
		otherCPU := measure.Row{What: c.name + ": CPU of " + c.against, Unit: "µs/request"}
		rate := measure.Row{What: c.name + ": requests", Unit: "/s"}
		for i := range s.Rounds + 1 { // the first warms both
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
func benchSiblings(
	ctx context.Context, s *bed.Settings, node *measure.Process, addrs map[string]string,
) ([]measure.Row, error) {
	const what = "a file among 10,000 below /b3/"
	speed := measure.Row{What: what + " ÷ /o/", Unit: "×", Target: "≥ 0.8"}
	cpu := measure.Row{What: what + ": CPU", Unit: "µs/request"}
	for i := range s.Rounds + 1 { // the first warms both
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
	return []measure.Row{speed, cpu}, nil
}

// httpContent makes a file of each size, named after it, and a store of them;
// it returns their addresses.
func httpContent(ctx context.Context, s *bed.Settings, dir, home string) (map[string]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := bed.Unlimited(home); err != nil {
		return nil, err
	}
	addrs := map[string]string{}
	for _, c := range httpCases {
		name := strconv.FormatInt(c.size, 10)
		file := filepath.Join(dir, name)
		if _, err := os.Stat(file); err == nil {
			continue
		}
		if err := bed.RandomFile(file, c.size); err != nil {
			return nil, err
		}
		key, _, err := s.Add(ctx, home, file)
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
		key, _, err := s.Add(ctx, home, path)
		if err != nil {
			return nil, err
		}
		addrs[name] = key
	}
	return addrs, nil
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

// Files is the bare handler of dir: what is asked for whole comes from memory,
// what is asked for in ranges through ServeContent.
func Files(dir string) (http.Handler, error) {
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
