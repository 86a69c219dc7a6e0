package schedule

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

var update = flag.Bool("update", false, "write the golden traces")

// TestTraces runs testdata/*.trace: an event a line, and after each, indented,
// the actions that follow. Sizes, ranges and paces are in groups.
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
			got, err := replay(t, old)
			if err != nil {
				t.Fatalf("%v, after\n%s", err, got)
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
func replay(t *testing.T, trace []byte) ([]byte, error) {
	var out bytes.Buffer
	h := newHarness(t, Config{Providers: 4, Tries: 3})
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
		if len(words) < 2 {
			return nil, fmt.Errorf("%q: no time", line)
		}
		now, err := time.ParseDuration(words[0])
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		h.now = now
		if err := h.event(words[1], words[2:], &out); err != nil {
			return out.Bytes(), fmt.Errorf("%q: %w", line, err)
		}
		for _, a := range h.advance(now) {
			out.WriteString("    " + describe(a) + "\n")
		}
		if at, ok := h.m.Wake(); ok {
			fmt.Fprintf(&out, "    wake %v\n", at.Round(time.Microsecond))
		}
	}
	return out.Bytes(), lines.Err()
}

// event is one line: what happened, and to whom.
func (h *harness) event(name string, args []string, out *bytes.Buffer) error {
	var n [3]int64
	for i := range min(len(args), len(n)) {
		n[i], _ = strconv.ParseInt(args[i], 10, 64) // words are read below
	}
	if r := h.requests[RequestID(n[0])]; r == nil && slices.Contains([]string{"sent", "got", "ended"}, name) {
		return fmt.Errorf("no such request")
	}
	switch name {
	case "tick":
	case "whole": // WAITER
		h.join(WaiterID(n[0]), Demand{Whole: true})
	case "range": // WAITER START END [AHEAD]
		w := Demand{Start: n[1] * b3.GroupSize, End: n[2] * b3.GroupSize, Ahead: ReadAhead}
		if len(args) > 3 {
			w.Ahead, _ = strconv.ParseInt(args[3], 10, 64)
		}
		h.join(WaiterID(n[0]), w)
	case "leave": // WAITER
		h.leave(WaiterID(n[0]))
	case "read": // WAITER GROUP
		h.read(WaiterID(n[0]), n[1])
	case "granted":
		h.permitted = true
		h.m.Granted()
	case "found":
		h.found()
	case "none":
		h.none()
	case "pace": // PROVIDER GROUPS/S RTT
		rtt, err := time.ParseDuration(args[2])
		if err != nil {
			return err
		}
		h.m.Measured(ProviderID(n[0]), float64(n[1]*b3.GroupSize), rtt)
	case "sized": // GROUPS
		h.size(n[0])
	case "here": // FROM TO: stored by an earlier transfer
		for g := n[0]; g < n[1]; g++ {
			h.stored.put(g)
		}
		h.sized()
	case "sent": // REQUEST
		h.sent(RequestID(n[0]))
	case "got": // REQUEST UP-TO
		h.got(RequestID(n[0]), n[1])
	case "lost": // GROUP
		h.stored.here[n[0]] = false
		h.stored.held -= b3.GroupSize
		h.m.GroupLost()
	case "ended": // REQUEST OUTCOME [again]
		o, ok := status.Parse(args[1])
		if !ok {
			return fmt.Errorf("outcome %q", args[1])
		}
		if v := h.finish(RequestID(n[0]), o, len(args) > 2); v != (Verdict{}) {
			fmt.Fprintf(out, "    fault %v, retry %v, hedge %s\n", v.Fault, v.Retry,
				[...]string{"none", "won", "lost", "failed"}[v.Hedge])
		}
	case "heard": // PROVIDER failed|absent|complete|FROM TO: the groups of its part
		a := Holding{Failed: args[1] == "failed", Presence: b3.Absent}
		switch {
		case args[1] == "complete":
			a.Presence = b3.Complete
		case len(args) > 2:
			a = holding(func(g int64) bool { return n[1] <= g && g < n[2] }, n[2])
		}
		h.heard(ProviderID(n[0]), a)
	default:
		return fmt.Errorf("unknown event")
	}
	return nil
}

// holding is the answer of a provider that has some of the first n groups.
func holding(has func(g int64) bool, n int64) Holding {
	bits := make([]byte, (n+7)/8)
	for g := range n {
		if has(g) {
			bits[g/8] |= 1 << (g % 8)
		}
	}
	return Holding{Presence: b3.Partial, Groups: bits}
}

func describe(a Action) string {
	switch a.Kind {
	case Ask:
		s := fmt.Sprintf("ask %d: provider %d, %v", a.Request, a.Provider, a.Run)
		if a.Proof {
			s += " and the size"
		}
		return s
	case Cancel:
		return fmt.Sprintf("cancel %d: %v", a.Request, a.Why)
	case Trim, Notify:
		return fmt.Sprintf("%v %d at %d", a.Kind, a.Request, a.At)
	case Follow:
		return fmt.Sprintf("follow waiter %d at %d", a.Waiter, a.At)
	case Fail:
		return fmt.Sprintf("fail waiter %d", a.Waiter)
	case Question:
		return fmt.Sprintf("question provider %d", a.Provider)
	default:
		return a.Kind.String()
	}
}
