// Command bench measures allium as whole processes against the thinnest
// honest programs that do the same work, in the same run and on the same
// machine: medians of interleaved rounds, so that a machine that gets slower
// meanwhile slows both sides.
//
//   - add against read + hash + write, and against dd conv=fdatasync;
//   - cold fetch of one large file between two processes over loopback TCP
//     against the reference pipe (pread + hash → one libp2p stream → hash +
//     write + fdatasync) and against a raw stream copy, and the same over QUIC;
//   - get of one large file to a file: from a peer over TCP against curl from nginx
//     over TLS (skipped without them), over QUIC against the reference pipe, and from
//     the own store against cp with a sync;
//   - add and cold fetch of ten thousand small files;
//   - fetch of the large file from three providers that send 100 MB/s each, and the bytes fetched twice when the
//     fetching node is killed half-way;
//   - start and idle memory of a node;
//   - a node of default limits that 32 peers ask for peers and providers, at the
//     rate it has to stand and at twice that;
//   - the first byte, through a gateway, of an object that a peer has to which
//     there is no connection;
//   - a small request over a session against an echo over a raw stream, in turn,
//     and as many as go;
//   - a node with two thousand sessions: memory of each, requests refused, and
//     whether it answers about its readiness meanwhile;
//   - the gateway under wrk, beside a bare handler, ServeContent and nginx (the
//     part http needs both programs);
//   - tiles of a pack that is a file, a database and an object, beside nginx with the same tiles as
//     files, go-pmtiles with the same pack and a bare handler with one tile (these need wrk, nginx and
//     make bin/tools/go-pmtiles), and the first byte of a tile that a peer has;
//   - a hundred clients that ask for one file of an https origin at once, and hits beside /o/;
//   - a page of thirty files at its own host in Chromium, from a node that has it and from one that gets it from a
//     peer, beside Caddy (needs both programs), and what 10,000 domains cost a node;
//   - the first byte of the page of a directory: sorted, and too long for that;
//   - a gateway that clients ask ten times its rate: how fast the answers are that
//     they get, beside those of a bare handler, what is refused, and memory;
//   - share and get by a ticket: how long after its start each has its first line or byte,
//     the rate beside a fetch between nodes that run, TCP beside QUIC, and what an idle
//     node does;
//   - how soon a node knows of a name that another one publishes, and finds one that
//     it never heard of;
//   - a gateway, and a bare server, on which five thousand slow clients of a process
//     of their own hold connections: how fast others are answered;
//   - a cluster: how soon its nodes know each other, and an add that waits for copies
//     or shards on other nodes beside a cold fetch.
//
// `make bench` builds bin/allium and runs it; a part alone is
//
//	go run ./bench -allium bin/allium -only load -rounds 5
//
// The figures of a load are worth what the machine had left for it: its table
// says what other programs took.
//
// The program starts itself again for the reference processes; see reference.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"allium/bench/bed"
	"allium/bench/bulk"
	"allium/bench/lookups"
	"allium/bench/measure"
	"allium/bench/redundancy"
	"allium/bench/sessions"
	"allium/bench/sites"
	"allium/bench/web"
	"allium/internal/limits"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := reference(ctx, os.Args[1:])
	if errors.Is(err, errNotReference) {
		err = benchmark(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func benchmark(ctx context.Context) (err error) {
	s := bed.Settings{}
	size := limits.Bytes(1 << 30)
	flag.StringVar(&s.Allium, "allium", "../bin/allium", "the binary to measure")
	flag.StringVar(&s.Dir, "dir", "", "directory on the disk to measure (default: the temporary directory)")
	flag.TextVar(&size, "size", size, "size of the large file")
	flag.IntVar(&s.Files, "files", 10_000, "how many files of 4 KiB")
	flag.IntVar(&s.Rounds, "rounds", 5, "rounds of each measurement")
	flag.DurationVar(&s.Hold, "hold", time.Minute, "how long many sessions are held, and an overload lasts")
	only := flag.String("only", "", "parts to measure, with commas between: "+partNames()+"; empty for all")
	flag.Parse()
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if s.Rounds < 1 || s.Files < 1 || size < 1 || s.Hold < time.Second {
		return errors.New("-rounds, -files and -size must be at least 1, -hold at least 1s")
	}
	s.Size = int64(size)
	if s.Allium, err = filepath.Abs(s.Allium); err != nil {
		return err
	}
	if s.Dir, err = os.MkdirTemp(s.Dir, "allium-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.Dir)) }()
	ctx, cancel := context.WithCancel(ctx) // ends the nodes that an error leaves behind
	defer cancel()

	fmt.Printf(measure.Format, "what", "median", "min – max", "target")
	for _, p := range chosen {
		for _, measure := range p.measures {
			rows, err := measure(ctx, &s)
			if err != nil {
				return err
			}
			for _, r := range rows {
				fmt.Print(r)
			}
		}
	}
	return nil
}

// measurement measures something and returns the rows of the result.
type measurement = func(context.Context, *bed.Settings) ([]measure.Row, error)

// part is measurements that are taken together.
type part struct {
	name     string
	measures []measurement
}

var parts = []part{
	{"start", []measurement{bulk.Start}},
	{"large", []measurement{bulk.Add, bulk.Fetch, bulk.FetchQUIC}},
	// fetch reads what add stored
	{"get", []measurement{bulk.Get}},
	{"files", []measurement{bulk.Files}},
	{"load", []measurement{lookups.Load}},
	{"sources", []measurement{bulk.Sources}},
	{"resume", []measurement{bulk.Resume}},
	{"first", []measurement{bulk.FirstByte}},
	{"rpc", []measurement{sessions.RPC}},
	{"sessions", []measurement{sessions.Many}},
	{"http", []measurement{web.HTTP}},
	{"packs", []measurement{web.Packs, web.PackOfPeer}},
	{"fill", []measurement{web.Fill}},
	{"overload", []measurement{web.Overload}},
	{"ops", []measurement{web.Ops}},
	{"share", []measurement{bulk.Ticket, bulk.ByTicket, bulk.Idle}},
	{"sites", []measurement{func(ctx context.Context, s *bed.Settings) ([]measure.Row, error) {
		return sites.Measure(ctx, sites.Config{Allium: s.Allium, Dir: s.Dir, Rounds: s.Rounds})
	}}},
	{"listing", []measurement{web.Listing, web.Upload}},
	{"names", []measurement{lookups.Names}},
	{"slow", []measurement{web.Slow}},
	{"durability", []measurement{
		redundancy.Members, redundancy.Replicate, redundancy.Encode, redundancy.Degraded,
		redundancy.Repair, redundancy.Survive,
	}},
}

func partNames() string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	return strings.Join(names, ",")
}

// choose returns the parts of a list of names; all for an empty one.
func choose(list string) ([]part, error) {
	if list == "" {
		return parts, nil
	}
	var chosen []part
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only has %q, must be of %s", name, partNames())
		}
		chosen = append(chosen, parts[i])
	}
	return chosen, nil
}
