package gossip

import (
	"fmt"
	"testing"
	"time"
)

// TestSpread checks the mean delay of SPEC §4 in virtual time: 20 nodes with a round trip of 50 ms each
// publish a message, and every other node receives it.
func TestSpread(t *testing.T) {
	for _, flood := range []bool{true, false} {
		t.Run(fmt.Sprintf("flood=%t", flood), func(t *testing.T) {
			if testing.Short() && !flood {
				t.Skip("measured in full runs")
			}
			in(t, 20, func(t *testing.T, sn *simNet) {
				nodes := sn.startAll(func(c *Config, _ *Topic) { c.FloodPublish = flood })
				defer stopAll(nodes)
				sn.weave(4)
				time.Sleep(3 * heartbeat) // the mesh forms

				said := map[string]time.Time{}
				for i, n := range nodes {
					data := fmt.Sprintf("message %d", i)
					said[data] = time.Now()
					if err := n.Publish(t.Context(), testTopic, []byte(data)); err != nil {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(2 * time.Second)
				var sum, worst time.Duration
				count := 0
				for i, n := range nodes {
					if _, own := n.has(fmt.Sprintf("message %d", i)); own {
						t.Errorf("node %d was handed its own message", i)
					}
					for data, at := range said {
						if got, ok := n.has(data); ok {
							count++
							sum += got.Sub(at)
							worst = max(worst, got.Sub(at))
						}
					}
					if n.n.Load() != 19 {
						t.Errorf("node %d handled %d messages, want 19", i, n.n.Load())
					}
				}
				if count != 20*19 {
					t.Fatalf("%d of %d delivered", count, 20*19)
				}
				mean := sum / time.Duration(count)
				t.Logf("%d delivered, mean %s, worst %s", count, mean, worst)
				if mean > 120*time.Millisecond {
					t.Errorf("mean %s, want at most 120ms", mean)
				}
			})
		})
	}
}
