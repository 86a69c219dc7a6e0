package gossip

import (
	"context"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

func TestConfig(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Fatal(err)
	}
	for key, change := range map[string]func(*Config){
		"relay_fanout": func(c *Config) { c.RelayFanout = 1 },
		"total_rate":   func(c *Config) { c.TotalRate = c.BurstFrames - 1 },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "gossip."+key+" ") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestMesh checks that gossipsub accepts the parameters for every allowed relay_fanout.
func TestMesh(t *testing.T) {
	for d := int64(2); d <= 32; d++ {
		c := DefaultConfig()
		c.RelayFanout = d
		p := c.mesh()
		if p.D != int(d) || p.Dlo > p.D || p.Dlo < 1 || p.Dhi <= p.D || p.Dout >= p.Dlo ||
			p.Dout*2 >= p.D && p.Dout > 0 ||
			p.Dscore > p.Dhi {
			t.Errorf("%d: D %d lo %d hi %d score %d out %d", d, p.D, p.Dlo, p.Dhi, p.Dscore, p.Dout)
		}
	}
}

// TestMessageID checks that the ID covers topic, author and data, and nothing else.
func TestMessageID(t *testing.T) {
	type said struct{ topic, from, data string }
	id := func(s said, seq, sig string) string {
		return messageID(
			&pb.Message{Topic: &s.topic, From: []byte(s.from), Data: []byte(s.data),
				Seqno: []byte(seq), Signature: []byte(sig)},
		)
	}
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[ab]{0,3}`)
		one := said{part.Draw(t, "topic"), part.Draw(t, "from"), part.Draw(t, "data")}
		two := said{part.Draw(t, "topic"), part.Draw(t, "from"), part.Draw(t, "data")}
		if a, b := id(one, "1", "x"), id(two, "2", "y"); (a == b) != (one == two) {
			t.Fatalf("%v and %v: ids equal: %t", one, two, a == b)
		}
	})
}

func TestCost(t *testing.T) {
	for size, want := range map[int]int{
		0: 1, 1: 1, frameBytes: 1, frameBytes + 1: 2, MaxMessage: MaxMessage / frameBytes,
	} {
		if got := cost(size); got != want {
			t.Errorf("%d bytes cost %d, want %d", size, got, want)
		}
	}
}

// TestOffences checks that offences add up and halve every offenceHalfLife.
func TestOffences(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var p peerState
	if p.offencesAt(now) != 0 {
		t.Errorf("the state of a new peer has %g", p.offencesAt(now))
	}
	for range 4 {
		p.addOffence(now)
	}
	for after, want := range map[time.Duration]float64{0: 4, offenceHalfLife: 2, 2 * offenceHalfLife: 1} {
		if got := p.offencesAt(now.Add(after)); math.Abs(got-want) > 1e-9 {
			t.Errorf("after %s: %g, want %g", after, got, want)
		}
	}
	if p.offencesAt(now) <= maxOffences || p.offencesAt(now.Add(offenceHalfLife)) > maxOffences {
		t.Error("the fourth offence is not the last, or is never forgotten")
	}
}

// TestReasons checks that every listed reason of pubsub maps to a known reason other than dropOther.
func TestReasons(t *testing.T) {
	known := map[string]bool{}
	for _, r := range dropReasons {
		if known[r] {
			t.Errorf("%s is listed twice", r)
		}
		known[r] = true
	}
	for theirs, ours := range rejections {
		if !known[ours] || ours == dropOther {
			t.Errorf("%q is %q", theirs, ours)
		}
	}
}

// TestDemoted checks that lines below error are logged at debug level only.
func TestDemoted(t *testing.T) {
	var out strings.Builder
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		out.Reset()
		log := slog.New(demoted{slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})}).With("a",
			1).WithGroup("g")
		log.Warn("a warning")
		log.Error("an error")
		if got := strings.Contains(out.String(), "a warning"); got != (level == slog.LevelDebug) {
			t.Errorf("%s: the warning is logged: %t", level, got)
		}
		if strings.Contains(out.String(), "WARN") || !strings.Contains(out.String(), "level=ERROR") {
			t.Errorf("%s: %s", level, out.String())
		}
	}
}

// bench returns a service on which Run was not called.
func bench(t testing.TB) *Service {
	t.Helper()
	s, err := New(DefaultConfig(), Deps{Host: idHost{id: "victim"}, Topics: []Topic{{
		Name:     testTopic,
		Validate: func(context.Context, Message) error { return nil },
		Handle:   func(context.Context, Message) {},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// FuzzInspect checks that, whatever an RPC holds, the messages that inspect leaves have a known topic,
// an allowed size and fit the budget, and that all others are counted as dropped.
func FuzzInspect(f *testing.F) {
	topic := testTopic
	for _, rpc := range []*pb.RPC{
		{}, {Publish: []*pb.Message{{}}},
		{Publish: []*pb.Message{{Topic: &topic, Data: []byte("x")}, {Topic: &topic, From: []byte("victim")}}},
		{Publish: []*pb.Message{{Topic: &topic, Data: make([]byte, 3*frameBytes)}}},
	} {
		data, err := proto.Marshal(rpc)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var rpc pubsub.RPC
		if proto.Unmarshal(data, &rpc.RPC) != nil {
			return
		}
		synctest.Test(t, func(t *testing.T) { // no time passes in the bubble, so no budget is refilled
			s := bench(t)
			n, spent := len(rpc.Publish), 0
			s.inspect(t.Context(), "liar", &rpc)
			for _, m := range rpc.Publish {
				if m.GetTopic() != testTopic || len(m.Data) > MaxMessage || string(m.From) == "victim" {
					t.Errorf("kept %v", m)
				}
				spent += cost(len(m.Data))
				messageID(m)
			}
			if int64(spent) > s.cfg.BurstFrames {
				t.Errorf("kept %d frames", spent)
			}
			var dropped float64
			for _, reason := range dropReasons {
				dropped += testutil.ToFloat64(s.m.dropped.WithLabelValues(reason))
			}
			if rx := testutil.ToFloat64(s.m.rx); rx != float64(n) || rx != dropped+float64(len(rpc.Publish)) {
				t.Errorf("%g of %d counted, %g dropped, %d kept", rx, n, dropped, len(rpc.Publish))
			}
		})
	})
}
