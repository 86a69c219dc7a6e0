package kad

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden traces")

// TestTraces runs testdata/*.trace: an event a line, and after each, indented,
// the actions that follow. Peers and the target are keys of one byte, in hex.
func TestTraces(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.trace")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			old, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := replay(old)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			} else if !bytes.Equal(got, old) {
				t.Errorf("got\n%s\nwant\n%s", got, old)
			}
		})
	}
}

// replay keeps events and comments and writes the actions anew.
func replay(trace []byte) ([]byte, error) {
	var out bytes.Buffer
	cfg, q := Find(), Query[byte]{Self: 0xff}
	var l *Lookup[byte]
	lines := bufio.NewScanner(bytes.NewReader(trace))
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "    ") {
			continue
		}
		out.WriteString(line + "\n")
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if words[0] == "lookup" {
			for _, w := range words[1:] {
				if err := setting(&cfg, &q, w); err != nil {
					return nil, err
				}
			}
			var err error
			if l, err = New(cfg, q); err != nil {
				return nil, err
			}
			continue
		}
		actions, err := event(l, words)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		for _, a := range actions {
			if a.Kind == Done {
				r := l.Result()
				fmt.Fprintf(&out, "    done %v after %v: closest [", r.End, r.Took)
				for i, p := range r.Closest {
					fmt.Fprintf(&out, "%s%02x", strings.Repeat(" ", min(i, 1)), p.ID)
				}
				fmt.Fprintf(&out, "], hops %d, probes %d, hedges %d, failed %d, canceled %d\n",
					r.Hops, r.Probes, r.Hedges, r.Failed, r.Canceled)
				continue
			}
			fmt.Fprintf(&out, "    %v %02x, hop %d\n", a.Kind, a.Peer.ID, a.Hop)
		}
		if next, more := l.Next(); more {
			fmt.Fprintf(&out, "    next tick %v\n", next)
		}
	}
	return out.Bytes(), lines.Err()
}

// setting is name=value of the line that prepares the lookup.
func setting(cfg *Config, q *Query[byte], word string) (err error) {
	name, value, _ := strings.Cut(word, "=")
	number := func(to *int) { *to, err = strconv.Atoi(value) }
	duration := func(to *time.Duration) { *to, err = time.ParseDuration(value) }
	switch name {
	case "patient":
		*cfg = Publish()
	case "k":
		number(&cfg.K)
	case "alpha":
		number(&cfg.Alpha)
	case "beta":
		number(&cfg.Beta)
	case "hops":
		number(&cfg.Hops)
	case "max":
		number(&cfg.MaxProbes)
	case "hedge":
		duration(&cfg.HedgeAfter)
	case "deadline":
		duration(&cfg.Deadline)
	case "fast": // that peer answered within 40 ms so far
		var rtt RTT
		rtt.Observe(40 * time.Millisecond)
		q.HedgeAfter = func(p byte) time.Duration {
			if fmt.Sprintf("%02x", p) == value {
				return rtt.HedgeAfter(cfg.HedgeAfter)
			}
			return cfg.HedgeAfter
		}
	case "providers":
		var n int
		number(&n)
		q.Quorum = Providers(n)
	case "values":
		var n int
		number(&n)
		q.Quorum = Values(n)
	default:
		err = fmt.Errorf("unknown setting %q", word)
	}
	return err
}

// event is "start|answer|fail|tick TIME [FROM] [PEER…] [+provider] [+value]".
func event(l *Lookup[byte], words []string) ([]Action[byte], error) {
	if l == nil || len(words) < 2 {
		return nil, fmt.Errorf("no lookup, or no time")
	}
	now, err := time.ParseDuration(words[1])
	if err != nil {
		return nil, err
	}
	var r Reply[byte]
	for _, w := range words[2:] {
		switch w {
		case "+provider":
			r.Providers++
		case "+value":
			r.Values++
		default:
			b, err := strconv.ParseUint(w, 16, 8)
			if err != nil {
				return nil, err
			}
			r.Closer = append(r.Closer, Peer[byte]{ID: byte(b), Key: Key{byte(b)}})
		}
	}
	var from byte
	if words[0] == "answer" || words[0] == "fail" {
		if len(r.Closer) == 0 {
			return nil, fmt.Errorf("from whom?")
		}
		from, r.Closer = r.Closer[0].ID, r.Closer[1:]
	}
	switch words[0] {
	case "start":
		return l.Start(now, r.Closer), nil
	case "answer":
		return l.Answer(now, from, r), nil
	case "fail":
		return l.Fail(now, from), nil
	case "tick":
		return l.Tick(now), nil
	}
	return nil, fmt.Errorf("unknown event")
}
